"""The model builder: standard models at every opset, and the nodes that a conversion puts in."""

import re
from typing import Any

from hypothesis import given
import numpy as np
import onnx
from onnx import TensorProto, helper
import onnxruntime
import pytest
from strategies import Case, cases
from versions import onnxruntime_knows

import maxpool_ort as mp
from maxpool_ort.model import make_node_before_pyop, make_pyop_node

NEWEST = onnx.defs.onnx_opset_version()


def dims(value: onnx.ValueInfoProto) -> list[int | str | None]:
    """Declared dimensions of a graph input or output."""
    return [
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
        for dim in value.type.tensor_type.shape.dim
    ]


@pytest.mark.parametrize("opset", range(8, NEWEST + 1))
@pytest.mark.parametrize("with_indices", [False, True])
def test_every_opset(opset: int, *, with_indices: bool) -> None:
    """A model of any opset passes the checker, has the lowest IR version, and runs in onnxruntime as in ours."""
    model = mp.make_maxpool_model(
        kernel_shape=[3, 2], input_shape=["N", 3, 8, 9], strides=[2, 1], opset=opset, with_indices=with_indices
    )
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version == helper.find_min_ir_version_for(model.opset_import)
    assert [(each.domain, each.version) for each in model.opset_import] == [("", opset)]
    assert [value.name for value in model.graph.output] == ["Y", "Indices"][: 1 + with_indices]
    assert [dims(output) for output in model.graph.output] == [["N", 3, 3, 8]] * (1 + with_indices)
    if onnxruntime_knows(opset):
        x = np.random.default_rng(0).standard_normal((2, 3, 8, 9)).astype(np.float32)
        theirs = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"X": x})
        ours = mp.InferenceSession(model).run(None, {"X": x})
        assert len(theirs) == 1 + with_indices
        for got, expected in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(got, expected, strict=True)


def test_names() -> None:
    """The name is that of the graph and of the node, and this package says that it made the model."""
    for arguments, name in (({}, "maxpool"), ({"name": "pool1"}, "pool1")):
        model = mp.make_maxpool_model([2], [1, 1, 4], **arguments)
        assert (model.graph.name, model.graph.node[0].name, model.producer_name) == (name, name, "maxpool_ort")
        assert (list(model.graph.node[0].input), list(model.graph.node[0].output)) == (["X"], ["Y"])
        assert [value.name for value in model.graph.input] == ["X"]


# (id, arguments beside kernel_shape [2], attributes that stand on the node)
WRITTEN: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("nothing", {}, {}),
    ("defaults", {"auto_pad": "NOTSET", "ceil_mode": 0, "pads": [0, 0], "storage_order": 0, "strides": [1], "dilations": [1]}, {"auto_pad": b"NOTSET", "ceil_mode": 0, "pads": [0, 0], "storage_order": 0, "strides": [1], "dilations": [1]}),
    ("empty auto_pad", {"auto_pad": ""}, {"auto_pad": b"NOTSET"}),
    ("AutoPad", {"auto_pad": mp.AutoPad.SAME_LOWER}, {"auto_pad": b"SAME_LOWER"}),
    ("zero pads beside auto_pad", {"auto_pad": "VALID", "pads": (0, 0)}, {"auto_pad": b"VALID", "pads": [0, 0]}),
    ("flags", {"ceil_mode": True, "storage_order": np.int64(1)}, {"ceil_mode": 1, "storage_order": 1}),
    ("arrays", {"strides": np.array([3]), "pads": np.array([1, 0], np.uint8)}, {"strides": [3], "pads": [1, 0]}),
    ("None", {"auto_pad": None, "ceil_mode": None, "strides": None, "pads": None}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "written"), [row[1:] for row in WRITTEN], ids=[row[0] for row in WRITTEN])
def test_only_what_is_given_stands_on_the_node(arguments: dict[str, Any], written: dict[str, Any]) -> None:
    """Attributes that are not given are absent; those given, also at their defaults, are there; also in a model."""
    node = mp.make_maxpool_node([2], **arguments)
    (in_model,) = mp.make_maxpool_model([2], [1, 1, 4], **arguments).graph.node
    for each in (node, in_model):
        assert {a.name: helper.get_attribute_value(a) for a in each.attribute} == {"kernel_shape": [2], **written}
        onnx.checker.check_node(each)


