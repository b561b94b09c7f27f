"""Damaged and hostile model files: each is an error of a kind that is told, or goes through; never anything else.

A worker process does the work, since what is tried may end it: onnx's inference does, and where it is known to, the row
says so. The worker ends itself, too, where one file takes too long.
"""

from collections.abc import Iterator
from itertools import pairwise
import json
import os
from pathlib import Path
import random
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.parser import parse_model
import pytest

import maxpool_ort as mp

MODELS = Path(__file__).parent.parent / "models"
EXPORTS = Path(__file__).parent / "data" / "exports"
SECONDS = 30
PROTOBUF = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"

WORKER = """
import contextlib, io, json, logging, os, resource, signal, sys

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # C++ may print
from pathlib import Path
import onnxruntime
import maxpool_ort as mp
from maxpool_ort import cli, files
from maxpool_ort.inspection import inspect_model

resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
onnxruntime.set_default_logger_severity(4)
logging.disable(logging.CRITICAL)
OLD = b"what was there before"

def command(*arguments):
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        code = cli.main(arguments)
    if code:
        assert code == 1 and said.getvalue().startswith("maxpool-ort: error: "), said.getvalue()

def outcome(work):
    try:
        work()
    except (mp.MaxPoolError, OSError) as error:
        return f"{type(error).__name__}: {error}" if str(error) else "no text: " + type(error).__name__
    except BaseException as error:
        kind = type(error)
        told = "told by onnxruntime" if kind.__module__.startswith("onnxruntime") else "WRONG"
        return f"{told}: {kind.__module__}.{kind.__name__}: {error}"
    return "ok"

def write(convert):
    def work():
        Path("new.onnx").write_bytes(OLD)
        try:
            convert("m.onnx", "new.onnx")
        except BaseException:
            assert Path("new.onnx").read_bytes() == OLD, "half-written"
            raise
        files.read_model("new.onnx")
    return work

WORKS = {
    "convert": write(mp.convert_file),
    "restore": write(mp.restore_file),
    "inspect": lambda: inspect_model(files.read_model("m.onnx")),
    "recommended": lambda: mp.convert_file("m.onnx", "new.onnx", select="recommended"),
    "command convert": lambda: command("convert", "m.onnx", "new.onnx", "--json"),
    "command restore": lambda: command("restore", "m.onnx", "new.onnx"),
    "command inspect": lambda: command("inspect", "m.onnx"),
    "command inspect --json": lambda: command("inspect", "m.onnx", "--json"),
    "command run": lambda: command("run", "m.onnx"),
    "session": lambda: mp.InferenceSession("m.onnx"),
}
for line in sys.stdin:
    names, seconds = json.loads(line)
    found = {}
    for name in names:
        print(json.dumps(name), file=answers, flush=True)
        signal.setitimer(signal.ITIMER_PROF, seconds)  # of the processors: others may be at work here
        signal.alarm(10 * seconds)
        found[name] = outcome(WORKS[name])
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
    if set(path.name for path in Path().iterdir()) - {"m.onnx", "new.onnx"}:
        found["files"] = "WRONG: something is left behind"
    print(json.dumps(found), file=answers, flush=True)
"""
QUICK = ("convert", "restore", "inspect")
FILES = (*QUICK, "recommended", "command convert", "command restore", "command inspect", "command inspect --json")
ALL = (*FILES, "session")


