"""Every error that the package raises on purpose: what provokes it, its type, and its whole text; none without a row."""

import ast
from collections.abc import Callable, Iterator
import contextlib
from functools import cache
import io
import json
from pathlib import Path
import re
import shlex
import traceback
from typing import Any, NamedTuple

from google.protobuf.message import EncodeError
import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator
from onnx.shape_inference import InferenceError
import onnxruntime
from onnxruntime_extensions import get_library_path
import pytest
from subprocesses import be_killed

import maxpool_ort as mp
from maxpool_ort import (
    backend,
    bench,
    cli,
    commands,
    compare,
    conformance,
    drawing,
    explain,
    feed,
    files,
    graphs,
    inspection,
    limits,
    op,
    opset,
    report,
    runtimes,
    wire,
)
from maxpool_ort.kernel import threads
from maxpool_ort.workloads import cases

PACKAGE = Path(mp.__file__).parent
POOL = mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4], name="pool1")
ANY_LENGTH = mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, "L"], name="pool1")
CONVERTED = mp.convert_model(ANY_LENGTH).model
HALF = mp.convert_model(
    mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, "L"], dtype="float16", name="pool1")
).model
CALL = """
    <ir_version: 8, opset_import: ["": 18, "l": 1]> main (float[1, 1, 4] X) => (float[a, b, c] Y) { [call1] Y = l.f (X) }
    <domain: "l", opset_import: ["": 18, "l": 1]> f (x) => (y) { [pool1] y = MaxPool <kernel_shape = [2]> (x) }
"""
ADD = """
    <ir_version: 7, opset_import: ["": 12]> add (float[N, 1, 4] a, float[N, 1, 4] b) => (float[N, 1, 3] y, float[N, 1, 4] c)
    { c = Add (a, b) [pool1] y = MaxPool <kernel_shape = [2]> (c) }
"""
RANK_1 = conformance.read_kit(conformance.default_kit())[0]
RELU = '<ir_version: 7, opset_import: ["": 12]> g (float[2] X) => (float[2] Y) { Y = Relu (X) }'
SEQUENCE = """
    <ir_version: 7, opset_import: ["": 12]> g (seq(float[2]) X) => (int64 Y) { Y = SequenceLength (X) }
"""
TEXTS = '<ir_version: 7, opset_import: ["": 12]> g (string[2] X) => (string[2] Y) { Y = Identity (X) }'
RESULT = {"workload": "tiny", "dtype": "float32", "outputs": "Y", "threads": 1, "peer": "textbook", "ratio": 2.0}


def serialized(text: str) -> bytes:
    """A model in ONNX's text, as the bytes of its file."""
    return parse_model(text).SerializeToString()


def results(**changes: Any) -> dict[str, Any]:
    """What bench --json prints, with changes to its one result."""
    result = RESULT | {"ours_ms": 1.0, "peer_ms": 2.0, "pairs": 3} | changes
    return {"machine": {}, "growth": [], "results": [result]}


def array(values: Any) -> bytes:
    """The bytes of a .npy file."""
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def arrays(**values: Any) -> bytes:
    """The bytes of a .npz file."""
    file = io.BytesIO()
    np.savez(file, **values)
    return file.getvalue()


def external(location: str, model: str = RELU) -> ModelProto:
    """A model that keeps a tensor in another file."""
    made = parse_model(model)
    tensor = TensorProto(name="w", data_type=1, dims=[2], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    made.graph.initializer.append(tensor)
    return made


FILES = {
    "pool.onnx": POOL.SerializeToString(),
    "any.onnx": ANY_LENGTH.SerializeToString(),
    "converted.onnx": CONVERTED.SerializeToString(),
    "add.onnx": serialized(ADD),
    "refused.onnx": serialized(RELU.replace("Relu", "Unknown")),
    "relu.onnx": serialized(RELU),
    "texts.onnx": serialized(TEXTS),
    "huge.onnx": serialized(RELU.replace("[2]", "[4000000, 4000000]")),
    "sequence.onnx": serialized(SEQUENCE),
    "constant.onnx": serialized(RELU.replace("float[2] X", "").replace("Relu (X)", "Constant <value_floats = [1., 2.]> ()")),
    "out.onnx": external("../big.data").SerializeToString(),
    "gone.onnx": external("gone.data", RELU.replace("Relu (X)", "Add (X, w)")).SerializeToString(),
    "nul.onnx": external("nul\0").SerializeToString(),
    "big.onnx": external("big.data").SerializeToString(),
    "big.data": bytes(8),
    "bad/big.data": b"others",
    "text.onnx": b"no model",
    "empty.onnx": b"",
    "ort.onnx": bytes(4) + b"ORTM",
    "no graph.onnx": ModelProto(ir_version=7).SerializeToString(),
    "sample.onnx": serialized(RELU),
    "sample.npz": arrays(X=np.zeros(2, np.float32), more=np.zeros(1)),
    "damaged.onnx": serialized(RELU),
    "damaged.npz": b"no arrays",
    "a.npy": array(np.zeros((1, 1, 4), np.float32)),
    "double.npy": array(np.zeros((1, 1, 4))),
    "flat.npy": array(np.zeros(4, np.float32)),
    "long.npy": array(np.zeros((1, 1, 5), np.float32)),
    "none.npy": array(np.zeros((1, 1, 0), np.float32)),
    "text.npy": b"no array",
    "many.npz": arrays(b=np.zeros(1), c=np.zeros(1)),
    "results.json": json.dumps(results()).encode(),
    "other.json": b"{}",
    "unknown.json": json.dumps(results(workload="huge")).encode(),
    "kit/cases.json": b'[{"name": "a"}]',
    "held.json": b'{"cases": [], "runtimes": {}}',
    "words.json": json.dumps(results(ours_ms="fast")).encode(),
}  # fmt: skip


@pytest.fixture(scope="module")
def _files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files above: no row changes them."""
    folder = tmp_path_factory.mktemp("errors")
    for name, data in FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    (folder / "good").mkdir()
    (folder / "linked").mkdir()
    (folder / "linked" / "big.data").symlink_to(folder.parent / "somewhere.data")
    return folder


@pytest.fixture(autouse=True)
def _in_the_folder(_files: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let every row work there, and see that it leaves nothing."""
    monkeypatch.chdir(_files)
    before = sorted(_files.rglob("*"))
    yield
    assert sorted(_files.rglob("*")) == before


def node(
    *attributes: Any, op_type: str = "MaxPool", inputs: Any = ("X",), outputs: Any = ("Y",), **more: Any
) -> NodeProto:
    """A node named pool1; nothing is checked."""
    made = helper.make_node(op_type, inputs, outputs, name="pool1", **more)
    made.attribute.extend(helper.make_attribute(*each) for each in attributes)
    return made


def of(made: NodeProto, opset: int = 12, element_type: int = TensorProto.FLOAT) -> ModelProto:
    """A model of one node, from X to Y, that imports a version of ONNX's operators unless it is 0."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph([made], "g", [value("X", element_type, [1, 1, 4])], [value("Y", element_type, None)])
    made_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    if not opset:
        del made_model.opset_import[:]
    return made_model


def changed(model: ModelProto, change: Callable[[ModelProto], object]) -> ModelProto:
    """A copy of a model, changed."""
    copy = ModelProto()
    copy.CopyFrom(model)
    change(copy)
    return copy


def renamed(model: ModelProto) -> ModelProto:
    """A model in which what is called QQQQ has a name that is not UTF-8."""
    return ModelProto.FromString(model.SerializeToString().replace(b"QQQQ", b"\xff" * 4))


def functions(*calls: str) -> ModelProto:
    """A model of functions, each of which calls one."""
    bodies = "\n".join(
        f'<domain: "l", opset_import: ["": 18, "l": 1]> f{i} (x) => (y) {{ y = {called} (x) }}'
        for i, called in enumerate(calls)
    )
    return parse_model(CALL.partition("\n    <domain")[0].replace("l.f ", "l.f0 ") + bodies)


def patched(where: Any, name: str, value: Any, work: Callable[[], object]) -> Callable[[], None]:
    """Work while something has another value."""

    def patched_work() -> None:
        with pytest.MonkeyPatch.context() as patch:
            if isinstance(where, str):
                patch.setenv(where, name)
                patch.setattr(*value)
            else:
                patch.setattr(where, name, value)
            work()

    return patched_work


def raising(error: BaseException) -> Callable[..., Any]:
    """Make a function that fails."""

    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def not_utf_8() -> UnicodeDecodeError:
    """What protobuf in Python raises."""
    return UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")


class TooLarge:
    """Stands for a model of more than 2 GiB."""

    SerializeToString = staticmethod(raising(EncodeError("Failed to serialize proto")))


class FromPython:
    """Stands for a model of protobuf in Python."""

    ParseFromString = staticmethod(raising(not_utf_8()))


def run(model: ModelProto, length: int = 4) -> None:
    """Run a model on X of this length."""
    mp.InferenceSession(model).run(None, {"X": np.zeros((1, 1, length), np.float32)})


def run_plain(model: ModelProto) -> None:
    """Fail in onnxruntime's own session."""
    options = onnxruntime.SessionOptions()
    mp.register(options)
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options).run(
            None, {"X": np.zeros((1, 1, 4), np.float32)}
        )
    except Exception as error:  # noqa: BLE001 (onnxruntime's have no common base)
        failure = mp.failure_of(error)
        raise failure from failure.__cause__


