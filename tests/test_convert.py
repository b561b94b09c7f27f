"""Conversion and its inverse: at every opset and depth, exact, and told in full."""

from pathlib import Path
import re
from typing import Any
import warnings

import numpy as np
import onnx
from onnx import TensorProto, defs, helper
import onnx.backend.test.loader
from onnx.parser import parse_model
import onnxruntime
import pytest
from subprocesses import printed
from versions import skip_unless_known

import maxpool_ort as mp

WHEEL = Path(onnx.__file__).parent / "backend" / "test" / "data"
X = np.random.default_rng(0).standard_normal((1, 2, 6, 6)).astype(np.float32)


def convert(model: onnx.ModelProto) -> mp.Conversion:
    """Convert, and hold what is true of every conversion."""
    before = model.SerializeToString()
    done = mp.convert_model(model)
    assert model.SerializeToString() == before
    assert mp.restore_model(done.model).SerializeToString() == before
    again = mp.convert_model(done.model)
    assert again.model == done.model
    assert not again.converted
    assert [node.is_ours for node in again.skipped].count(True) >= len(done.converted)
    onnx.checker.check_model(done.model)
    return done


def run_both(model: onnx.ModelProto, feed: dict[str, np.ndarray], calls: int) -> list[np.ndarray]:
    """Run as it is, and converted in a session of either kind; outputs are equal, our operator was called that often."""
    theirs = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)
    options = onnxruntime.SessionOptions()
    mp.register(options)
    converted = mp.convert_model(model).model.SerializeToString()
    for session in (mp.InferenceSession(model), onnxruntime.InferenceSession(converted, options)):
        with mp.record_calls() as recorded:
            ours = session.run(None, feed)
        assert len(recorded) == calls
        for got, expected in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(got, expected)
    return theirs


def one_node(
    opset: int,
    node: onnx.NodeProto,
    element_type: int = TensorProto.FLOAT,
    shape: Any = (1, 2, 6, 6),
    output_shape: Any = (None,) * 4,
) -> onnx.ModelProto:
    """A model of one node from X to its outputs, whose shapes are left to inference if they are not given."""
    outputs = [helper.make_tensor_value_info(node.output[0], element_type, output_shape)]
    outputs += [
        helper.make_tensor_value_info(name, TensorProto.INT64, output_shape) for name in node.output[1:] if name
    ]
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("X", element_type, shape)], outputs)
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10 if opset > 12 else 3)


@pytest.mark.parametrize("opset", [1, 4, 5, 7, 8, 10, 11, 12, 13, 22, 25])
@pytest.mark.parametrize(
    ("shape", "output_shape"),
    [((1, 2, 6, 6), (1, 2, 4, 5)), (("N", "C", "H", "W"), (None,) * 4)],
    ids=["static", "symbolic"],
)
def test_opsets(opset: int, shape: tuple[Any, ...], output_shape: tuple[Any, ...]) -> None:
    """MaxPool of every version, with a guard where shapes are symbolic, which no opset lacks the nodes for."""
    node = helper.make_node("MaxPool", ["X"], ["Y"], kernel_shape=[3, 2], name="pool1")
    model = one_node(opset, node, TensorProto.FLOAT, shape, output_shape)
    done = convert(model)
    assert [node.is_guarded for node in done.converted] == [shape[0] != 1]
    skip_unless_known(opset)
    run_both(model, {"X": X}, 1)


def test_the_newest_opset() -> None:
    """The newest operator set that onnx knows, which onnxruntime may be too old to run."""
    assert convert(one_node(defs.onnx_opset_version(), mp.make_maxpool_node([2, 2]))).converted


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bits(dtype: str) -> None:
    """16-bit floats go through Casts, which change no value: all of them are tried, and NaN comes first."""
    bits = np.arange(2**16, dtype=np.uint16)
    element_type = getattr(TensorProto, dtype.upper())
    node = mp.make_maxpool_node([1, 2], outputs=["Y", "I"], strides=[1, 2])
    model = one_node(22, node, element_type, (1, 1, 2**8, 2**8), (1, 1, 2**8, 2**7))
    done = convert(model)
    assert [node.op_type for node in done.model.graph.node] == ["Cast", "MaxPoolWithIndices", "Cast"]
    tensor = helper.make_tensor("X", element_type, [1, 1, 2**8, 2**8], bits.tobytes(), raw=True)
    model.graph.input.pop()
    model.graph.initializer.append(tensor)
    y_float = helper.make_tensor_value_info("Z", TensorProto.FLOAT, [None] * 4)
    model.graph.node.append(helper.make_node("Cast", ["Y"], ["Z"], to=TensorProto.FLOAT))
    model.graph.output[0].CopyFrom(y_float)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = mp.InferenceSession(model, options)
    with mp.record_calls() as calls:
        y, indices = session.run(None, {})
    assert len(calls) == 1
    values = (
        bits.view(np.float16).astype(np.float32)
        if dtype == "float16"
        else (bits.astype(np.uint32) << 16).view(np.float32)
    )
    expected = mp.max_pool(values.reshape(1, 1, 2**8, 2**8), [1, 2], strides=[1, 2], return_indices=True)
    np.testing.assert_array_equal(y, expected[0])
    np.testing.assert_array_equal(indices, expected[1])
    assert np.isnan(y).any()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8"])