def test_node() -> None:
    """Inputs, outputs and a name are what is given; without a name the node has none, and is in ONNX's own domain."""
    node = mp.make_maxpool_node([2], inputs=["a"], outputs=["b", "c"], name="d")
    assert (node.op_type, list(node.input), list(node.output), node.name) == ("MaxPool", ["a"], ["b", "c"], "d")
    node = mp.make_maxpool_node([2])
    assert (list(node.input), list(node.output), node.HasField("name")) == (["X"], ["Y"], False)
    assert not node.domain


# (id, dtype, element type)
DTYPES: list[tuple[str, Any, int]] = [
    ("float16", "float16", TensorProto.FLOAT16),
    ("float32", np.float32, TensorProto.FLOAT),
    ("float64", np.dtype("float64"), TensorProto.DOUBLE),
    ("Python float", float, TensorProto.DOUBLE),
    ("int8", "i1", TensorProto.INT8),
    ("uint8", np.uint8, TensorProto.UINT8),
]


@pytest.mark.parametrize(("dtype", "element_type"), [row[1:] for row in DTYPES], ids=[row[0] for row in DTYPES])
def test_dtypes(dtype: Any, element_type: int) -> None:
    """A dtype by its name, type or object; X and Y have it, Indices are int64."""
    model = mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4], dtype=dtype, with_indices=True)
    types = [value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)]
    assert types == [element_type, element_type, TensorProto.INT64]
    onnx.checker.check_model(model, full_check=True)


# (id, input_shape, declared dimensions of X, of Y for kernel_shape [3, 2])
SHAPES: list[tuple[str, list[Any], list[Any], list[Any]]] = [
    ("known", [2, 3, 5, 6], [2, 3, 5, 6], [2, 3, 3, 5]),
    ("symbolic batch", ["N", 3, 5, 6], ["N", 3, 5, 6], ["N", 3, 3, 5]),
    ("symbolic size", [2, "C", "H", 6], [2, "C", "H", 6], [2, "C", None, 5]),
    ("unknown", [None, None, None, None], [None, None, None, None], [None, None, None, None]),
    ("unknown beside known", [None, 3, 5, None], [None, 3, 5, None], [None, 3, 3, None]),
    ("empty", [0, 3, 2, 1], [0, 3, 2, 1], [0, 3, 0, 0]),
    ("NumPy integers", [np.int64(2), 3, np.int32(5), np.uint8(6)], [2, 3, 5, 6], [2, 3, 3, 5]),
]


@pytest.mark.parametrize(("shape", "x", "y"), [row[1:] for row in SHAPES], ids=[row[0] for row in SHAPES])
def test_declared_shapes(shape: list[Any], x: list[Any], y: list[Any]) -> None:
    """X is declared as given; Y and Indices as far as that tells, and the checker agrees."""
    model = mp.make_maxpool_model([3, 2], shape, with_indices=True)
    assert dims(model.graph.input[0]) == x
    assert [dims(output) for output in model.graph.output] == [y, y]
    onnx.checker.check_model(model, full_check=True)


@given(cases())
def test_declared_shapes_come_true(case: Case) -> None:
    """Y and Indices are declared with the dtype and the shape that max_pool gives."""
    arguments = {"input_shape": case.x.shape, "dtype": case.x.dtype, "with_indices": True, **case.attributes}
    model = mp.make_maxpool_model(**arguments)
    arrays = mp.max_pool(case.x, **case.attributes, return_indices=True)
    for declared, array in zip(model.graph.output, arrays, strict=True):
        assert tuple(dims(declared)) == array.shape
        assert helper.tensor_dtype_to_np_dtype(declared.type.tensor_type.elem_type) == array.dtype
    assert mp.MaxPoolAttributes.from_node(model.graph.node[0]) == mp.MaxPoolAttributes(**case.attributes)