class Worker:
    """A process that tries files, and is started again where one ends it."""

    def __init__(self, folder: Path, protobuf: str = "upb") -> None:
        """Work in a folder, with one of protobuf's implementations."""
        self.folder = folder
        self.protobuf = protobuf
        self.process: subprocess.Popen[str] | None = None

    def tried(self, data: bytes, works: tuple[str, ...] = ALL) -> dict[str, str]:
        """What each work comes to for a file, up to one that ends the process."""
        (self.folder / "m.onnx").write_bytes(data)
        if self.process is None:
            self.process = subprocess.Popen(  # noqa: S603 (our own text)
                [sys.executable, "-c", WORKER],
                cwd=self.folder, env={**os.environ, PROTOBUF: self.protobuf}, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        process, doing = self.process, "start"
        process.stdin.write(json.dumps([works, SECONDS]) + "\n")
        process.stdin.flush()
        while line := process.stdout.readline():
            said = json.loads(line)
            if isinstance(said, dict):
                return said
            doing = said
        self.close()
        ended = signal.Signals(-process.returncode).name if process.returncode < 0 else f"exit {process.returncode}"
        is_slow = ended in {"SIGPROF", "SIGALRM"}
        return {doing: f"WRONG: > {SECONDS} s" if is_slow else f"WRONG: ended the process, {ended}"}

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()
            self.process = None


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker with a folder of its own."""
    it = Worker(tmp_path_factory.mktemp("damaged"))
    yield it
    it.close()


def wrong(found: dict[str, str]) -> dict[str, str]:
    """What broke the rule."""
    return {name: text[:400] for name, text in found.items() if text.startswith(("WRONG", "no text"))}


def value(name: str, dims: Any = (1, 1, 64), element_type: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """A graph's input or output."""
    return helper.make_tensor_value_info(name, element_type, dims)


def pool(x: str = "X", y: str = "Y", kernel: int = 1, **attributes: Any) -> onnx.NodeProto:
    """A MaxPool node of one spatial axis."""
    return helper.make_node("MaxPool", [x], [y], kernel_shape=[kernel], **attributes)


def call(name: str, x: str = "x", y: str = "y", **attributes: Any) -> onnx.NodeProto:
    """A call of a model-local function."""
    return helper.make_node(name, [x], [y], domain="l", **attributes)


def function(name: str, *nodes: onnx.NodeProto, opset: int = 15) -> onnx.FunctionProto:
    """A model-local function from x to y."""
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("l", 1)]
    return helper.make_function("l", name, ["x"], ["y"], list(nodes), imports)


def model(*nodes: onnx.NodeProto, functions: Any = (), dims: Any = (1, 1, 64), **graph: Any) -> ModelProto:
    """A model from X to Y."""
    element_type = graph.pop("element_type", TensorProto.FLOAT)
    inputs, outputs = [value("X", dims, element_type)], [value(graph.pop("output", "Y"), None, element_type)]
    imports = [helper.make_opsetid("", graph.pop("opset", 15)), helper.make_opsetid("l", 1)]
    made = helper.make_graph(list(nodes), "main", inputs, outputs, **graph)
    return helper.make_model(made, opset_imports=imports, ir_version=8, functions=list(functions))


def text(body: str, x: str = "float[1, 1, 8] X", imports: str = "", functions: str = "") -> ModelProto:
    """A model of opset 18 in ONNX's text."""
    return parse_model(
        f'<ir_version: 8, opset_import: ["": 18{imports}]> main ({x}) => (float[a, b, c] Y) {body} {functions}'
    )


def changed(base: ModelProto, change: Any) -> ModelProto:
    """A model, changed."""
    other = ModelProto.FromString(base.SerializeToString())
    change(other)
    return other


def renamed(base: ModelProto, name: str = "QQQQ") -> bytes:
    """A model's bytes with a name in it made one that is no UTF-8."""
    data = base.SerializeToString()
    assert name.encode() in data
    return data.replace(name.encode(), b"QQQ\xff")


def length_delimited(tag: int, data: bytes) -> bytes:
    """A field of protobuf's wire format."""
    size, digits = len(data), b""
    while size > 127:
        digits += bytes([size & 127 | 128])
        size >>= 7
    return bytes([tag]) + digits + bytes([size]) + data