def test_other_types_need_no_cast(dtype: str) -> None:
    """A node of static shape is replaced by one node."""
    done = convert(mp.make_maxpool_model(kernel_shape=[2], input_shape=[2, 3, 8], dtype=dtype))
    assert [(node.domain, node.op_type, node.name) for node in done.model.graph.node] == [
        ("maxpool_ort", "MaxPool", "maxpool")
    ]


BODIES = {
    "If": (
        """
        <ir_version: 8, opset_import: ["": 13]>
        main (bool c, float[1, 2, H, W] X) => (float[1, 2, h, w] Y) {
            [choose] Y = If (c) <
                then_branch = a () => (float[1, 2, h, w] p) {
                    [inner] p = If (c) <
                        then_branch = b () => (float[1, 2, h, w] q) { q = MaxPool <kernel_shape = [2, 2]> (X) },
                        else_branch = d () => (float[1, 2, h, w] q) { q = Identity (X) }
                    >
                },
                else_branch = e () => (float[1, 2, h, w] p) { p = MaxPool <kernel_shape = [3, 3]> (X) }
            >
        }
        """,
        {"c": np.array(True)},
        1,
        [
            "graph 'main', then_branch of If 'choose', then_branch of If 'inner'",
            "graph 'main', else_branch of If 'choose'",
        ],
    ),
    "Loop": (
        """
        <ir_version: 8, opset_import: ["": 13]>
        main (int64 count, bool go, float[1, 2, H, W] X) => (float[1, 2, h, w] Y) {
            [again] Y = Loop (count, go, X) <
                body = body (int64 i, bool ok, float[1, 2, a, b] x) => (bool on, float[1, 2, a2, b2] y) {
                    on = Identity (ok)
                    y = MaxPool <kernel_shape = [2, 2], pads = [0, 0, 1, 1]> (x)
                }
            >
        }
        """,
        {"count": np.array(3), "go": np.array(True)},
        3,
        ["graph 'main', body of Loop 'again'"],
    ),
    "Scan": (
        """
        <ir_version: 8, opset_import: ["": 13]>
        main (float[1, 2, 6, 6] X) => (float[1, 1, 2, 3, 3] Y) {
            [each] Y = Scan <num_scan_inputs = 1,
                body = body (float[2, 6, 6] x) => (float[1, 2, 3, 3] y) {
                    axes = Constant <value = int64[1] {0}> ()
                    x4 = Unsqueeze (x, axes)
                    y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x4)
                }
            > (X)
        }
        """,
        {},
        1,
        ["graph 'main', body of Scan 'each'"],
    ),
}


@pytest.mark.parametrize("kind", BODIES)
def test_bodies(kind: str) -> None:
    """Nodes in the bodies of control flow, at any depth, are converted, run, and are told by where they stand."""
    text, feed, calls, where = BODIES[kind]
    model = parse_model(text)
    assert [node.where for node in convert(model).converted] == where
    run_both(model, {**feed, "X": X}, calls)