OPSETS = f"opset must be an integer from 8 to {NEWEST}, the newest that this onnx knows, got"
TYPES = "dtype must be one of float16, float32, float64, int8, uint8, got"
RANK = "X must have rank 3 (N, C and one axis for each entry of kernel_shape (2,)), got rank"

# (id, arguments other than kernel_shape [2] and input_shape [1, 1, 4], error, text)
INVALID: list[tuple[str, dict[str, Any], type[mp.MaxPoolError], str]] = [
    # opset
    ("opset 7", {"opset": 7}, mp.InvalidAttributeError, f"{OPSETS} 7"),
    ("newer opset", {"opset": NEWEST + 1}, mp.InvalidAttributeError, f"{OPSETS} {NEWEST + 1}"),
    # what the opset does not have
    ("dilations", {"opset": 8, "dilations": [1]}, mp.InvalidAttributeError, "MaxPool 'maxpool': MaxPool-8 (opset 8) has no attribute 'dilations', only storage_order, pads, auto_pad, strides, kernel_shape"),
    ("ceil_mode", {"opset": 9, "ceil_mode": 0, "name": "p"}, mp.InvalidAttributeError, "MaxPool 'p': MaxPool-8 (opset 9) has no attribute 'ceil_mode', only storage_order, pads, auto_pad, strides, kernel_shape"),
    ("int8", {"opset": 11, "dtype": "int8"}, mp.UnsupportedTypeError, "MaxPool 'maxpool': MaxPool-11 (opset 11) takes X of type tensor(double), tensor(float), tensor(float16), got tensor(int8)"),
    ("uint8", {"opset": 8, "dtype": "uint8"}, mp.UnsupportedTypeError, "MaxPool 'maxpool': MaxPool-8 (opset 8) takes X of type tensor(double), tensor(float), tensor(float16), got tensor(uint8)"),
    # dtype
    ("int32", {"dtype": "int32"}, mp.UnsupportedTypeError, f"{TYPES} int32"),
    ("Python int", {"dtype": int}, mp.UnsupportedTypeError, f"{TYPES} int64"),
    ("byte order", {"dtype": np.dtype(np.float32).newbyteorder()}, mp.UnsupportedTypeError, f"{TYPES} {np.dtype(np.float32).newbyteorder()}"),
    ("no dtype", {"dtype": "half-ish"}, mp.UnsupportedTypeError, f"{TYPES} 'half-ish'"),
    ("no dtype, by NumPy's grammar", {"dtype": ","}, mp.UnsupportedTypeError, f"{TYPES} ','"),
    ("no dtype, a table", {"dtype": {"names": ["a"]}}, mp.UnsupportedTypeError, f"{TYPES} {{'names': ['a']}}"),
    # input_shape
    ("rank", {"input_shape": [1, 1, 2, 2]}, mp.InvalidShapeError, f"{RANK} 4: shape (1, 1, 2, 2)"),
    ("rank, symbolic", {"input_shape": ["N", None]}, mp.InvalidShapeError, f"{RANK} 2: shape ('N', None)"),
    ("negative", {"input_shape": ["N", 1, -1]}, mp.InvalidShapeError, "X must have sizes >= 0, got shape ('N', 1, -1)"),
    ("float", {"input_shape": ["N", 1, 4.0]}, mp.InvalidShapeError, "X must have sizes that are integers, got shape ('N', 1, 4.0)"),
    ("float batch", {"input_shape": [1.5, 1, 4]}, mp.InvalidShapeError, "X must have sizes that are integers, got shape (1.5, 1, 4)"),
    ("too small", {"input_shape": ["N", 1, 1], "kernel_shape": [4]}, mp.InvalidShapeError, "output size of spatial axis D1 must be >= 0, got -2: input 1 + pads 0 and 0 is too small for the effective kernel extent 4 (kernel 4, dilation 1) at stride 1; use a smaller kernel or dilation, or larger pads"),
    # attributes
    ("kernel_shape", {"kernel_shape": 2}, mp.InvalidAttributeError, "kernel_shape must be a list of integers, one per spatial axis, got 2"),
    ("strides", {"strides": [0]}, mp.InvalidAttributeError, "strides must have entries from 1 to 2**60, got (0,)"),
    ("pads", {"pads": [1]}, mp.InvalidAttributeError, "pads must have 2 entries, all begins, then all ends, got 1: (1,)"),
    ("auto_pad", {"auto_pad": "SAME"}, mp.InvalidAttributeError, "auto_pad must be one of NOTSET, VALID, SAME_UPPER, SAME_LOWER, got 'SAME'"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "error", "text"), [row[1:] for row in INVALID], ids=[row[0] for row in INVALID])