def nested(depth: int) -> bytes:
    """A model of MaxPool in If in If, as bytes: protobuf's own classes refuse to write such a depth."""
    kind = b"\xa0\x01\x05"  # an attribute's type, GRAPH
    graph = helper.make_graph([pool("X", "y")], "g", [], [value("y", None)]).SerializeToString()
    for _ in range(depth):
        bodies = b"".join(
            length_delimited(0x2A, length_delimited(0x0A, name) + length_delimited(0x32, body) + kind)
            for name, body in ((b"then_branch", graph), (b"else_branch", length_delimited(0x12, b"e")))
        )
        node = length_delimited(0x0A, b"go") + length_delimited(0x12, b"y") + length_delimited(0x22, b"If") + bodies
        graph = length_delimited(0x0A, node) + length_delimited(0x12, b"g")
        graph += length_delimited(0x62, value("y", None).SerializeToString())
    opset = length_delimited(0x42, helper.make_opsetid("", 15).SerializeToString())
    return b"\x08\x08" + length_delimited(0x3A, graph) + opset


def chain(length: int, **graph: Any) -> ModelProto:
    """A row of MaxPool nodes."""
    names = ["X", *(f"t{number}" for number in range(1, length)), "Y"]
    return model(*(pool(x, y) for x, y in pairwise(names)), **graph)


def functions_in_a_row(length: int, calls: int = 1) -> ModelProto:
    """Functions each of which calls the next one, that often, and a MaxPool in the last."""
    names = ["x", *(f"z{number}" for number in range(1, calls)), "y"]
    callers = [function(f"f{i}", *(call(f"f{i + 1}", x, y) for x, y in pairwise(names))) for i in range(length)]
    return model(call("f0", "X", "Y"), functions=[*callers, function(f"f{length}", pool("x", "y"))])


def many_ifs(count: int) -> ModelProto:
    """If nodes side by side, in a graph of as many names."""
    bodies = {name: helper.make_graph([pool("X", "b")], "b", [], [value("b", None)]) for name in ("then", "else")}
    nodes = [
        helper.make_node("If", ["X"], [f"y{i}"], then_branch=bodies["then"], else_branch=bodies["else"])
        for i in range(count)
    ]
    return model(*nodes, output="y0")