@pytest.mark.parametrize("session", ["mp.InferenceSession(model)", "plain(mp.convert_model(model).model, options)"])
def test_a_failure_in_a_body(session: str) -> None:
    """A window that outgrows its input in the third round of a Loop ends the run, not the process; the next is right."""
    code = """
        import sys
        import numpy as np, onnx.parser, onnxruntime, maxpool_ort as mp
        onnxruntime.set_default_logger_severity(4)
        options = onnxruntime.SessionOptions()
        mp.register(options)
        def plain(model, options):
            return onnxruntime.InferenceSession(model.SerializeToString(), options)
        model = onnx.parser.parse_model('''
            <ir_version: 8, opset_import: ["": 13]>
            main (int64 count, bool go, float[1, 1, L] X) => (float[1, 1, l] Y) {
                Y = Loop (count, go, X) <
                    body = body (int64 i, bool ok, float[1, 1, a] x) => (bool on, float[1, 1, b] y) {
                        on = Identity (ok)
                        [pool1] y = MaxPool <kernel_shape = [3]> (x)
                    }
                >
            }
        ''')
        session = eval(sys.argv[1])
        feed = {"go": np.array(True), "X": np.array([[[1, 5, 2, 3]]], np.float32)}
        for count in (1, 3, 1):
            try:
                print(session.run(None, {**feed, "count": np.array(count)})[0].tolist())
            except Exception as error:
                print(type(error).__name__, str(error).replace("\\n", " "))
    """
    before, failed, after = printed(code, session).splitlines()
    assert before == after == "[[[5.0, 5.0]]]"
    if session.startswith("mp."):
        assert failed.startswith(
            "InvalidShapeError MaxPool 'pool1': output size of spatial axis D1 must be >= 0, got -2"
        )
        assert "(X: float32 (1, 1, 0); kernel_shape=3;" in failed
    else:
        assert re.match(r"RuntimeException|Fail|InvalidArgument", failed)
        assert "maxpool_ort/y/guard" in failed


# (id, model, feed, why the declared or inferred shape of Z is not what it is in the run)
WRONG_SHAPES: list[tuple[str, str, dict[str, np.ndarray], str]] = [
    (
        "value_info",
        """main (float[n] v, int64[3] s) => (float[a, b, c] Y) <float[1, 1, 9] Z> {
            Z = Reshape (v, s)
            [pool1] Y = MaxPool <kernel_shape = [3]> (Z)
        }""",
        {"v": np.zeros(1, np.float32), "s": np.array([1, 1, 1])},
        "the model declares a size that nothing holds it to",
    ),
    (
        "input of a body",
        """main (float[n] v, int64[3] s, int64 count, bool go) => (float[a, b, c] Y) {
            X = Reshape (v, s)
            last, Y = Loop (count, go, X) <
                body = body (int64 i, bool ok, float[1, 1, 9] Z) => (bool on, float[1, 1, 9] same, float[a, b, d] y) {
                    on = Identity (ok)
                    same = Identity (Z)
                    [pool1] y = MaxPool <kernel_shape = [3]> (Z)
                }
            >
        }""",
        {"v": np.zeros(1, np.float32), "s": np.array([1, 1, 1]), "count": np.array(1), "go": np.array(True)},
        "onnxruntime checks what is fed to the main graph only",
    ),
]


@pytest.mark.parametrize(
    ("text", "feed", "why"), [row[1:] for row in WRONG_SHAPES], ids=[row[0] for row in WRONG_SHAPES]
)
def test_wrong_static_shapes(text: str, feed: dict[str, np.ndarray], why: str) -> None:
    """A static shape that turns out wrong in the run is our error in a session of ours, guard or no guard."""
    session = mp.InferenceSession(parse_model(f'<ir_version: 7, opset_import: ["": 12]> {text}'))
    with pytest.raises(mp.InvalidShapeError, match="MaxPool 'pool1': output size of spatial axis D1 must be >= 0"):
        session.run(None, feed)
    good = {**feed, "v": np.arange(9, dtype=np.float32), "s": np.array([1, 1, 9])}
    assert session.run(None, good)[-1].ravel().tolist() == list(range(2, 9)), why


# (id, name of X, of Y, of the MaxPool, of the Relu behind it): all start as the names that a conversion gives
OUR_PREFIX = [
    ("X", "maxpool_ort/x", "y", "", ""),
    ("Y", "x", "maxpool_ort/y", "", ""),
    ("X like a Cast", "maxpool_ort/x/cast", "x", "", ""),
    ("X like a guard", "maxpool_ort/y/guard", "y", "", ""),
    ("Y like a Cast", "x", "maxpool_ort/x/cast", "", ""),
    ("MaxPool", "x", "y", "maxpool_ort/pool1", ""),
    ("other node", "x", "y", "", "maxpool_ort/relu"),
    ("other node like a guard", "x", "y", "", "maxpool_ort/y/guard"),
    ("other node like a Constant", "x", "y", "", "maxpool_ort/copied_dims/3"),
]