def with_the_library() -> onnxruntime.SessionOptions:
    """Options that have onnxruntime-extensions' library already."""
    mp.register(onnxruntime.SessionOptions())
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(get_library_path())
    return options


def two_nodes() -> ModelProto:
    """A model of two nodes."""
    return parse_model("""
        <ir_version: 7, opset_import: ["": 12]> g (float[1, 1, 4] X) => (float[1, 1, 2] Y)
        { [pool1] a = MaxPool <kernel_shape = [2]> (X) [pool2] Y = MaxPool <kernel_shape = [2]> (a) }
    """)


def evaluate(model: ModelProto) -> None:
    """Run a model in onnx's evaluator."""
    ReferenceEvaluator(model, new_ops=mp.reference_ops).run(None, {"X": np.zeros((1, 1, 4), np.float32)})


class InferenceContext:
    """Stands for onnx's at a damaged node."""

    get_input_type = staticmethod(lambda _: None)
    get_attribute = staticmethod(
        lambda name: helper.make_attribute(name, "damaged" if name == wire.ATTRIBUTES else "MaxPool 'pool1'")
    )


def set_wire(text: str) -> ModelProto:
    """A converted model whose operator reads other attributes."""

    def change(model: ModelProto) -> None:
        for each in model.graph.node:
            for attribute in each.attribute:
                if attribute.name == wire.ATTRIBUTES:
                    attribute.s = text.encode()

    return changed(CONVERTED, change)


def attributes(**given: Any) -> Callable[[], object]:
    """Make MaxPoolAttributes, of a kernel of 2 unless it is given."""
    return lambda: mp.MaxPoolAttributes(**{"kernel_shape": [2], **given})


class Row(NamedTuple):
    """An error: what provokes it, its type or what a command exits with, what it names, and its text.

    ``…`` stands for what depends on the machine or on versions.
    """

    id: str
    provoke: Callable[[], object] | str
    kind: type[Exception] | int
    names: str
    text: str


A, M, S, T, L = (
    mp.InvalidAttributeError, mp.InvalidModelError, mp.InvalidShapeError, mp.UnsupportedTypeError, mp.MemoryLimitError,
)  # fmt: skip
E = mp.MaxPoolError
IN = "maxpool-ort: error: "
WIRE = "kernel_shape=2;dilations=1;pads=0,0;strides=1;ceil_mode=0;storage_order=0;auto_pad=NOTSET"

