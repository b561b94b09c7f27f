"""Model-local functions: each call that leads to a MaxPool calls a copy in which it is ours."""

import numpy as np
import onnx
from onnx.parser import parse_model
import onnxruntime
import pytest
from test_convert import convert, run_both

import maxpool_ort as mp

X = np.random.default_rng(0).standard_normal((1, 2, 9)).astype(np.float32)
HEADER = '<ir_version: 8, opset_import: ["": 15, "l": 1]>'
POOL = '<domain: "l", opset_import: ["": 15]> pool <k, s, c> (x) => (y) { y = MaxPool <kernel_shape: ints = @k, strides: ints = @s, ceil_mode: int = @c> (x) }'

# (id, model, how often our operator runs, attributes of the converted nodes, functions in the converted model)
FUNCTIONS = [
    (
        "fixed attributes, two calls of equal types",
        HEADER + """ main (float[1, 2, 9] X) => (float[a, b, c] Y) { Z = l.f (X)  W = Relu (X)  V = l.f (W)  Y = Add (Z, V) }
        <domain: "l", opset_import: ["": 15]> f (x) => (y) { y = MaxPool <kernel_shape = [2]> (x) }""",
        2,
        ["kernel_shape=2"],
        ["f", "f"],
    ),
    (
        "attributes of the call, which one call leaves out",
        HEADER + """ main (float[1, 2, 9] X) => (float[a, b, c] Y) { Z = l.pool <k = [3], s = [2], c = 1> (X)  Y = l.pool <k = [2]> (Z) }
        """ + POOL,
        2,
        ["kernel_shape=3 ceil_mode=1 strides=2", "kernel_shape=2"],
        ["pool", "pool", "pool_2"],
    ),
    (
        "an attribute with a default",
        HEADER + """ main (float[1, 2, 9] X) => (float[a, b, c] Y) { Z = l.f (X)  Y = l.f <k = [3]> (Z) }
        <domain: "l", opset_import: ["": 15]> f <k: ints = [2]> (x) => (y) { y = MaxPool <kernel_shape: ints = @k> (x) }""",
        2,
        ["kernel_shape=2", "kernel_shape=3"],
        ["f", "f", "f_2"],
    ),
    (
        "functions that call functions, with nodes behind them that need types",
        HEADER + """ main (float[1, 2, L] X) => (float[a, b, c] Y) { Z = l.twice <n = [2]> (X)  Y = Sigmoid (Z) }
        <domain: "l", opset_import: ["": 15, "l": 1]>
        twice <n> (x) => (y) { p = l.pool <k: ints = @n> (x)  r = Relu (p)  y = l.pool <k: ints = @n, c = 1> (r) }
        """ + POOL,
        2,
        ["kernel_shape=2", "kernel_shape=2 ceil_mode=1"],
        ["twice", "pool", "pool", "pool_2", "twice"],
    ),
    (
        "Indices, an output that is used and one that is not, in a body in a function",
        HEADER + """ main (bool go, float[1, 2, 9] X) => (float[a, b, c] Y, int64[d, e, f] J) { Y, J = l.f (go, X) }
        <domain: "l", opset_import: ["": 15]> f (go, x) => (y, j) {
            y, j = If (go) <
                then_branch = t () => (p, i) { p, i = MaxPool <kernel_shape = [2], strides = [2]> (x) },
                else_branch = e () => (q, i2) { q, i2 = MaxPool <kernel_shape = [9]> (x) }
            >
        }""",
        1,
        ["kernel_shape=2 strides=2", "kernel_shape=9"],
        ["f", "f"],
    ),
    (
        "a call in a body",
        HEADER + """ main (bool go, float[1, 2, 9] X) => (float[a, b, c] Y) {
            Y = If (go) <
                then_branch = t () => (float[a, b, c] p) { p = l.pool <k = [2]> (X) },
                else_branch = e () => (float[a, b, d] q) { q = Identity (X) }
            >
        } """ + POOL,
        1,
        ["kernel_shape=2"],
        ["pool", "pool"],
    ),
    (
        "an older opset in the function, of other versions of Cast and Reshape",
        HEADER + """ main (float[1, 2, L] X) => (float[a, b, c] Y) { Y = l.f (X) }
        <domain: "l", opset_import: ["": 12]> f (x) => (y) { z = MaxPool <kernel_shape = [2]> (x)  y = Tan (z) }""",
        1,
        ["kernel_shape=2"],
        ["f", "f"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "calls", "attributes", "functions"), [row[1:] for row in FUNCTIONS], ids=[row[0] for row in FUNCTIONS])  # fmt: skip
def test_functions(text: str, calls: int, attributes: list[str], functions: list[str]) -> None:
    """Every call's nodes are converted with its attributes; functions stay; copies are shared; results are the same."""
    model = parse_model(text)
    done = convert(model)
    assert [str(node.attributes) for node in done.converted] == attributes
    assert done.skipped == ()
    names = [function.name for function in done.model.functions]
    assert sorted(names) == sorted(functions)
    assert list(done.model.functions[: len(model.functions)]) == list(model.functions)
    for function in done.model.functions[len(model.functions) :]:
        assert "maxpool_ort" in {each.domain for each in function.opset_import}
    feed = {"X": X} | ({"go": np.array(True)} if "bool go" in text else {})
    run_both(model, feed, calls)


@pytest.mark.parametrize("element_type", ["float16", "float", "double", "int8", "uint8"])
def test_element_types(element_type: str) -> None:
    """A function is converted for each element type that its calls give it."""
    model = parse_model(
        f"{HEADER} main ({element_type}[1, 2, L] X, float[1, 2, 9] W) => ({element_type}[a, b, c] Y, float[d, e, f] V) "
        "{ Y = l.two (X)  V = l.two (W) }"
        '<domain: "l", opset_import: ["": 15]> two (x) => (y) { z = MaxPool <kernel_shape = [2]> (x)'
        "  y = MaxPool <kernel_shape = [3], strides = [2]> (z) }"
    )
    done = convert(model)
    assert {node.element_type for node in done.converted} == {element_type, "float"}
    dtype = np.dtype({"float": "float32", "double": "float64"}.get(element_type, element_type))
    run_both(model, {"X": (X * 9).astype(np.int8).astype(dtype), "W": X}, 4)


def test_a_failure_in_a_function() -> None:
    """A window that does not fit in the run is an error of ours, or of a plain session's guard; the next run is right."""
    model = parse_model(HEADER + " main (float[1, 1, L] X) => (float[a, b, c] Y) { Y = l.pool <k = [3]> (X) } " + POOL)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    mp.register(options)
    done = convert(model)
    assert [node.is_guarded for node in done.converted] == [True]
    plain = onnxruntime.InferenceSession(done.model.SerializeToString(), options)
    ours = mp.InferenceSession(model)
    for _ in range(2):
        with pytest.raises(
            mp.InvalidShapeError, match="MaxPool with output 'y': output size of spatial axis D1 must be"
        ):
            ours.run(None, {"X": X[:, :1, :1]})
        with pytest.raises(Exception, match="maxpool_ort/y/guard"):
            plain.run(None, {"X": X[:, :1, :1]})
        for session in (ours, plain):
            (y,) = session.run(None, {"X": X[:, :1]})
            np.testing.assert_array_equal(y, mp.max_pool(X[:, :1], [3]))


def test_sizes_are_proved_through_functions() -> None:
    """Sizes that a call gives prove as much as in a graph; one of a declaration proves nothing."""
    pool = '<domain: "l", opset_import: ["": 12]> f (x) => (y) { z = MaxPool <kernel_shape = [1], strides = [2], ceil_mode = 1> (x)  y = MaxPool <kernel_shape = [1]> (z) }'
    model = parse_model(HEADER + " main (float[1, 1, 12] X) => (float[1, 1, 7] Y, float[1, 1, 1] Z) { Y = l.f (X) "
                        "Z = MaxPool <kernel_shape = [6]> (Y) }" + pool)  # fmt: skip
    done = convert(model)
    assert [(node.input_dims, node.is_guarded) for node in done.converted] == [
        ((1, 1, 12), False), ((1, 1, 6), True), ((1, 1, 6), False),  # in between: an output of the function
    ]  # fmt: skip
    assert [(shape.tensor, shape.declared, shape.true) for shape in done.repaired] == [("Y", (1, 1, 7), (1, 1, 6))]
    run_both(model, {"X": X.reshape(1, 1, 18)[..., :12]}, 3)


def test_other_versions_in_a_function() -> None:
    """A function of an opset with another MaxPool keeps it; onnx's checker takes neither, ONNX Runtime runs both."""
    model = parse_model(HEADER + """ main (float[1, 2, L] X) => (float[a, b, c] Y) { Y = l.f (X) }
        <domain: "l", opset_import: ["": 11]> f (x) => (y) { y = MaxPool <kernel_shape = [2]> (x) }""")  # fmt: skip
    done = mp.convert_model(model)
    assert [each.version for each in done.model.functions[1].opset_import if not each.domain] == [11]
    assert mp.restore_model(done.model) == model
    run_both(model, {"X": X}, 1)


def test_what_is_left_in_a_function_is_told_once() -> None:
    """A function that is called twice with the same types is one place, be its nodes converted or left."""
    model = parse_model(HEADER + """ main (float[1, 2, 9] X) => (float[a, b, c] Y) { Z = l.f (X)  W = Relu (X)  V = l.f (W)  Y = Add (Z, V) }
        <domain: "l", opset_import: ["": 15]> f (x) => (y) { y = MaxPool <kernel_shape = [2]> (x) }""")  # fmt: skip
    assert len(mp.convert_model(model, select=[]).skipped) == 1


def test_a_slice_in_a_function() -> None:
    """What a function cuts out of X is inferred too, and what it cuts behind a window that is too large is an error."""
    body = "y = MaxPool <kernel_shape = [%d]> (x)  z = Slice (y, s, e, a)  w = MaxPool <kernel_shape = [2]> (z)"
    text = (
        HEADER
        + """ main (float[1, 1, 9] X) => (float[a, b, c] Y) <int64[1] s = {0}, int64[1] e = {4}, int64[1] a = {2}>
        { Y = l.f (X, s, e, a) } <domain: "l", opset_import: ["": 15]> f (x, s, e, a) => (w) { BODY }"""
    )
    done = convert(parse_model(text.replace("BODY", body % 3)))
    assert [node.element_type for node in done.converted] == ["float", "float"]
    run_both(parse_model(text.replace("BODY", body % 3)), {"X": X[:, :1]}, 2)
    done = mp.convert_model(parse_model(text.replace("BODY", body % 12)))
    with pytest.raises(mp.InvalidShapeError, match="output size of spatial axis D1 must be >= 0, got -2"):
        mp.InferenceSession(done.model).run(None, {"X": X[:, :1]})


def test_in_two_steps() -> None:
    """What one conversion left in a function another converts; restoring undoes both."""
    model = parse_model(HEADER + """ main (float[1, 2, 9] X) => (float[a, b, c] Y) { Y = l.f (X) }
        <domain: "l", opset_import: ["": 15]> f (x) => (y) {
            [first] z = MaxPool <kernel_shape = [2]> (x)
            [second] y = MaxPool <kernel_shape = [3]> (z)
        }""")  # fmt: skip
    one = mp.convert_model(model, select=["second"])
    assert [node.node for node in one.skipped] == ["MaxPool 'first'"]
    two = mp.convert_model(one.model)
    assert mp.convert_model(two.model).model == two.model
    onnx.checker.check_model(two.model)
    assert [node.node for node in two.converted] == ["MaxPool 'first'"]
    assert [function.domain for function in two.model.functions] == ["l", "maxpool_ort.functions"]
    assert mp.restore_model(two.model) == mp.restore_model(one.model) == model
    with mp.record_calls() as calls:
        mp.InferenceSession(two.model).run(None, {"X": X})
    assert [call.node for call in calls] == ["MaxPool 'first'", "MaxPool 'second'"]


def test_equal_names_in_other_domains() -> None:
    """Functions of one name in two domains, and a model's function called as a copy would be, stay apart."""
    model = parse_model("""
        <ir_version: 8, opset_import: ["": 15, "l": 1, "m": 1]>
        main (float[1, 2, 9] X) => (float[a, b, c] Y) { Z = l.f (X)  W = m.f (Z)  Y = l.f_2 (W) }
        <domain: "l", opset_import: ["": 15]> f (x) => (y) { y = MaxPool <kernel_shape = [2]> (x) }
        <domain: "m", opset_import: ["": 15]> f (x) => (y) { y = MaxPool <kernel_shape = [3]> (x) }
        <domain: "l", opset_import: ["": 15]> f_2 (x) => (y) { y = MaxPool <kernel_shape = [4]> (x) }
    """)
    done = convert(model)
    assert [str(node.attributes) for node in done.converted] == ["kernel_shape=2", "kernel_shape=3", "kernel_shape=4"]
    run_both(model, {"X": X}, 3)


def test_overloads_and_absent_inputs() -> None:
    """A function is chosen by its overload too; an input that a call leaves out stays left out."""
    model = parse_model(
        """
        <ir_version: 10, opset_import: ["": 15, "l": 1]>
        main (float[1, 2, 9] X) => (float[a, b, c] Y) { Y = l.f (X, "") }
        <domain: "l", opset_import: ["": 15]> f (x, unused) => (y) { y = MaxPool <kernel_shape = [2]> (x) }
    """.replace('(X, "")', "(X)")
    )
    other = onnx.FunctionProto()
    other.CopyFrom(model.functions[0])
    other.overload = "wide"
    other.node[0].attribute[0].ints[0] = 4
    model.functions.append(other)
    model.graph.node[0].input.append("")
    assert [str(node.attributes) for node in convert(model).converted] == ["kernel_shape=2"]
    model.graph.node[0].overload = "wide"
    assert [str(node.attributes) for node in convert(model).converted] == ["kernel_shape=4"]
    np.testing.assert_array_equal(mp.InferenceSession(model).run(None, {"X": X})[0], mp.max_pool(X, [4]))


def test_calls_without_end_do_not_take_without_end() -> None:
    """Functions that each call the next one twice are looked at once each, not 2**20 times."""
    depth = 20
    functions = "".join(
        f'<domain: "l", opset_import: ["": 15, "l": 1]> f{i} (x) => (y) {{ z = l.f{i + 1} (x)  y = l.f{i + 1} (z) }}\n'
        for i in range(depth)
    )
    model = parse_model(
        f"{HEADER} main (float[1, 1, L] X) => (float[a, b, c] Y) {{ Y = Relu (X) }} {functions}"
        f'<domain: "l", opset_import: ["": 15]> f{depth} (x) => (y) {{ y = MaxPool <kernel_shape = [1]> (x) }}'
    )
    assert len(mp.convert_model(model).skipped) == 1  # nothing calls f0