@pytest.mark.parametrize("dtype", ["float", "float16"])
@pytest.mark.parametrize(
    ("x", "y", "pool", "relu"), [row[1:] for row in OUR_PREFIX], ids=[row[0] for row in OUR_PREFIX]
)
def test_names_with_our_prefix(x: str, y: str, pool: str, relu: str, dtype: str) -> None:
    """A model's own nodes and tensors may be called as a conversion's: none is lost on the way back."""
    model = parse_model(f"""
        <ir_version: 7, opset_import: ["": 12]>
        main ({dtype}[1, 1, L] X) => ({dtype}[1, 1, l] Z) {{ Y = MaxPool <kernel_shape = [2]> (X)
            Z = Relu (Y) }}
    """)
    model.graph.input[0].name = model.graph.node[0].input[0] = x
    model.graph.node[0].output[0] = model.graph.node[1].input[0] = y
    model.graph.node[0].name, model.graph.node[1].name = pool, relu
    convert(model)
    values = np.array([[[1, 3, 2]]], np.float16 if dtype == "float16" else np.float32)
    assert mp.InferenceSession(model).run(None, {x: values})[0].tolist() == [[[3, 3]]]


@pytest.mark.parametrize("behind", [False, True])
def test_nodes_that_look_like_helpers(behind: bool) -> None:
    """A model's own node that is named just as a Cast or guard of ours would be is none."""
    order = (
        "P = MaxPool <kernel_shape = [2]> (X)  Y = Relu (P)"
        if behind
        else "P = Relu (X)  Y = MaxPool <kernel_shape = [2]> (P)"
    )
    model = parse_model(
        f'<ir_version: 8, opset_import: ["": 13]> main (float[1, 1, L] X) => (float[1, 1, l] Y) {{ {order} }}'
    )
    model.graph.node[0].output[0] = model.graph.node[1].input[0] = "maxpool_ort/r"
    model.graph.node[int(behind)].name = "maxpool_ort/r"
    convert(model)


def test_names() -> None:
    """Whatever names a model has: they stay, and new ones are none of them, in no scope."""
    model = parse_model(
        """
        <ir_version: 7, opset_import: ["": 12], producer_name: "me">
        main (float[1, 2, H, W] X) => (float[1, 2, h, w] Y, int64[1, 2, h, w] J, float[1, 2, h, w] W) {
            [same] U, "maxpool_ort/U/guard" = MaxPool <kernel_shape = [2, 2]> (X)
            [V] V, J = MaxPool <kernel_shape = [2, 2]> (U)
            "maxpool_ort/copied_dims/4" = Relu (V)
            Y = MaxPool <kernel_shape = [1, 1], auto_pad = ""> ("maxpool_ort/copied_dims/4")
            W = Cast <to = 1> ("maxpool_ort/U/guard")
        }
    """.replace('"maxpool_ort/U/guard"', "g").replace('"maxpool_ort/copied_dims/4"', "k")
    )
    for node in model.graph.node:  # the parser takes no slashes
        for names in (node.input, node.output):
            names[:] = [
                {"g": "maxpool_ort/U/guard", "k": "maxpool_ort/copied_dims/4"}.get(name, name) for name in names
            ]
    done = convert(model)
    run_both(model, {"X": X}, 3)
    outputs = [name for node in done.model.graph.node for name in node.output]
    assert len(outputs) == len(set(outputs))
    assert {name for node in model.graph.node for name in node.output} <= set(outputs)
    assert (done.model.graph.input, done.model.graph.output) == (model.graph.input, model.graph.output)
    assert [node.name for node in done.model.graph.node if node.domain] == ["same", "V", ""]


def test_everything_else_stays() -> None:
    """Metadata, doc strings, the IR version and other imports are kept; ours is added, and taken away again."""
    node = mp.make_maxpool_node([2, 2], outputs=["Y", ""], name="pool1")
    model = one_node(12, node, output_shape=(1, 2, 5, 5))
    model.graph.node[0].domain = "ai.onnx"
    model.graph.node[0].doc_string = "a node"
    model.doc_string, model.graph.doc_string, model.producer_name = "a model", "a graph", "me"
    helper.set_model_props(model, {"a": "b"})
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 2))
    changed = convert(model).model
    assert [(o.domain, o.version) for o in changed.opset_import] == [("", 12), ("ai.onnx.ml", 2), ("maxpool_ort", 1)]
    for part in ("doc_string", "producer_name", "metadata_props", "ir_version"):
        assert getattr(changed, part) == getattr(model, part)
    assert changed.graph.node[0].doc_string == "a node"
    assert [node.has_indices for node in convert(model).converted] == [False]
    run_both(model, {"X": X}, 1)