# fmt: off
ROWS = [Row(*row) for row in (
    # attributes
    ("no list", attributes(kernel_shape=3), A, "kernel_shape", "kernel_shape must be a list of integers, one per spatial axis, got 3"),
    ("a text for a list", attributes(strides="2"), A, "strides", "strides must be a list of integers, one per spatial axis, got '2'"),
    ("no list of pads", attributes(pads=1), A, "pads", "pads must be a list of integers, all begins, then all ends, got 1"),
    ("no integers", attributes(dilations=[1.5]), A, "dilations", "dilations must hold integers only, got (1.5,)"),
    ("no entries", attributes(kernel_shape=[]), A, "kernel_shape", "kernel_shape must have at least 1 entry, one per spatial axis, got none"),
    ("too many entries", attributes(strides=[1, 2, 3]), A, "strides", "strides must have 1 entry, one per spatial axis, got 3: (1, 2, 3)"),
    ("far too many entries", attributes(strides=[1] * 100), A, "strides", "strides must have 1 entry, one per spatial axis, got 100: (1, 1, 1, 1, 1, 1, 1, 1, ... 100 in all)"),
    ("too few pads", attributes(pads=[1]), A, "pads", "pads must have 2 entries, all begins, then all ends, got 1: (1,)"),
    ("too small", attributes(strides=[0]), A, "strides", "strides must have entries from 1 to 2**60, got (0,)"),
    ("too large", attributes(kernel_shape=[2**60 + 1]), A, "kernel_shape", "kernel_shape must have entries from 1 to 2**60, got (1152921504606846977,)"),
    ("negative pads", attributes(pads=[-1, 0]), A, "pads", "pads must have entries from 0 to 2**60, got (-1, 0)"),
    ("no flag", attributes(ceil_mode=2), A, "ceil_mode", "ceil_mode must be 0 or 1, got 2"),
    ("a text for a flag", attributes(storage_order="1"), A, "storage_order", "storage_order must be 0 or 1, got '1'"),
    ("no auto_pad", attributes(auto_pad="SAME"), A, "auto_pad", "auto_pad must be one of NOTSET, VALID, SAME_UPPER, SAME_LOWER, got 'SAME'"),
    ("pads beside auto_pad", attributes(pads=[1, 0], auto_pad="VALID"), A, "pads", "pads must be absent or all 0 beside auto_pad VALID, got (1, 0); drop one of the two"),
    # attributes of a node
    ("with the node's name", lambda: mp.convert_model(of(node(("kernel_shape", [0])))), A, "MaxPool 'pool1'", "MaxPool 'pool1': kernel_shape must have entries from 1 to 2**60, got (0,)"),
    ("no MaxPool", lambda: mp.MaxPoolAttributes.from_node(node(op_type="Relu")), A, "'pool1'", "expected a MaxPool node, got a Relu node 'pool1'"),
    ("unknown attribute", lambda: mp.MaxPoolAttributes.from_node(node(("kernel", [2]))), A, "MaxPool 'pool1'", "MaxPool 'pool1': unknown attribute 'kernel'; MaxPool-12 has auto_pad, ceil_mode, dilations, kernel_shape, pads, storage_order, strides"),
    ("attribute twice", lambda: mp.MaxPoolAttributes.from_node(node(("ceil_mode", 0), ("ceil_mode", 1))), A, "ceil_mode", "MaxPool 'pool1': attribute ceil_mode stands on the node twice; keep one"),
    ("of a function", lambda: mp.MaxPoolAttributes.from_node(onnx.NodeProto(op_type="MaxPool", output=["Y"], attribute=[onnx.AttributeProto(name="kernel_shape", ref_attr_name="k", type=7)])), A, "MaxPool with output 'Y'", "MaxPool with output 'Y': kernel_shape refers to the attribute 'k' of a function; inline the function first"),
    ("attribute type", lambda: mp.MaxPoolAttributes.from_node(node(("kernel_shape", 2))), A, "kernel_shape", "MaxPool 'pool1': kernel_shape must be an attribute of type INTS, got INT"),
    ("no kernel_shape", lambda: mp.convert_model(of(node())), A, "MaxPool 'pool1'", "MaxPool 'pool1': kernel_shape is required, and is missing"),
    ("no name and no output", lambda: mp.MaxPoolAttributes.from_node(NodeProto(op_type="MaxPool")), A, "MaxPool without", "MaxPool without name and output: kernel_shape is required, and is missing"),
    # the version of a node
    ("newer attribute", lambda: mp.convert_model(of(node(("kernel_shape", [2]), ("ceil_mode", 1)), 8)), A, "MaxPool 'pool1'", "MaxPool 'pool1': MaxPool-8 (opset 8) has no attribute 'ceil_mode', only storage_order, pads, auto_pad, strides, kernel_shape"),
    ("two inputs", lambda: mp.convert_model(of(node(("kernel_shape", [2]), inputs=["X", "Z"]))), A, "MaxPool 'pool1'", "MaxPool 'pool1': MaxPool-12 (opset 12) takes 1 input, X, got ['X', 'Z']"),
    ("three outputs", lambda: mp.convert_model(of(node(("kernel_shape", [2]), outputs=["Y", "I", "J"]))), A, "MaxPool 'pool1'", "MaxPool 'pool1': MaxPool-12 (opset 12) puts out Y or Y and Indices, got ['Y', 'I', 'J']"),
    ("two outputs of version 1", lambda: mp.convert_model(of(node(("kernel_shape", [2]), outputs=["Y", "I"]), 7)), A, "MaxPool 'pool1'", "MaxPool 'pool1': MaxPool-1 (opset 7) puts out Y, got ['Y', 'I']"),
    ("element type", lambda: mp.convert_model(of(node(("kernel_shape", [2])), 11, TensorProto.INT8)), T, "MaxPool 'pool1'", "MaxPool 'pool1': MaxPool-11 (opset 11) takes X of type tensor(double), tensor(float), tensor(float16), got tensor(int8)"),
    ("no opset", lambda: mp.convert_model(of(node(("kernel_shape", [2])), 0)), M, "MaxPool 'pool1'", "MaxPool 'pool1': the model must import a version of ONNX's operators, got none"),
    ("negative opset", lambda: mp.convert_model(of(node(("kernel_shape", [2])), -1)), M, "MaxPool 'pool1'", "MaxPool 'pool1': the model must import a version of ONNX's operators, got -1"),
    ("no opset to inspect", lambda: inspection.inspect_model(of(node(("kernel_shape", [2])), 0)), M, "MaxPool 'pool1'", "MaxPool 'pool1': the model must import a version of ONNX's operators, got none"),
    # shapes
    ("sizes that are no integers", lambda: attributes()().output_shape((1, 1, 2.5)), S, "X", "X must have sizes that are integers, got shape (1, 1, 2.5)"),
    ("no sizes", lambda: attributes()().output_shape(5), S, "X", "X must have sizes that are integers, got 5"),
    ("unknown sizes", lambda: attributes()().output_shape((1, 1, "L")), S, "X", "X must have sizes that are known, got shape (1, 1, 'L'); use output_dims"),
    ("rank", lambda: mp.max_pool(np.zeros((1, 1), np.float32), [2]), S, "X", "X must have rank 3 (N, C and one axis for each entry of kernel_shape (2,)), got rank 2: shape (1, 1)"),
    ("negative size", lambda: attributes()().output_shape((1, 1, -1)), S, "X", "X must have sizes >= 0, got shape (1, 1, -1)"),
    ("too small for a window", lambda: mp.max_pool(np.zeros((1, 1, 0), np.float32), [3]), S, "D1", "output size of spatial axis D1 must be >= 0, got -2: input 0 + pads 0 and 0 is too small for the effective kernel extent 3 (kernel 3, dilation 1) at stride 1; use a smaller kernel or dilation, or larger pads"),
    ("a window beyond 64 bits", lambda: attributes(kernel_shape=[2**60], dilations=[2**60])().output_shape((1, 1, 4)), S, "D1", f"effective kernel extent of spatial axis D1 must be at most 2**62, got {(2**60 - 1) * 2**60 + 1} (kernel {2**60}, dilation {2**60}); use a smaller kernel or dilation"),
    ("a model that always fails", lambda: mp.convert_model(changed(POOL, lambda m: m.graph.node[0].attribute[0].ints.append(2))), S, "MaxPool 'pool1'", "MaxPool 'pool1': X must have rank 4 (N, C and one axis for each entry of kernel_shape (2, 2)), got rank 3: shape (1, 1, 4)"),
    ("one that always fails, inspected", lambda: inspection.inspect_model(changed(POOL, lambda m: m.graph.node[0].attribute[0].ints.append(2))), S, "MaxPool 'pool1'", "MaxPool 'pool1': X must have rank 4 (N, C and one axis for each entry of kernel_shape (2, 2)), got rank 3: shape (1, 1, 4)"),
    # arguments
    ("dtype of an array", lambda: mp.max_pool(np.zeros((1, 1, 4), np.int32), [2]), T, "X", "X must have one of the dtypes float16, float32, float64, int8, uint8, got int32"),
    ("dtype of a model", lambda: mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4], dtype="int32"), T, "dtype", "dtype must be one of float16, float32, float64, int8, uint8, got int32"),
    ("no dtype", lambda: mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4], dtype="float99"), T, "dtype", "dtype must be one of float16, float32, float64, int8, uint8, got 'float99'"),
    ("opset of a model", lambda: mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4], opset=7), A, "opset", "opset must be an integer from 8 to …, the newest that this onnx knows, got 7"),
    ("opset that is no integer", lambda: mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4], opset="12"), A, "opset", "opset must be an integer from 8 to …, the newest that this onnx knows, got '12'"),
    ("guard", lambda: mp.convert_model(POOL, guard="none"), E, "guard", "guard must be one of needed, all, got 'none'"),
    ("select", lambda: mp.convert_model(POOL, select="some"), E, "select", "select must be 'all', 'recommended', a function or a list of node names, got 'some'"),
    ("select of what is no name", lambda: mp.convert_model(POOL, select=[1]), E, "select", "select must be 'all', 'recommended', a function or a list of node names, got [1]"),
    ("select of another node", lambda: mp.convert_model(POOL, select=["pool2"]), E, "'pool2'", "select must name MaxPool nodes of the model, got ['pool2']; it has ['pool1']"),
    ("select where some have no name", lambda: mp.convert_model(parse_model(RELU.replace("Relu", "MaxPool <kernel_shape = [2]>").replace("[2] ", "[1, 1, 4] ")), select=["pool2"]), E, "'pool2'", "select must name MaxPool nodes of the model, got ['pool2']; it has some without a name ('')"),
    ("select of many", lambda: mp.convert_model(POOL, select=[f"p{i}" for i in range(10)]), E, "'p0'", "select must name MaxPool nodes of the model, got ['p0', 'p1', 'p2', 'p3', 'p4', 'p5', 'p6', 'p7', ... 10 in all]; it has ['pool1']"),
    ("select where there is none", lambda: mp.convert_model(parse_model(RELU), select=["pool2"]), E, "'pool2'", "select must name MaxPool nodes of the model, got ['pool2']; it has none"),
    ("external_data", lambda: mp.convert_file("pool.onnx", "c.onnx", external_data="move"), E, "external_data", "external_data must be one of refuse, copy, link, got 'move'"),
    ("a path for a model", lambda: mp.convert_model("pool.onnx"), TypeError, "model", "model must be an onnx.ModelProto, got str; use convert_file for a path"),
    ("a path for a model to restore", lambda: mp.restore_model("x"), TypeError, "model", "model must be an onnx.ModelProto, got str; use restore_file for a path"),
    ("a path for a model to inspect", lambda: inspection.inspect_model("x"), TypeError, "model", "model must be an onnx.ModelProto, got str"),
    ("no model for a session", lambda: mp.InferenceSession(3), TypeError, "onnx.ModelProto", "expected a path, bytes or an onnx.ModelProto, got int"),
    ("no options", lambda: mp.register(None), TypeError, "SessionOptions", "expected onnxruntime.SessionOptions, got NoneType"),
    ("no options for a session", lambda: mp.InferenceSession(POOL, "options"), TypeError, "SessionOptions", "expected onnxruntime.SessionOptions, got str"),
    ("device", lambda: backend.prepare(POOL, "CUDA"), E, "device", "device must be CPU, got CUDA"),
    ("no device", lambda: backend.prepare(POOL, "XYZ"), E, "device", "device must be CPU, got XYZ"),
    ("an input too many", lambda: backend.run_model(POOL, [np.zeros((1, 1, 4), np.float32)] * 2), E, "inputs", "inputs must be at most 1, one for each of ['X'], got 2"),
    ("a name that the package does not have", lambda: mp.reference_op, AttributeError, "'reference_op'", "module 'maxpool_ort' has no attribute 'reference_op'"),
    ("number of threads", lambda: mp.set_num_threads(0), E, "threads", "the number of threads must be an integer >= 1, got 0"),
    ("number of threads in the environment", patched(threads.VARIABLE, "two", (threads, "_chosen", None), mp.get_num_threads), E, threads.VARIABLE, "the environment variable MAXPOOL_ORT_NUM_THREADS must be an integer >= 1, got 'two'"),
    ("memory limit", lambda: mp.set_memory_limit(-1), E, "memory limit", "the memory limit must be an integer >= 0, of bytes, got -1"),
    ("memory limit in the environment", patched(limits.VARIABLE, "much", (limits, "_limit", None), mp.get_memory_limit), E, limits.VARIABLE, "the environment variable MAXPOOL_ORT_MEMORY_LIMIT must be an integer >= 0, of bytes, got 'much'"),
    ("a converted model compared", lambda: compare.compare_model(CONVERTED, {}), E, "model", "the model is converted already; compare the original, or restore it first"),
    # explanations
    ("sizes to explain that are unknown", lambda: explain.explain(mp.MaxPoolAttributes(kernel_shape=[2]), (1, 1, "L")), S, "X", "X must have known spatial sizes of at most 2**60, got shape (1, 1, L); give --input-shape"),
    ("a size beyond all others to explain", lambda: explain.explain(mp.MaxPoolAttributes(kernel_shape=[2]), (1, 1, 2**60 + 1)), S, "X", f"X must have known spatial sizes of at most 2**60, got shape (1, 1, {2**60 + 1}); give --input-shape"),
    ("a window beyond 64 bits to explain", lambda: explain.explain(mp.MaxPoolAttributes(kernel_shape=[2**60], dilations=[2**60]), (1, 1, 4)), S, "D1", f"effective kernel extent of spatial axis D1 must be at most 2**62, got {(2**60 - 1) * 2**60 + 1} (kernel {2**60}, dilation {2**60}); use a smaller kernel or dilation"),
    ("unknown sizes of a model to explain", lambda: explain.explain_model(ANY_LENGTH), S, "MaxPool 'pool1'", "MaxPool 'pool1': X must have known spatial sizes of at most 2**60, got shape (1, 1, L); give --input-shape"),
    ("nothing to explain", lambda: explain.explain_model(parse_model(RELU)), E, "MaxPool", "the model must hold a MaxPool node that runs, got none"),
    ("a name that is not UTF-8 to explain", lambda: explain.explain_model(renamed(mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4], name="QQQQ"))), M, "not UTF-8", "the model holds a name that is not UTF-8: …"),
    ("one shape for two nodes", lambda: explain.explain_model(two_nodes(), input_dims=(1, 1, 4)), E, "--input-shape", "--input-shape is the shape of one node's X, got 2 nodes; use --node"),
    ("a node to explain", "explain pool.onnx --node pool2", 1, "'pool2'", f"{IN}--node must name MaxPool nodes of the model, got 'pool2'; there are 'pool1'"),
    ("attributes to explain", "explain --input-shape 1,1,4 --kernel-shape 0", 1, "kernel_shape", f"{IN}kernel_shape must have entries from 1 to 2**60, got (0,)"),
    ("rank to explain", "explain --input-shape 1,4 --kernel-shape 2", 1, "X", f"{IN}X must have rank 3 (N, C and one axis for each entry of kernel_shape (2,)), got rank 2: shape (1, 4)"),
    ("neither model nor attributes", "explain --input-shape 1,1,4", 2, "MODEL", "maxpool-ort explain: error: name a MODEL, or give --input-shape and --kernel-shape, and no --node"),
    ("a node of no model", "explain --input-shape 1,1,4 --kernel-shape 2 --node pool1", 2, "--node", "maxpool-ort explain: error: name a MODEL, or give --input-shape and --kernel-shape, and no --node"),
    ("a list of what is no integer", "explain --input-shape 1,1,L --kernel-shape 2", 2, "--input-shape", "maxpool-ort explain: error: argument --input-shape: must be integers with commas between them, got '1,1,L'"),
    ("too much to draw", patched(drawing, "_MOST_PANELS", 1, lambda: drawing.draw_explanations("a.png", explain.explain_model(two_nodes()))), E, "--plot", "--plot draws at most 1 axes, got 2; name nodes with --node"),
    # in onnx
    ("damaged wire in onnx's inference", lambda: opset._infer(InferenceContext()), InferenceError, "MaxPool 'pool1'", "MaxPool 'pool1': wire_attributes is damaged: 'damaged'; convert the original model again"),  # noqa: SLF001
    ("damaged wire in onnx's evaluator", lambda: evaluate(set_wire("damaged")), A, "MaxPool 'pool1'", "MaxPool 'pool1': wire_attributes is damaged: 'damaged'; convert the original model again (X: float32 (1, 1, 4); damaged)"),
    # runs
    ("a failed run", lambda: run(ANY_LENGTH, 0), S, "MaxPool 'pool1'", f"MaxPool 'pool1': output size of spatial axis D1 must be >= 0, got -1: input 0 + pads 0 and 0 is too small for the effective kernel extent 2 (kernel 2, dilation 1) at stride 1; use a smaller kernel or dilation, or larger pads (X: float32 (1, 1, 0); {WIRE})"),
    ("a failed run of float16", lambda: mp.InferenceSession(HALF).run(None, {"X": np.zeros((1, 1, 0), np.float16)}), S, "MaxPool 'pool1'", f"MaxPool 'pool1': output size of spatial axis D1 must be >= 0, got -1: input 0 + pads 0 and 0 is too small for the effective kernel extent 2 (kernel 2, dilation 1) at stride 1; use a smaller kernel or dilation, or larger pads (X: float32 (1, 1, 0); {WIRE})"),
    ("too much memory", lambda: mp.max_pool(np.zeros((1, 1, 4), np.float32), [1], pads=[2**50, 0]), L, "(1, 1, 1125899906842628)", "outputs of shape (1, 1, 1125899906842628) take 4,194,304.0 GiB, and the limit is … GiB; use smaller pads or larger strides, or raise the limit with maxpool_ort.set_memory_limit or MAXPOOL_ORT_MEMORY_LIMIT"),
    ("far too much memory", lambda: mp.max_pool(np.zeros([1] * 20, np.float32), [1] * 18, pads=[2**60] * 36), L, "(1, 1, ", f"outputs of shape (1, 1, {', '.join([str(2**61 + 1)] * 18)}) take more than 2**80 bytes, and the limit is … GiB; use smaller pads or larger strides, or raise the limit with maxpool_ort.set_memory_limit or MAXPOOL_ORT_MEMORY_LIMIT"),
    ("empty and too much for NumPy", lambda: mp.max_pool(np.zeros((0, 1, 4), np.float32), [1], pads=[2**60, 2**60]), L, "(0, 1, 2305843009213693956)", "outputs of shape (0, 1, 2305843009213693956) are empty, and NumPy has none whose other sizes are that large; use smaller pads or larger strides"),
    ("a little too much memory", patched(limits, "_limit", 10, lambda: mp.max_pool(np.zeros((1, 1, 4), np.float32), [1])), L, "(1, 1, 4)", "outputs of shape (1, 1, 4) take 16 bytes, and the limit is 10 bytes; use smaller pads or larger strides, or raise the limit with maxpool_ort.set_memory_limit or MAXPOOL_ORT_MEMORY_LIMIT"),
    ("too much memory in a run", patched(limits, "_limit", 10, lambda: run(ANY_LENGTH)), L, "MaxPool 'pool1'", f"MaxPool 'pool1': outputs of shape (1, 1, 3) take 12 bytes, and the limit is 10 bytes; use smaller pads or larger strides, or raise the limit with maxpool_ort.set_memory_limit or MAXPOOL_ORT_MEMORY_LIMIT (X: float32 (1, 1, 4); {WIRE})"),
    ("no memory", patched(op, "_prepared", raising(MemoryError("none left")), lambda: run(POOL)), E, "MaxPool 'pool1'", f"MaxPool 'pool1': MemoryError: none left (X: float32 (1, 1, 4); {WIRE})"),
    ("interrupted between two lines", patched(op, "_run", lambda *_, **__: (None, None), lambda: run(POOL)), E, "MaxPool 'pool1'", f"MaxPool 'pool1': interrupted (X: float32 (1, 1, 4); {WIRE})"),
    ("damaged wire", lambda: run_plain(set_wire("kernel_shape=2;damaged")), A, "MaxPool 'pool1'", "MaxPool 'pool1': wire_attributes is damaged: 'kernel_shape=2;damaged'; convert the original model again (X: float32 (1, 1, 4); kernel_shape=2;damaged)"),
    ("wire spelled otherwise", lambda: run_plain(set_wire(wire.encode(attributes()()).replace("=2", "=02"))), A, "MaxPool 'pool1'", f"MaxPool 'pool1': wire_attributes must read '{WIRE}', got '{WIRE.replace('=2', '=02')}'; convert the original model again (X: float32 (1, 1, 4); {WIRE.replace('=2', '=02')})"),
    ("wire that says something else", lambda: mp.restore_model(set_wire("damaged")), A, "MaxPool 'pool1'", f"MaxPool 'pool1': wire_attributes must say what the node's other attributes say, '{WIRE}', got b'damaged'; edit the original model and convert it again"),
    ("no onnxruntime-extensions", patched(op, "_missing", ImportError("No module named 'onnxruntime_extensions'"), lambda: run(POOL)), mp.MissingDependencyError, "onnxruntime-extensions", "onnxruntime-extensions must be there to run in sessions, and cannot be imported: No module named 'onnxruntime_extensions'; pip install onnxruntime-extensions"),
    ("its library twice", lambda: mp.InferenceSession(POOL, with_the_library()), E, "SessionOptions", "the SessionOptions had onnxruntime-extensions' library already, which a session takes once; make new SessionOptions, and let this session or maxpool_ort.register add it"),
    # models
    ("a function twice", lambda: mp.convert_model(changed(functions("Relu"), lambda m: m.functions.add().CopyFrom(m.functions[0]))), M, "model-local function", "model-local functions must be defined once, got 'f0' of domain 'l' 2 times; remove all but one"),
    ("a circle of functions", lambda: mp.convert_model(functions("l.f1", "l.f0")), M, "'f0'", "model-local functions must not call themselves, got 'f0' -> 'f1' -> 'f0'"),
    ("functions too deep", lambda: mp.convert_model(functions(*(f"l.f{i}" for i in range(1, 101)), "Relu")), M, "model-local functions", "model-local functions may call each other at most 100 deep, got 101"),
    ("a name that is not UTF-8", lambda: mp.convert_model(renamed(of(node(("kernel_shape", [2]), outputs=["QQQQ"])))), M, "b'", "the model holds a name that is not UTF-8: b'\\xff\\xff\\xff\\xff'"),
    ("a size whose name is not UTF-8", lambda: mp.convert_model(renamed(mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, "QQQQ"]))), M, "b'", "the model holds a name that is not UTF-8: b'\\xff\\xff\\xff\\xff'"),
    ("as protobuf in Python has it", graphs.refusing_other_encodings(raising(not_utf_8())), M, "b'", "the model holds a name that is not UTF-8: b'\\xff'"),
    ("parsed by protobuf in Python", patched(files, "ModelProto", FromPython, lambda: files.parse_model(b"", "m.onnx")), M, "m.onnx", "m.onnx: holds a name that is not UTF-8: b'\\xff'"),
    ("told by onnxruntime, from 1.32 on", patched(onnxruntime.InferenceSession, "__init__", raising(not_utf_8()), lambda: mp.InferenceSession(POOL)), M, r"\xff", "the model holds a name that is not UTF-8; onnxruntime says: \\xff"),
    ("too large to be written", lambda: files.serialized(TooLarge()), M, "the model", "the model takes more than 2 GiB, which ONNX cannot write; keep its large tensors in other files, with onnx.save_model(..., save_as_external_data=True)"),
    ("a function to restore is gone", lambda: mp.restore_model(changed(mp.convert_model(parse_model(CALL)).model, lambda m: m.functions.pop(0))), M, "'call1'", "the model cannot be restored: node 'call1' called the function 'f', which is gone; restore the model as convert wrote it"),
    ("a Cast to restore is gone", lambda: mp.restore_model(changed(HALF, lambda m: m.graph.node.pop(1))), M, "'maxpool_ort/X/cast'", "the model cannot be restored: nodes that convert had put in are gone, and with them what makes 'maxpool_ort/X/cast'; restore the model as convert wrote it"),
    ("no declared shape to restore", lambda: mp.restore_model(changed(CONVERTED, lambda m: m.graph.output[0].metadata_props.add(key="maxpool_ort/declared_shape", value="dim"))), M, "'Y'", "tensor 'Y': the metadata maxpool_ort/declared_shape must hold a shape, got 'dim'; restore the model as convert wrote it"),
    # files
    ("no file", lambda: mp.convert_file("no.onnx", "c.onnx"), FileNotFoundError, "no.onnx", "[Errno 2] No such file or directory: 'no.onnx'"),
    ("no folder to write to", lambda: mp.convert_file("pool.onnx", "no/c.onnx"), FileNotFoundError, "no/c.onnx", "[Errno 2] No such file or directory: 'no/c.onnx'"),
    ("no model", lambda: mp.convert_file("text.onnx", "c.onnx"), M, "text.onnx", "text.onnx: expected an ONNX model, got 8 bytes that start with b'no model'; they are damaged, or nested too deeply, or no model"),
    ("an empty file", lambda: mp.convert_file("empty.onnx", "c.onnx"), M, "empty.onnx", "empty.onnx: expected an ONNX model, got an empty file"),
    ("no graph", lambda: mp.convert_file("no graph.onnx", "c.onnx"), M, "no graph.onnx", "no graph.onnx: expected an ONNX model, got 2 bytes without a graph"),
    ("a model in ORT format", lambda: mp.convert_file("ort.onnx", "c.onnx"), M, "ort.onnx", "ort.onnx: expected an ONNX model, got a model in ORT format, which cannot be converted; use the ONNX model it was made from"),
    ("bytes that are no model", lambda: mp.InferenceSession(b"no model"), M, "the bytes given", "the bytes given: expected an ONNX model, got 8 bytes that start with b'no model'; they are damaged, or nested too deeply, or no model"),
    ("external data left behind", lambda: mp.convert_file("big.onnx", "good/c.onnx"), M, "big.onnx", "big.onnx: keeps tensors in files beside it, which good/c.onnx would not find; write to the same folder, …, or let the files be copied or linked"),
    ("external data outside", lambda: mp.convert_file("out.onnx", "good/c.onnx", external_data="copy"), M, "'w'", "out.onnx: tensor 'w' is kept in '../big.data', outside of the model's folder, …; put the file beside the model"),
    ("external data that is gone", lambda: mp.InferenceSession("gone.onnx"), M, "'gone.data'", "gone.onnx: tensor 'w' is kept in 'gone.data', which is no file in …; put the file beside the model"),
    ("external data in what is no path", lambda: mp.InferenceSession("nul.onnx"), M, r"'nul\x00'", "nul.onnx: tensor 'w' is kept in 'nul\\x00', which is no path"),
    ("another file in its place", lambda: mp.convert_file("big.onnx", "bad/c.onnx", external_data="copy"), FileExistsError, "bad/big.data", "[Errno 17] another file is there; move it: '…/bad/big.data'"),
    ("a link in its place", lambda: mp.convert_file("big.onnx", "linked/c.onnx", external_data="copy"), PermissionError, "linked/big.data", "[Errno 1] a link leads out of the folder to write to: '…/linked/big.data'"),
    ("an output that is no tensor", lambda: feed.save_arrays("y.npz", {"y": [np.zeros(1)]}), E, "'y'", "output 'y': only tensors of numbers can be written, got list"),
    ("an output of texts", lambda: feed.save_arrays("y.npz", {"y": np.array(["a"], object)}), E, "'y'", "output 'y': only tensors of numbers can be written, got an array of strings"),
    ("results that are no JSON", lambda: report.from_document("text.onnx"), E, "text.onnx", "text.onnx must hold what bench --json prints: JSONDecodeError: …"),
    # commands that are wrong usage
    ("no command", "", 2, "COMMAND", f"{IN}the following arguments are required: COMMAND"),
    ("unknown command", "pool", 2, "COMMAND", f"{IN}argument COMMAND: invalid choice: 'pool' (choose from …)"),
    ("no file to read", "inspect", 2, "MODEL", "maxpool-ort inspect: error: the following arguments are required: MODEL"),
    ("unknown option", "inspect pool.onnx --all", 2, "--all", f"{IN}unrecognized arguments: --all"),
    ("--select", "run pool.onnx --select some", 2, "--select", "maxpool-ort run: error: argument --select: invalid choice: 'some' (choose from …)"),
    ("--guard", "convert pool.onnx c.onnx --guard some", 2, "--guard", "maxpool-ort convert: error: argument --guard: invalid choice: 'some' (choose from …)"),
    ("--external-data", "convert pool.onnx c.onnx --external-data move", 2, "--external-data", "maxpool-ort convert: error: argument --external-data: invalid choice: 'move' (choose from …)"),
    ("--workload", "bench --workload small", 2, "--workload", "maxpool-ort bench: error: argument --workload: invalid choice: 'small' (choose from …)"),
    ("--threads", "bench --threads 0", 2, "--threads", "maxpool-ort bench: error: argument --threads: must be an integer >= 1, got '0'"),
    ("--pairs", "bench --pairs many", 2, "--pairs", "maxpool-ort bench: error: argument --pairs: must be an integer >= 1, got 'many'"),
    ("--seed", "run pool.onnx --seed -1", 2, "--seed", "maxpool-ort run: error: argument --seed: must be an integer >= 0, got '-1'"),
    ("--seed that is no number", "run pool.onnx --seed x", 2, "--seed", "maxpool-ort run: error: argument --seed: must be an integer >= 0, got 'x'"),
    # commands that fail
    ("run no file", "run no.onnx", 1, "no.onnx", f"{IN}no.onnx: No such file or directory"),
    ("inspect a folder", "inspect bad", 1, "bad", f"{IN}bad: Is a directory"),
    ("inspect what is no model", "inspect text.onnx", 1, "text.onnx", f"{IN}text.onnx: expected an ONNX model, got 8 bytes that start with b'no model'; they are damaged, or nested too deeply, or no model"),
    ("convert into no folder", "convert pool.onnx no/c.onnx", 1, "no/c.onnx", f"{IN}no/c.onnx: No such file or directory"),
    ("convert into a file", "convert pool.onnx text.onnx/c.onnx", 1, "text.onnx/c.onnx", f"{IN}text.onnx/c.onnx: Not a directory"),
    ("convert over another file", "convert big.onnx bad/c.onnx --external-data link", 1, "bad/big.data", f"{IN}…/bad/big.data: another file is there; move it"),
    ("--node", "convert pool.onnx c.onnx --node pool2", 1, "'pool2'", f"{IN}select must name MaxPool nodes of the model, got ['pool2']; it has ['pool1']"),
    ("compare a converted model", "compare converted.onnx", 1, "the model", f"{IN}the model is converted already; compare the original, or restore it first"),
    ("a run that fails", "run any.onnx --input none.npy", 1, "MaxPool 'pool1'", f"{IN}MaxPool 'pool1': output size of spatial axis D1 must be >= 0, got -1: input 0 + pads 0 and 0 is too small for the effective kernel extent 2 (kernel 2, dilation 1) at stride 1; use a smaller kernel or dilation, or larger pads (X: float32 (1, 1, 0); {WIRE})"),
    ("a model that onnxruntime refuses", "run refused.onnx", 1, "Unknown", f"{IN}onnxruntime: [ONNXRuntimeError] …Unknown…"),
    ("no such input", "run add.onnx --input x=a.npy", 1, "--input x=a.npy", f"{IN}--input x=a.npy: 'x' is no input; the model has the inputs ['a', 'b']"),
    ("which input", "run add.onnx --input a.npy", 1, "--input a.npy", f"{IN}--input a.npy: write NAME=FILE; the model has the inputs ['a', 'b']"),
    ("no inputs", "run constant.onnx --input a.npy", 1, "--input a.npy", f"{IN}--input a.npy: write NAME=FILE; the model has no inputs"),
    ("an input twice", "run add.onnx --input a=a.npy --input a=a.npy", 1, "--input a=a.npy", f"{IN}--input a=a.npy: data for 'a' was given before; give one file for each input"),
    ("a missing input", "run add.onnx --input a=a.npy", 1, "'b'", f"{IN}inputs ['b']: no data given; the model needs ['a', 'b']"),
    ("dtype of an input", "run pool.onnx --input double.npy", 1, "'X'", f"{IN}input 'X': expected dtype float32, got float64"),
    ("rank of an input", "run add.onnx --input a=flat.npy", 1, "'a'", f"{IN}input 'a': expected shape ('N', 1, 4), got (4,)"),
    ("size of an input", "run pool.onnx --input long.npy", 1, "'X'", f"{IN}input 'X': expected shape (1, 1, 4), got (1, 1, 5)"),
    ("a file that is no array", "run pool.onnx --input text.npy", 1, "text.npy", f"{IN}text.npy: expected a .npy file, but it cannot be read as one: …"),
    ("a file of another kind", "run pool.onnx --input text.onnx", 1, "text.onnx", f"{IN}text.onnx: expected a .npy, .npz or .pb (TensorProto) file, got .onnx"),
    ("a file of no kind", "run pool.onnx --input text", 1, "text", f"{IN}text: expected a .npy, .npz or .pb (TensorProto) file, got no suffix"),
    ("which array of a file", "run pool.onnx --input many.npz", 1, "many.npz", f"{IN}many.npz: expected an array named 'X', or one array only, got ['b', 'c']"),
    ("a sample that does not fit", "run sample.onnx", 1, "sample.npz", f"{IN}sample sample.npz: input 'more': the model has no such input, only ['X']; give other data with --input"),
    ("a damaged sample", "run damaged.onnx", 1, "damaged.npz", f"{IN}sample damaged.npz: expected a .npz file, but it cannot be read as one: …; give other data with --input"),
    ("too large to make up", "run huge.onnx", 1, "'X'", f"{IN}input 'X': shape (4000000, 4000000) is too large to make up; give --input X=FILE"),
    ("texts to make up", "run texts.onnx", 1, "'X'", f"{IN}input 'X': cannot make up data of type tensor(string); give --input X=FILE"),
    ("a sequence to feed", "run sequence.onnx", 1, "'X'", f"{IN}input 'X': only tensors can be fed, got seq(tensor(float))"),
    ("--output of another kind", "run pool.onnx --output y.txt", 1, "--output y.txt", f"{IN}--output y.txt: expected a .npy, .npz or .pb file, got .txt"),
    ("--output of too many", "run add.onnx --output y.npy", 1, "--output y.npy", f"{IN}--output y.npy: the model has 2 outputs, which only a .npz file can hold; write to one"),
    ("--output over an input", "run pool.onnx --input a.npy --output a.npy", 1, "--output a.npy", f"{IN}--output a.npy: this file is read by the same run; write to another one"),
    ("--load what is no JSON", "bench --load text.onnx", 1, "text.onnx", f"{IN}text.onnx must hold what bench --json prints: JSONDecodeError: …"),
    ("--load other JSON", "bench --load other.json", 1, "other.json", f"{IN}other.json must hold what bench --json prints: KeyError: 'results'"),
    ("--load an unknown workload", "bench --load unknown.json", 1, "unknown.json", f"{IN}unknown.json must hold what bench --json prints: KeyError: 'huge'"),
    ("--load a text for a number", "bench --load words.json", 1, "words.json", f"{IN}words.json must hold what bench --json prints: TypeError: …"),
    ("--plot without matplotlib", patched(report.importlib.util, "find_spec", lambda _: None, lambda: report.check_plot("a.png")), E, "--plot", "--plot needs matplotlib: pip install 'maxpool_ort[plot]'"),
    # conformance
    ("--runtime", "conformance --runtime tvm", 2, "--runtime", "maxpool-ort conformance: error: argument --runtime: invalid choice: 'tvm' (choose from …)"),
    ("--timeout", "conformance --timeout 0", 2, "--timeout", "maxpool-ort conformance: error: argument --timeout: must be an integer >= 1, got '0'"),
    ("no such case", "conformance --case rank_9 --feature ties", 1, "rank_9", f"{IN}no case is --case rank_9 and --feature 'ties'; the features of the kit are: ranks, windows, …"),
    ("no kit", "conformance --kit good", 1, "good/cases.json", f"{IN}good/cases.json: No such file or directory"),
    ("a kit of something else", "conformance --kit kit", 1, "kit/cases.json", f"{IN}kit/cases.json must be the index of a conformance kit, got something else: TypeError: …"),
    ("a process that measures is killed", lambda: list(bench.apart(be_killed, cases(workloads=["tiny"], threads=[1]))), E, "tiny", "tiny (threads: 1) was not measured: its process was killed, for want of memory perhaps; measure less at once with --workload, --dtype and --peer"),
    ("a runtime that is not installed", patched(runtimes.importlib.util, "find_spec", lambda _: None, lambda: conformance.hold([], ["openvino"], None, 1)), mp.MissingDependencyError, "openvino", "runtime openvino must be installed, and is not; pip install openvino"),
    ("a runtime that does not start", lambda: list(conformance.try_runtime("none", [RANK_1], 9)), E, "none", "runtime none does not start: KeyError: 'none'; try to import it in Python"),
    ("--command no words", "conformance --command \"'a\"", 1, "--command", f"""{IN}--command must be words as a shell would split them, got "'a": No closing quotation"""),
    ("--command without places", "conformance --command 'run {model}'", 1, "--command", f"{IN}--command must say where {{inputs}} and {{outputs}} go, got 'run {{model}}'"),
    ("--command nowhere", "conformance --command './nowhere {model} {inputs} {outputs}'", 1, "./nowhere", f"{IN}--command must be a program that runs, got ./nowhere: No such file or directory"),
    ("conformance --load other", "conformance --load other.json", 1, "other.json", f"{IN}other.json must hold what conformance --json prints: KeyError: 'cases'"),
    ("--html in no folder", "conformance --load held.json --html no/a.html", 1, "no/a.html", f"{IN}no/a.html: …"),
    ("--plot of another kind", "bench --load results.json --plot a.txt", 1, "--plot", f"{IN}--plot must name a file that ends in .png, .svg, .pdf, got a.txt"),
    ("--plot nothing", "bench --load results.json --plot a.png", 1, "--plot", f"{IN}--plot draws ratios against onnxruntime, and there are none; measure with --peer onnxruntime"),
)]
# fmt: on