def test_invalid(arguments: dict[str, Any], error: type[mp.MaxPoolError], text: str) -> None:
    """What cannot be built is refused with the reason."""
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        mp.make_maxpool_model(**{"kernel_shape": [2], "input_shape": [1, 1, 4], **arguments})


def test_invalid_node() -> None:
    """A node on its own is refused for its attributes as well."""
    with pytest.raises(
        mp.InvalidAttributeError, match=r"^strides must have 1 entry, one per spatial axis, got 2: \(1, 1\)$"
    ):
        mp.make_maxpool_node([2], strides=[1, 1])


def spelled_out(outputs: list[str], domain: str) -> onnx.NodeProto:
    """A node with everything on it that a node may have."""
    node = mp.make_maxpool_node([2], outputs=outputs, name="pool1", strides=[1], auto_pad="")
    node.domain = domain
    node.doc_string = "the first one"
    node.attribute[0].doc_string = "the window"
    node.metadata_props.add(key="from", value="a test")
    return node


# (id, node, op type of ours, its outputs)
STANDARD: list[tuple[str, onnx.NodeProto, str, list[str]]] = [
    ("Y", mp.make_maxpool_node([2]), "MaxPool", ["Y"]),
    (
        "Y and Indices",
        mp.make_maxpool_node([2, 2], outputs=["y", "i"], auto_pad="SAME_LOWER"),
        "MaxPoolWithIndices",
        ["y", "i"],
    ),
    ("empty Indices", mp.make_maxpool_node([2], outputs=["y", ""]), "MaxPool", ["y"]),
    ("domain", spelled_out(["y"], "ai.onnx"), "MaxPool", ["y"]),
    ("domain, Indices", spelled_out(["y", "i"], "ai.onnx"), "MaxPoolWithIndices", ["y", "i"]),
    ("domain, empty Indices", spelled_out(["y", ""], "ai.onnx"), "MaxPool", ["y"]),
    ("empty domain", spelled_out(["y", ""], ""), "MaxPool", ["y"]),
]


@pytest.mark.parametrize(
    ("node", "op_type", "outputs"), [row[1:] for row in STANDARD], ids=[row[0] for row in STANDARD]
)
def test_our_node_holds_all_of_the_standard_one(node: onnx.NodeProto, op_type: str, outputs: list[str]) -> None:
    """What was made of a node gives that node back, byte for byte, and PyOp sees no empty output."""
    before = node.SerializeToString()
    ours = make_pyop_node(node, mp.MaxPoolAttributes.from_node(node))
    assert (ours.domain, ours.op_type, list(ours.output)) == ("maxpool_ort", op_type, outputs)
    assert (ours.name, ours.doc_string, list(ours.input)) == (node.name, node.doc_string, list(node.input))
    made = ours.SerializeToString()
    restored = make_node_before_pyop(ours)
    assert restored == node
    assert restored.SerializeToString() == node.SerializeToString() == before
    assert ours.SerializeToString() == made


@given(cases())
def test_our_node_holds_any_attributes(case: Case) -> None:
    """There and back is exact for all attributes, written or absent."""
    node = helper.make_node("MaxPool", ["X"], ["Y", "I"], **case.attributes)
    ours = make_pyop_node(node, mp.MaxPoolAttributes(**case.attributes))
    assert make_node_before_pyop(ours).SerializeToString() == node.SerializeToString()