def test_indices_alone() -> None:
    """A model that uses Indices and not Y runs, and a failed run is refused all the same."""
    model = parse_model("""
        <ir_version: 7, opset_import: ["": 12]>
        main (float[N, C, L] X) => (int64[n, c, l] J) { Y, I = MaxPool <kernel_shape = [3]> (X)
            J = Identity (I) }
    """)
    convert(model)
    x = np.array([[[1, 5, 2, 0]]], np.float32)
    assert run_both(model, {"X": x}, 1)[0].tolist() == [[[1, 1]]]
    options = onnxruntime.SessionOptions()
    mp.register(options)
    plain = onnxruntime.InferenceSession(mp.convert_model(model).model.SerializeToString(), options)
    with pytest.raises(Exception, match=r"maxpool_ort/./guard"):
        plain.run(None, {"X": x[..., :1]})


# (id, model, what is left and why)
LEFT = [
    (
        "function that nothing calls",
        """
        <ir_version: 8, opset_import: ["": 15, "local": 1]>
        main (float[1, 2, 6, 6] X) => (float[1, 2, 6, 6] Y) { Y = Identity (X) }
        <domain: "local", opset_import: ["": 15]> pool (x) => (y) { y = MaxPool <kernel_shape = [2, 2]> (x) }
        """,
        "left MaxPool with output 'y' in function 'pool': nothing calls the function",
    ),
    (
        "unknown element type",
        """
        <ir_version: 8, opset_import: ["": 15, "local": 1]>
        main (float[1, 2, 6, 6] X) => (float[1, 2, 5, 5] Y) {
            Z = local.same (X)
            [pool1] Y = MaxPool <kernel_shape = [2, 2]> (Z)
        }
        <domain: "local", opset_import: ["": 15]> same (x) => (y) { y = com.unknown.Same (x) }
        """,
        "left MaxPool 'pool1' in graph 'main': the element type of X is not known from the graph",
    ),
]


@pytest.mark.parametrize(("text", "said"), [row[1:] for row in LEFT], ids=[row[0] for row in LEFT])
def test_left(text: str, said: str) -> None:
    """A node that cannot be converted safely is left, and it is said why."""
    done = mp.convert_model(parse_model(text))
    assert str(done) == said
    assert done.model == parse_model(text)


# (id, body of a graph from X (1, 1, 12) to Y, which node stands unguarded)
TRUST = [
    ("an input's size", "Y = MaxPool <kernel_shape = [8]> (X)", [False]),
    (
        "a size that a constant gives",
        "s = Constant <value = int64[3] {1, 1, 12}> () Z = Reshape (X, s) Y = MaxPool <kernel_shape = [8]> (Z)",
        [False],
    ),
    ("an inferred size", "Z = Relu (X) Y = MaxPool <kernel_shape = [8]> (Z)", [False]),
    (
        "behind ceil_mode",
        "Z = MaxPool <kernel_shape = [1], strides = [2], ceil_mode = 1> (X) Y = MaxPool <kernel_shape = [2]> (Z)",
        [False, False],
    ),
    (
        "behind another operator with ceil_mode",
        "Z = AveragePool <kernel_shape = [1], strides = [2], ceil_mode = 1> (X) Y = MaxPool <kernel_shape = [8]> (Z)",
        [True],
    ),
]


@pytest.mark.parametrize(("body", "guarded"), [row[1:] for row in TRUST], ids=[row[0] for row in TRUST])
def test_sizes_that_may_be_wrong_are_no_proof(body: str, guarded: list[bool]) -> None:
    """Where onnx's inference, or a declaration, may be wrong, a guard stands, and no wrong output passes."""
    model = parse_model(
        f'<ir_version: 7, opset_import: ["": 19]> main (float[1, 1, 12] X) => (float[1, 1, 5] Y) {{ {body} }}'
    )
    converted = convert(model)
    assert [node.is_guarded for node in converted.converted] == guarded
    options = onnxruntime.SessionOptions()
    mp.register(options)
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 12)
    plain = onnxruntime.InferenceSession(converted.model.SerializeToString(), options)
    if any(guarded):  # 6 elements and a window of 8
        with pytest.raises(Exception, match="maxpool_ort/Y/guard"):
            plain.run(None, {"X": x})
        with pytest.raises(mp.InvalidShapeError, match="spatial axis D1 must be >= 0, got -1"):
            mp.InferenceSession(model).run(None, {"X": x})
    else:
        assert plain.run(None, {"X": x})[0].shape == (1, 1, 5)
    model.graph.value_info.append(helper.make_tensor_value_info("Z", TensorProto.FLOAT, [1, 1, 99]))
    assert [node.is_guarded for node in mp.convert_model(model).converted] == guarded