def matches(text: str, said: str) -> bool:
    """Whether this is what was said."""
    return re.fullmatch(".*".join(map(re.escape, text.split("…"))), said, re.DOTALL) is not None


class Outcome(NamedTuple):
    """What a row came to: the errors, each with those that led to it, and what was said of it."""

    chain: list[BaseException]
    kind: type[BaseException] | int
    said: str


@cache
def outcome_of(row: Row) -> Outcome:
    """Provoke the error of a row, once."""
    seen: list[BaseException] = []
    kind: type[BaseException] | int = 0
    if isinstance(row.provoke, str):
        out, complained = io.StringIO(), io.StringIO()
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(complained),
        ):
            tell = cli._reason  # noqa: SLF001
            patch.setattr(cli, "_reason", lambda error: [seen.append(error), tell(error)][1])
            try:
                kind = cli.main(shlex.split(row.provoke))
            except SystemExit as usage:  # how argparse ends on wrong usage
                kind = usage.code
                seen.append(usage)
        *before, said = complained.getvalue().strip().splitlines()
        assert out.getvalue() == ""
        assert before == [] or before[0].startswith("usage: ")
    else:
        try:
            row.provoke()
        except Exception as error:  # noqa: BLE001 (whatever it is, it is compared)
            kind, said = type(error), str(error)
            seen.append(error)
        else:
            said = "no error"
    chain: list[BaseException] = []
    while seen:
        error = seen.pop()
        chain.append(error)
        seen += [each for each in (error.__cause__, error.__context__) if each and each not in [*chain, *seen]]
    return Outcome(chain, kind, said)


@pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
def test_type_and_text(row: Row) -> None:
    """Each error is of its type and says what it should, as one line that names what it is about."""
    outcome = outcome_of(row)
    assert outcome.kind is row.kind or outcome.kind == row.kind
    assert matches(row.text, outcome.said), outcome.said
    assert row.names in outcome.said
    assert len(outcome.said.splitlines()) == 1
    assert len(outcome.said) < 700


TELLS = re.compile(r"\bgot .+|; .+|, (only|which) .+")
"""What came, what to do, or what there is instead."""
# (id, why its text tells none of it)
TELLS_NOTHING_ELSE = {
    "no kernel_shape": "nothing came",
    "no name and no output": "likewise",
    "no memory": "the reason is the machine's",
    "interrupted between two lines": "likewise",
    "a name that is not UTF-8": "the name is what came",
    "a name that is not UTF-8 to explain": "likewise",
    "a size whose name is not UTF-8": "likewise",
    "as protobuf in Python has it": "likewise",
    "parsed by protobuf in Python": "likewise",
    "results that are no JSON": "the reason is Python's",
    "conformance --load other": "the reason is Python's",
    "--load what is no JSON": "likewise",
    "--load other JSON": "likewise",
    "--load an unknown workload": "likewise",
    "--load a text for a number": "likewise",
    "a file that is no array": "the reason is NumPy's",
    "--plot without matplotlib": "what to do stands behind a colon",
}


@pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
def test_texts_tell_what_came_or_what_to_do(row: Row) -> None:
    """An error of ours says more than that something is wrong; rows that do not are listed, and only those."""
    if any(isinstance(error, mp.MaxPoolError) for error in outcome_of(row).chain):
        assert bool(TELLS.search(row.text.partition(" (X: ")[0])) == (row.id not in TELLS_NOTHING_ELSE)


PYTHON = [row for row in ROWS if not isinstance(row.provoke, str)]
# (error, what a command prints of it), beside those of the rows
OTHERS = [
    (MemoryError("none left"), "out of memory: none left"),
    (OSError("no more files"), "no more files"),
    (onnxruntime.capi.onnxruntime_pybind11_state.Fail(" in the model \n"), "onnxruntime: in the model"),
]


def printed_of(error: Exception) -> str:
    """What a command prints of an error; the error itself where it lets it pass."""
    complained = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(complained):
        patch.setattr(commands, "inspect", raising(error))
        assert cli.main(["inspect", "pool.onnx"]) == 1
    return complained.getvalue()


@pytest.mark.parametrize("row", PYTHON, ids=[row.id for row in PYTHON])
def test_what_a_command_prints(row: Row) -> None:
    """An error of ours is one line behind the command's name; a file comes first; a wrong call is a bug, and passes."""
    error = outcome_of(row).chain[0]
    if not isinstance(error, mp.MaxPoolError | OSError):
        with pytest.raises(type(error), match=re.escape(str(error))):
            printed_of(error)
    elif isinstance(error, OSError) and error.filename:
        assert printed_of(error) == f"{IN}{error.filename}: {error.strerror}\n"
    else:
        assert printed_of(error) == f"{IN}{error}\n"