def external(location: str) -> ModelProto:
    """A model with a tensor in another file."""
    tensor = TensorProto(name="s", data_type=1, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return model(helper.make_node("Add", ["X", "s"], ["Z"]), pool("Z"), initializer=[tensor])


def quantized(data_type: int) -> ModelProto:
    """MaxPool between what quantizes, with a zero point of some element type."""
    ends = [helper.make_node("DequantizeLinear", ["Q", "s", "z"], ["A"]), pool("A", "B", 2)]
    ends.append(helper.make_node("QuantizeLinear", ["B", "s", "z"], ["Y"]))
    scale, zero = numpy_helper.from_array(np.array(0.5, np.float32), "s"), TensorProto(name="z", data_type=data_type)
    built = model(*ends, element_type=TensorProto.UINT8, initializer=[scale, zero])
    built.graph.input[0].name = "Q"
    return built


CONVERTED = mp.convert_model(
    model(pool("X", "Z"), pool("Z", "Y"), element_type=TensorProto.FLOAT16, dims=[1, 1, "L"])
).model
SLICE = "Slice (Z, s, e, a)"
STARTS = "<int64[1] s = {0}, int64[1] e = {5}, int64[1] a = {2}>"


def on_carried(name: str, change: Any) -> Any:
    """Make a change of an attribute that the first node of ours carries."""

    def change_model(converted: ModelProto) -> None:
        ours = next(node for node in converted.graph.node if node.domain == "maxpool_ort")
        change(next(attribute for attribute in ours.attribute if attribute.name == name))

    return change_model


def set_opset(version: int) -> Any:
    """Make a change of the version that a model imports."""
    return lambda changing: setattr(changing.opset_import[0], "version", version)


def declare(text_of_shape: str) -> Any:
    """Make a change that says of Y how its shape was declared before a conversion."""
    return lambda changing: changing.graph.output[0].metadata_props.add(
        key="maxpool_ort/declared_shape", value=text_of_shape
    )


# (id, model or its bytes, what is tried, what the first of these comes to; the others only keep the rule)
# fmt: off
HOSTILE: list[tuple[str, Any, tuple[str, ...], str]] = [
    # bodies and functions
    ("If 10 deep", lambda: nested(10), FILES, "ok"),
    ("If 50 deep", lambda: nested(50), ALL, "InvalidModelError: m.onnx: expected an ONNX model, got"),
    ("If 2000 deep", lambda: nested(2000), ALL, "InvalidModelError: m.onnx: expected an ONNX model, got"),
    ("1000 Ifs", lambda: many_ifs(1000), QUICK, "ok"),
    ("If without bodies", lambda: model(helper.make_node("If", ["X"], ["Z"]), pool("Z")), ALL, "ok"),
    ("a body on MaxPool", lambda: changed(model(pool()), lambda m: m.graph.node[0].attribute[0].graphs.add()), ALL, "ok"),
    ("a body on what ours carries", lambda: changed(CONVERTED, on_carried("wire_node", lambda a: a.graphs.add())), ALL, ""),
    ("what ours carries as GRAPH", lambda: changed(CONVERTED, on_carried("wire_node", lambda a: setattr(a, "type", 5))), ALL, ""),
    ("300 functions", lambda: model(*(call(f"f{i}", "X", f"y{i}") for i in range(300)), output="y0", functions=[function(f"f{i}", pool("x", "y")) for i in range(300)]), QUICK, "ok"),
    ("10**4 functions that nothing calls", lambda: model(pool(), functions=[function(f"f{i}", pool("x", "y")) for i in range(10**4)]), QUICK, "ok"),
    ("functions call 50 deep", lambda: functions_in_a_row(50), QUICK, "ok"),
    ("functions call 101 deep", lambda: functions_in_a_row(101), QUICK, ""),
    ("functions call 2000 deep", lambda: functions_in_a_row(2000), QUICK, ""),
    ("2**24 calls", lambda: functions_in_a_row(24, calls=2), QUICK, ""),
    ("a function that calls itself", lambda: model(call("f", "X", "Y"), functions=[function("f", pool("x", "z"), call("f", "z", "y"))]), ALL, "InvalidModelError: model-local functions must not call themselves"),
    ("a circle of 500 functions", lambda: model(call("f0", "X", "Y"), functions=[function(f"f{i}", call(f"f{(i + 1) % 500}")) for i in range(500)]), FILES, "InvalidModelError: model-local functions must not call themselves"),
    ("a function twice", lambda: model(call("f", "X", "Y"), functions=[function("f", pool("x", "y")), function("f", pool("x", "y", 2))]), FILES, ""),
    ("a copied function that calls itself", lambda: changed(mp.convert_model(model(call("f", "X", "Y"), functions=[function("f", pool("x", "y"))])).model, lambda m: m.functions[1].node.add().CopyFrom(m.graph.node[0])), FILES, ""),
    ("a function's opset is negative", lambda: model(call("f", "X", "Y"), functions=[function("f", pool("x", "y"), opset=-1)]), ALL, "InvalidModelError: MaxPool with output 'y': the model must import a version"),
    ("calls with other inputs and outputs", lambda: model(helper.make_node("f", ["X", "X"], ["Y", "U"], domain="l"), functions=[function("f", pool("x", "y"))]), QUICK, ""),
    # edges
    ("a cycle", lambda: model(pool("Y", "Z"), pool("Z", "Y")), ALL, "ok"),
    ("a node that takes its own output", lambda: model(pool("Y", "Y"), element_type=TensorProto.FLOAT16, value_info=[value("Y", [1, 1, "L"], TensorProto.FLOAT16)]), ALL, ""),
    ("Y and Indices of one name", lambda: model(helper.make_node("MaxPool", ["X"], ["Z", "Z"], kernel_shape=[2]), pool("Z"), element_type=TensorProto.FLOAT16), ALL, ""),
    ("10**5 inputs", lambda: model(helper.make_node("MaxPool", ["X"] * 10**5, ["Y"], kernel_shape=[1])), QUICK, "InvalidAttributeError: MaxPool with output 'Y': MaxPool-12 (opset 15) takes 1 input, X, got ['X', 'X'"),
    ("10**5 entries of kernel_shape", lambda: model(helper.make_node("MaxPool", ["X"], ["Y"], kernel_shape=[1] * 10**5)), QUICK, "InvalidShapeError: MaxPool with output 'Y': X must have rank 100002"),
    ("10**4 nodes", lambda: chain(10**4), QUICK, "ok"),
    ("5000 nodes of float16 and any size", lambda: chain(5000, element_type=TensorProto.FLOAT16, dims=[1, 1, "L"]), QUICK, "ok"),
    ("3000 outputs of one name", lambda: model(*(pool() for _ in range(3000)), element_type=TensorProto.FLOAT16, dims=[1, 1, "L"]), QUICK, "ok"),
    # sizes and versions
    ("a size of 2**62", lambda: model(pool(kernel=3), dims=[1, 1, 2**62]), FILES, "ok"),
    ("a size of 10**9", lambda: model(pool(kernel=3), dims=[1, 1, 10**9]), FILES, "ok"),
    ("a made-up input that is too large", lambda: model(pool(kernel=3), dims=[1, 1, 2**62]), ("command run",), ""),
    ("a declared size of 2**62", lambda: model(helper.make_node("Relu", ["X"], ["Z"]), pool("Z"), value_info=[value("Z", [2**62] * 3)]), ALL, "ok"),
    ("a size of -1", lambda: model(pool(), dims=[1, 1, -1]), FILES, ""),
    *((f"opset {version}", lambda version=version: changed(model(pool()), set_opset(version)), ALL, "InvalidModelError: MaxPool with output 'Y': the model must import a version of ONNX's operators, got")
      for version in (-(2**31), -1, 2**31, 2**63 - 1)),
    # where onnx's inference ends the process
    ("a stride of 0", lambda: model(pool(strides=[0])), FILES, "InvalidAttributeError: MaxPool with output 'Y': strides must have entries from 1 to 2**60, got (0,)"),
    ("a stride of 0 before the node", lambda: text("{ A = AveragePool <kernel_shape = [2], strides = [0]> (X) Y = MaxPool <kernel_shape = [1]> (A) }"), FILES, ""),
    ("Slice of a size of -1, which ONNX Runtime takes for unknown", lambda: text(STARTS + "{ Z = Relu (X) W = " + SLICE + " Y = MaxPool <kernel_shape = [2]> (W) }", "float[1, 1, -1] X"), FILES, "ok"),
    ("Slice of a size of -1, no MaxPool", lambda: text(STARTS + "{ Z = Relu (X) Y = " + SLICE + " }", "float[1, 1, -1] X"), FILES, "ok"),
    ("Slice behind a window that is too large", lambda: text(STARTS + "{ Z = MaxPool <kernel_shape = [12]> (X) Y = " + SLICE + " }"), FILES, "InvalidShapeError: MaxPool with output 'Z': output size of spatial axis D1 must be >= 0, got"),
    ("Split into fewer than there are", lambda: text("{ A, B = Split <num_outputs = 1> (X) Y = MaxPool <kernel_shape = [1]> (A) }"), FILES, ""),
    ("Split into 2**31", lambda: text("{ A, B = Split <num_outputs = 2147483648> (X) Y = MaxPool <kernel_shape = [1]> (A) }"), FILES, ""),
    ("LayerNormalization along axis 2**63 - 1", lambda: text("{ A, M = LayerNormalization <axis = 9223372036854775807> (X, S) Y = MaxPool <kernel_shape = [1]> (A) }", "float[1, 1, 8] X, float[8] S"), FILES, ""),
    ("EyeLike behind AveragePool with ceil_mode, which ONNX Runtime runs", lambda: text("{ A = AveragePool <kernel_shape = [2], ceil_mode = 1> (X) B = Flatten (A) E = EyeLike <dtype = 1> (B) Y = MaxPool <kernel_shape = [1]> (X) }"), FILES, "ok"),
    ("EyeLike behind an operator that onnx does not know", lambda: text("{ A = other.Op (X) E = EyeLike <dtype = 1> (A) Y = MaxPool <kernel_shape = [1]> (X) }", imports=', "other": 1'), FILES, "ok"),
    ("EyeLike of a tensor that is not there", lambda: text("{ E = EyeLike <dtype = 1> (A) Y = MaxPool <kernel_shape = [1]> (X) }"), FILES, ""),
    ("LabelEncoder behind an operator that onnx does not know", lambda: text("{ A = other.Op (X) E = ai.onnx.ml.LabelEncoder <keys_floats = [1.0], values_floats = [2.0]> (A) Y = MaxPool <kernel_shape = [1]> (X) }", imports=', "other": 1, "ai.onnx.ml": 4'), FILES, "ok"),
    # names
    *((f"name {name!r}", lambda name=name: model(pool("X", name, name=name), helper.make_node("Relu", [name], ["Y"])), ALL, "ok")
      for name in ("new\nline", "\x1b[31m", "nul\0", " ")),
    ("node name that is no UTF-8", lambda: renamed(model(pool("X", "Y", name="QQQQ"))), ALL, ""),
    ("tensor name that is no UTF-8", lambda: renamed(model(pool("X", "QQQQ"), helper.make_node("Relu", ["QQQQ"], ["Y"]))), ALL, ""),
    ("unknown operator's name that is no UTF-8", lambda: renamed(model(helper.make_node("QQQQ", ["X"], ["Z"]), pool("Z"))), ALL, ""),
    ("name of a size that is no UTF-8", lambda: renamed(model(pool(), dims=[1, 1, "QQQQ"])), ALL, ""),
    ("name of a size that is no UTF-8, in a function", lambda: renamed(model(call("f", "X", "Y"), dims=[1, 1, "QQQQ"], functions=[function("f", pool("x", "y"))])), ALL, ""),
    ("location that is no UTF-8", lambda: renamed(external("QQQQ")), ALL, ""),
    ("location with NUL", lambda: external("nul\0"), ALL, "ok"),
    ("location that is empty", lambda: external(""), ALL, "ok"),
    # what a conversion leaves for the way back
    ("metadata that is no shape", lambda: changed(model(pool()), declare("dim {")), ("restore", *FILES), ""),
    ("metadata of a size that is too large", lambda: changed(model(pool()), declare("dim { dim_value: 99999999999999999999 }")), ALL, ""),
    *((f"{name} that is no UTF-8", lambda name=name: changed(mp.convert_model(model(pool())).model, lambda m: m.graph.node[0].attribute.append(helper.make_attribute(name, b"\xff"))), ALL, "")
      for name in ("wire_domain", "wire_y")),
    *((f"converted node {index} takes its own output", lambda index=index: changed(CONVERTED, lambda m: m.graph.node[index].input.__setitem__(0, m.graph.node[index].output[0])), ALL, "")
      for index in (1, 2, 3)),
    *((f"zero point of element type {number}", lambda number=number: quantized(number), ALL, "ok") for number in (-1, 0, 99, 2**31 - 1)),
]
# fmt: on


@pytest.mark.parametrize(("make", "works", "expected"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
def test_hostile(make: Any, works: tuple[str, ...], expected: str, worker: Worker) -> None:
    """Each goes through or is an error that tells, soon, whatever is done with it; nothing ends the process."""
    made = make()
    found = worker.tried(made if isinstance(made, bytes) else made.SerializeToString(), works)
    assert wrong(found) == {}
    assert found[works[0]].startswith(expected)


def test_in_python(tmp_path: Path) -> None:
    """Where protobuf itself runs in Python, which refuses other encodings when it parses, the rule holds too."""
    worker = Worker(tmp_path, "python")
    try:
        for name, make, _, _ in (row for row in HOSTILE if "no UTF-8" in row[0] or row[0] == "If 50 deep"):
            made = make()
            found = worker.tried(made if isinstance(made, bytes) else made.SerializeToString(), ALL)
            assert (name, wrong(found)) == (name, {})
    finally:
        worker.close()


def test_importing_changes_no_setting() -> None:
    """Importing the package leaves protobuf's setting alone: processes that are started later would be slow with it."""
    code = f"import os, maxpool_ort; print(os.environ.get({PROTOBUF!r}))"
    kept = {name: setting for name, setting in os.environ.items() if name != PROTOBUF}
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, env=kept, capture_output=True, text=True, check=True)  # noqa: S603 (our own text)
    assert run.stdout.strip() == "None"


def in_pieces(data: bytes, rng: random.Random) -> bytes:
    """A file with bits flipped, bytes put in or taken out, or its end lost."""
    damaged = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        position = rng.randrange(len(damaged))
        kind = rng.randrange(8)
        if kind < 5:
            damaged[position] ^= 1 << rng.randrange(8)
        elif kind == 5:
            del damaged[position : position + rng.randint(1, 4)]
        elif kind == 6:
            damaged[position:position] = rng.randbytes(rng.randint(1, 4))
        else:
            del damaged[max(1, position) :]
    return bytes(damaged)


def messages(message: Any) -> Iterator[Any]:
    """A message and those in it."""
    yield message
    for field, inner in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for each in inner if field.is_repeated else [inner]:
                yield from messages(each)


def restructured(data: bytes, rng: random.Random) -> bytes:
    """A model in which fields of some messages are lost, doubled, or have other values."""
    damaged = ModelProto.FromString(data)
    every = list(messages(damaged))
    words = sorted({each.name for each in every if hasattr(each, "name")} | {"", "X", "maxpool_ort", "MaxPool"})
    numbers = [0, -1, 1, 2**31 - 1, -(2**31), 2**31, 2**62, 2**63 - 1]
    for _ in range(rng.randint(1, 3)):
        message = rng.choice(every)
        fields = [field for field, _ in message.ListFields()]
        field = rng.choice(fields) if fields else None
        if field is None:
            continue
        given = getattr(message, field.name)
        kind = rng.randrange(3)
        if field.is_repeated and field.type == field.TYPE_MESSAGE and kind:
            given.add().CopyFrom(rng.choice(list(given)))
        elif field.is_repeated:
            del given[rng.randrange(len(given))]
        elif field.type == field.TYPE_STRING and kind:
            setattr(message, field.name, rng.choice(words))
        elif field.type in (field.TYPE_INT32, field.TYPE_INT64) and kind:
            most = 2**31 if field.type == field.TYPE_INT32 else 2**63
            setattr(message, field.name, rng.choice([number for number in numbers if -most <= number < most]))
        elif field.type == field.TYPE_ENUM and kind:
            setattr(message, field.name, rng.choice(field.enum_type.values).number)
        else:
            message.ClearField(field.name)
    return damaged.SerializeToString()


def seeds() -> list[bytes]:
    """Models to damage, as they are and converted."""
    paths = [MODELS / "maxpool_dtype_float16.onnx", MODELS / "maxpool_indices.onnx"]
    paths += [EXPORTS / f"{name}.onnx" for name in (
        "loop_of_if_torchscript12", "functions_float16_torchscript15", "functions_two_types_torchscript16",
        "ceil_mode_chain_torchscript12", "sppf_float16_torchscript11", "if_torchscript13",
    )]  # fmt: skip
    models = [onnx.load(path, load_external_data=False) for path in paths]
    models.append(quantized(TensorProto.UINT8))
    return [made.SerializeToString() for each in models for made in (each, mp.convert_model(each).model)]


@pytest.mark.parametrize("damage", [in_pieces, restructured])
def test_damaged(damage: Any, worker: Worker) -> None:
    """A few hundred damaged files, the same in every run, keep the rule."""
    rng = random.Random(0)  # noqa: S311 (cases, no secrets)
    undamaged = seeds()
    failed = []
    for number in range(300):
        data = damage(rng.choice(undamaged), rng)
        found = wrong(worker.tried(data, QUICK))
        if found:
            failed.append((number, found))
    assert failed == []