def test_declared_sizes_that_are_wrong_are_no_proof() -> None:
    """Sizes that are declared for a body's input, or for an output that another node uses, may be wrong too."""
    loop = parse_model("""
        <ir_version: 8, opset_import: ["": 13]>
        main (int64 count, bool go, float[1, 1, L] X) => (float[1, 1, l] Y) {
            Y = Loop (count, go, X) <
                body = body (int64 i, bool ok, float[1, 1, 9] x) => (bool on, float[1, 1, 7] y) {
                    on = Identity (ok)
                    y = MaxPool <kernel_shape = [3]> (x)
                }
            >
        }
    """)
    output = parse_model("""
        <ir_version: 8, opset_import: ["": 13]>
        main (float[1, 1, L] X) => (float[1, 1, 9] Z, float[1, 1, l] Y) { Z = Relu (X) Y = MaxPool <kernel_shape = [3]> (Z) }
    """)
    short = np.zeros((1, 1, 1), np.float32)
    options = onnxruntime.SessionOptions()
    mp.register(options)
    for model, feed in ((loop, {"count": np.array(1), "go": np.array(True)}), (output, {})):
        done = convert(model)
        assert [node.is_guarded for node in done.converted] == [True]
        plain = onnxruntime.InferenceSession(done.model.SerializeToString(), options)
        with pytest.raises(Exception, match=r"maxpool_ort/[yY]/guard"):
            plain.run(None, {**feed, "X": short})