@pytest.mark.parametrize(("error", "text"), OTHERS, ids=[repr(type(error)) for error, _ in OTHERS])
def test_what_a_command_prints_of_others(error: Exception, text: str) -> None:
    """Errors of the machine and of ONNX Runtime are one line too."""
    assert printed_of(error) == f"{IN}{text}\n"


class Statement(NamedTuple):
    """A place in the package where an error is made; lines are None where it is not raised there and then."""

    path: Path
    lines: range | None
    text: str
    """Its constant parts, as a regular expression."""


# (name of the exception, why it has no row)
WITHOUT_A_ROW = {
    "NotApplicable": "no error, but an outcome; tests/test_conformance.py",
    "CannotError": "does not leave bench.measure, in whose table it is a reason; tests/test_bench.py",
}


def made_by(argument: ast.expr) -> str:
    """What an argument of an exception puts into its text, as a regular expression."""
    parts = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
    return "".join(
        re.escape(part.value) if isinstance(part, ast.Constant) and isinstance(part.value, str) else ".*"
        for part in parts
    )


def statements() -> Iterator[Statement]:
    """Every error with a text in the package, whether it is raised at once or made to be raised later."""
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        raised = {id(each.exc): each for each in ast.walk(tree) if isinstance(each, ast.Raise)}
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and call.args:
                name = ast.unparse(call.func).rpartition(".")[2]
                at = raised.get(id(call))
                if name not in WITHOUT_A_ROW and (at or name.endswith("Error")):
                    lines = range(at.lineno, at.end_lineno + 1) if at else None
                    yield Statement(path, lines, ".*".join(map(made_by, call.args)))


def is_met(statement: Statement, error: BaseException) -> bool:
    """Whether an error came from a statement, and has its text."""
    frames = [(Path(f.f_code.co_filename), line) for f, line in traceback.walk_tb(error.__traceback__)]
    is_there = statement.lines is None or any(p == statement.path and line in statement.lines for p, line in frames)
    return is_there and re.search(statement.text, str(error), re.DOTALL) is not None


def test_every_error_has_a_row() -> None:
    """Each statement that raises with a text, or makes an error, is reached by a row: a new one needs a new row."""
    met = [error for row in ROWS for error in outcome_of(row).chain]
    found = list(statements())
    missing = [
        f"{each.path.name}:{each.lines.start if each.lines else '?'}: {each.text}"
        for each in found
        if not any(is_met(each, error) for error in met)
    ]
    assert len(found) > 80
    assert missing == []
    assert [type(error) for error in met if type(error).__name__ in WITHOUT_A_ROW] == []


def test_every_type_has_a_row() -> None:
    """Each public error is the type of a row."""
    public = {
        thing for name in mp.__all__ if isinstance(thing := getattr(mp, name), type) and issubclass(thing, Exception)
    }
    assert public <= {row.kind for row in ROWS}


def test_ids_are_unique() -> None:
    """A row is found by its id."""
    ids = [row.id for row in ROWS]
    assert len(set(ids)) == len(ids)
    assert TELLS_NOTHING_ELSE.keys() <= set(ids)