def test_a_newer_maxpool_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that came after this package may mean something else, so it is not touched."""
    monkeypatch.setattr(mp.decide, "NEWEST_VERSION", 11)
    done = mp.convert_model(mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4], opset=13))
    assert str(done) == (
        "left MaxPool 'maxpool' in graph 'maxpool': MaxPool-12 is newer than what is known here, MaxPool-11"
    )


def test_unnamed_and_equally_named_nodes() -> None:
    """Nodes need no names of their own."""
    model = one_node(12, mp.make_maxpool_node([2, 2], outputs=["U"]))
    for number in range(3):
        model.graph.node.append(mp.make_maxpool_node([2, 2], inputs=["U"], outputs=[f"V{number}"], name="pool"))
    assert [node.node for node in convert(model).converted] == ["MaxPool with output 'U'", *["MaxPool 'pool'"] * 3]


def test_says_what_it_did() -> None:
    """A conversion prints a line for each node."""
    model = mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, None], dtype="float16", ceil_mode=1)
    done = convert(model)
    assert str(done) == "converted MaxPool 'maxpool' in graph 'maxpool': float16 kernel_shape=2 ceil_mode=1"
    (node,) = done.converted
    assert (node.input_dims, node.has_indices, node.is_guarded) == ((1, 1, None), False, True)


def edited(change: Any, **arguments: Any) -> onnx.ModelProto:
    """A model of one node, changed by hand."""
    model = mp.make_maxpool_model(**{"kernel_shape": [2], "input_shape": [1, 1, 4], "name": "pool1", **arguments})
    change(model)
    return model


def set_types(element_type: int) -> Any:
    """Make a change of the element type of X and Y."""

    def change(model: onnx.ModelProto) -> None:
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.elem_type = element_type

    return change


# (id, model, error, text)
INVALID: list[tuple[str, onnx.ModelProto, type[Exception], str]] = [
    ("value", edited(lambda m: m.graph.node[0].attribute[0].ints.append(0)), mp.InvalidAttributeError, "MaxPool 'pool1': kernel_shape must have entries from 1"),
    ("missing", edited(lambda m: m.graph.node[0].attribute.pop()), mp.InvalidAttributeError, "MaxPool 'pool1': kernel_shape is required, and is missing"),
    ("no input", edited(lambda m: m.graph.node[0].input.pop()), mp.InvalidAttributeError, "MaxPool 'pool1': MaxPool-12 (opset 12) takes 1 input, X, got []"),
    ("type", edited(set_types(TensorProto.INT32)), mp.UnsupportedTypeError, "MaxPool 'pool1': MaxPool-12 (opset 12) takes X of type tensor(double), tensor(float), tensor(float16), tensor(int8), tensor(uint8), got tensor(int32)"),
    ("unknown attribute", edited(lambda m: m.graph.node[0].attribute.append(helper.make_attribute("ceil", 1))), mp.InvalidAttributeError, "MaxPool 'pool1': unknown attribute 'ceil'; MaxPool-12 has auto_pad, ceil_mode, dilations"),
    ("strides", edited(lambda m: m.graph.node[0].attribute.append(helper.make_attribute("strides", [1, 2]))), mp.InvalidAttributeError, "MaxPool 'pool1': strides must have 1 entry, one per spatial axis, got 2: (1, 2)"),
    ("newer attribute", edited(lambda m: setattr(m.opset_import[0], "version", 8), ceil_mode=1), mp.InvalidAttributeError, "MaxPool 'pool1': MaxPool-8 (opset 8) has no attribute 'ceil_mode', only "),
    ("absent input", edited(lambda m: m.graph.node[0].input.__setitem__(0, "")), mp.InvalidAttributeError, "MaxPool 'pool1': MaxPool-12 (opset 12) takes 1 input, X, got ['']"),
    ("no output", edited(lambda m: m.graph.node[0].output.pop()), mp.InvalidAttributeError, "MaxPool 'pool1': MaxPool-12 (opset 12) puts out Y or Y and Indices, got []"),
    ("negative opset", edited(lambda m: setattr(m.opset_import[0], "version", -1)), mp.InvalidModelError, "MaxPool 'pool1': the model must import a version of ONNX's operators, got -1"),
    ("huge opset", edited(lambda m: setattr(m.opset_import[0], "version", 10**12)), mp.InvalidModelError, "MaxPool 'pool1': the model must import a version of ONNX's operators, got 1000000000000"),
    ("opset", edited(lambda m: m.opset_import.pop()), mp.InvalidModelError, "MaxPool 'pool1': the model must import a version of ONNX's operators, got none"),
    ("size", edited(lambda m: m.graph.input[0].type.tensor_type.shape.dim[2].__setattr__("dim_value", 1), kernel_shape=[4]), mp.InvalidShapeError, "MaxPool 'pool1': output size of spatial axis D1 must be >= 0, got -2: input 1 + pads"),
    ("rank", edited(lambda m: m.graph.input[0].type.tensor_type.shape.dim.pop()), mp.InvalidShapeError, "MaxPool 'pool1': X must have rank 3 "),
    ("size behind a pool", parse_model('<ir_version: 7, opset_import: ["": 12]> main (float[1, 1, 12] X) => (float[1, 1, c] Y) { Z = MaxPool <kernel_shape = [1], strides = [2], ceil_mode = 1> (X)  [pool2] Y = MaxPool <kernel_shape = [8]> (Z) }'), mp.InvalidShapeError, "MaxPool 'pool2': output size of spatial axis D1 must be >= 0, got -1: input 6 + pads"),
    ("recursion", parse_model('<ir_version: 8, opset_import: ["": 15, "l": 1]> main (float[1, 1, 9] X) => (float[1, 1, c] Y) { Y = l.f (X) } <domain: "l", opset_import: ["": 15, "l": 1]> f (x) => (y) { z = MaxPool <kernel_shape = [2]> (x)  y = l.g (z) } <domain: "l", opset_import: ["": 15, "l": 1]> g (x) => (y) { y = l.f (x) }'), mp.InvalidModelError, "model-local functions must not call themselves, got 'f' -> 'g' -> 'f'"),
]  # fmt: skip


@pytest.mark.parametrize(("model", "error", "text"), [row[1:] for row in INVALID], ids=[row[0] for row in INVALID])
def test_invalid(model: onnx.ModelProto, error: type[Exception], text: str) -> None:
    """An invalid node is an error with its name, from convert_model and from a session alike."""
    with pytest.raises(error, match=re.escape(text)):
        mp.convert_model(model)
    with pytest.raises(error, match=re.escape(text)):
        mp.InferenceSession(model)


def test_arguments() -> None:
    """What is no model is refused."""
    with pytest.raises(TypeError, match=r"model must be an onnx.ModelProto, got str; use convert_file for a path"):
        mp.convert_model("model.onnx")


def test_restore_refuses_what_was_changed() -> None:
    """A converted model that somebody has edited is not restored to something else."""
    done = mp.convert_model(
        mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, None], dtype="float16", name="pool1")
    )
    for index, node in enumerate(done.model.graph.node):
        if node.op_type in {"Cast", "Reshape"}:
            damaged = onnx.ModelProto.FromString(done.model.SerializeToString())
            del damaged.graph.node[index]
            with pytest.raises(mp.InvalidModelError, match=r"the model cannot be restored: nodes that .* what makes '"):
                mp.restore_model(damaged)
    ours = next(node for node in done.model.graph.node if node.domain)
    ours.attribute[0].ints[0] = 3
    for refuse in (mp.restore_model, mp.convert_model, mp.InferenceSession):
        with pytest.raises(mp.InvalidAttributeError, match="MaxPool 'pool1': wire_attributes must say what the node's"):
            refuse(done.model)


def test_restore_leaves_other_models_alone() -> None:
    """A model that was never converted comes back as it is, also with names like ours."""
    model = mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4], name="maxpool_ort/Y/guard")
    model.opset_import.append(helper.make_opsetid("maxpool_ort", 1))
    assert mp.restore_model(model) == model


def test_restore_without_input() -> None:
    """A node of ours that somebody took the input from comes back as it stands there: restoring checks no inputs."""
    done = mp.convert_model(mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4])).model
    done.graph.node[0].input.pop()
    assert list(mp.restore_model(done).graph.node[0].input) == []


def test_every_model_in_the_wheel() -> None:
    """All of onnx's own models go there and back; 9 architectures, 9 of PyTorch and 19 node tests hold a MaxPool."""
    models = [onnx.load(path, load_external_data=False) for path in sorted(WHEEL.rglob("*.onnx"))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite casts infinities while it builds its cases
        cases = onnx.backend.test.loader.load_model_tests(kind="node")
    models += [case.model for case in cases if case.model is not None]  # older onnx gives files, which are in the wheel
    holding = 0
    for model in models:
        done = mp.convert_model(model)
        assert mp.restore_model(done.model).SerializeToString() == model.SerializeToString()
        if done.converted:
            onnx.checker.check_model(done.model)
            holding += 1
        assert not done.skipped
    assert holding >= 37


def test_shapes_are_declared_where_nothing_else_says_them() -> None:
    """Behind a node whose shapes are known, ONNX Runtime knows them too, and fuses what it fused; restore undoes it."""
    model = parse_model("""
        <ir_version: 8, opset_import: ["": 13]>
        main (float16[N, 2, 9] X, float[1, 1, L] other) => (float16[N, 2, 3] Y, float[1, 1, l] Z) {
            pooled, indices = MaxPool <kernel_shape = [2], strides = [2]> (X)
            Y = MaxPool <kernel_shape = [2]> (pooled)
            free = MaxPool <kernel_shape = [2]> (other)
            Z = Relu (free)
        }
    """)
    converted = convert(model)
    declared = {value.name: value for value in converted.model.graph.value_info}
    assert set(declared) == {"pooled", "indices"}  # Y is an output, free's length is not known
    expected = ((TensorProto.FLOAT16, "pooled"), (TensorProto.INT64, "indices"))
    for element_type, name in expected:
        tensor = declared[name].type.tensor_type
        assert tensor.elem_type == element_type
        assert [dim.dim_param or dim.dim_value for dim in tensor.shape.dim] == ["N", 2, 4]
    assert mp.restore_model(converted.model) == model


def test_shapes_are_declared_once() -> None:
    """What the model declares, as a tensor within it or as its output, is not declared again."""
    model = parse_model("""
        <ir_version: 8, opset_import: ["": 13]>
        main (float[1, 2, 9] X) => (float[1, 2, 3] Y) <float[1, 2, 4] pooled> {
            pooled = MaxPool <kernel_shape = [2], strides = [2]> (X)
            Y, indices = MaxPool <kernel_shape = [2]> (pooled)
        }
    """)
    converted = convert(model).model
    assert [value.name for value in converted.graph.value_info] == ["pooled", "indices"]
    assert mp.restore_model(converted) == model
