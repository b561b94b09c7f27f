"""compare: where ONNX Runtime's own MaxPool and ours differ on the same data, and that nothing else is said to."""

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.parser import parse_model
import pytest

import maxpool_ort as mp
from maxpool_ort import cli
from maxpool_ort.compare import compare_model

ROOT = Path(__file__).parents[1]
NAN, LOWEST = float("nan"), float(np.finfo(np.float32).min)

# (id, attributes, X, what differs: (tensor, count, position, theirs, ours), part of the reasons)
ROWS = [
    ("same", {"kernel_shape": [2]}, [1, 2, 3], None, "may lose NaN"),
    ("NaN", {"kernel_shape": [2], "strides": [2]}, [1, NAN, 2, 3], ("Y", 1, (0, 0, 0), 1.0, NAN), "may lose NaN"),
    ("shape", {"kernel_shape": [3], "dilations": [2], "auto_pad": "SAME_UPPER"}, [0, 1, 2, 3, 4], ("Y", None, None, None, None), "SAME with dilations"),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_one_node(row: tuple) -> None:
    """One node of one axis: how many elements differ, which is the first, and why."""
    _, attributes, values, expected, reason = row
    x = np.array([[values]], np.float32)
    found = compare_model(mp.make_maxpool_model(**attributes, input_shape=x.shape), {"X": x})
    (node,) = found.nodes
    assert found.is_same == (expected is None)
    assert (node.x_shape, node.dtype) == (x.shape, "float32")
    assert any(reason in each for each in node.reasons)
    if expected is not None:
        tensor, count, position, theirs, ours = expected
        (difference,) = node.differences
        assert (difference.tensor, difference.count, difference.position) == (tensor, count, position)
        if count is None:
            assert (difference.theirs, difference.ours) == ("float32 (1, 1, 3)", "float32 (1, 1, 5)")
        else:
            assert (difference.theirs, difference.ours) == (str(theirs), str(ours))


CHAIN = """
    <ir_version: 8, opset_import: ["": 13]>
    main (float[1, 1, 8] X) => (float[1, 1, 2] Y, int64[1, 1, 2] I) {
        Z = Relu (X)
        [first] P = MaxPool <kernel_shape = [2], strides = [2]> (Z)
        [second] Y, I = MaxPool <kernel_shape = [2], strides = [2]> (P)
    }
"""


def test_each_node_sees_the_same_x() -> None:
    """A difference is told at the node that makes it, not again at the next, and at the output that it reaches."""
    x = np.array([[[1, NAN, 2, 3, 4, 5, 6, 7]]], np.float32)
    found = compare_model(parse_model(CHAIN), {"X": x})
    assert [(node.node, len(node.differences)) for node in found.nodes] == [
        ("MaxPool 'first'", 1),
        ("MaxPool 'second'", 0),
    ]
    assert [each.tensor for each in found.outputs] == ["Y", "I"]
    assert not found.is_same


def test_indices_are_compared() -> None:
    """Indices that differ are told beside Y."""
    x = np.full((2, 1, 2, 2), -np.inf, np.float64)
    model = mp.make_maxpool_model(
        kernel_shape=[2, 1],
        dilations=[3, 1],
        pads=[1, 0, 1, 0],
        input_shape=x.shape,
        dtype="float64",
        with_indices=True,
    )
    found = compare_model(model, {"X": x})
    assert {each.tensor for each in found.nodes[0].differences} >= {"Indices"}


def test_x_of_an_initializer_and_nodes_in_bodies() -> None:
    """X may be an initializer; nodes in bodies are compared where they run, and named as not compared where not."""
    model = parse_model("""
        <ir_version: 8, opset_import: ["": 13]>
        main (bool go) => (float[1, 1, 3] A, float[1, 1, l] B) {
            A = MaxPool <kernel_shape = [2]> (W)
            B = If (go) <
                then_branch = yes () => (float[1, 1, m] b) { b = MaxPool <kernel_shape = [2]> (W) },
                else_branch = no () => (float[1, 1, n] c) { c = Identity (W) }
            >
        }
    """)
    model.graph.initializer.append(numpy_helper.from_array(np.array([[[1, NAN, 2, 3]]], np.float32), "W"))
    found = compare_model(model, {"go": np.array(True)})
    assert [len(node.differences) for node in found.nodes] == [1, 1]
    assert "then_branch" in found.nodes[1].node
    assert [each.tensor for each in found.outputs] == ["A", "B"]
    assert found.not_compared == ()
    found = compare_model(model, {"go": np.array(False)})  # the branch with the node does not run
    assert len(found.nodes) == 1
    assert "then_branch" in found.not_compared[0]


@pytest.mark.parametrize("element_type", ["float", "float16", "double"])
def test_nodes_in_functions(element_type: str) -> None:
    """Each call of a function is compared on what it was given, also where ONNX Runtime would refuse the node."""
    model = parse_model(f"""
        <ir_version: 8, opset_import: ["": 15, "l": 1]>
        main ({element_type}[1, 1, 9] X) => ({element_type}[a, b, c] Y) {{ Z = l.f <k = [2]> (X)  Y = l.f <k = [3]> (Z) }}
        <domain: "l", opset_import: ["": 15]> f <k> (x) => (y) {{ y, i = MaxPool <kernel_shape: ints = @k> (x) }}
    """)
    dtype = {"float": np.float32, "double": np.float64}.get(element_type, np.float16)
    x = np.array([[[1, NAN, 2, 3, 4, 5, 6, 7, 8]]], dtype)
    found = compare_model(model, {"X": x})
    assert [(node.dtype, node.x_shape) for node in found.nodes] == [(x.dtype, (1, 1, 9)), (x.dtype, (1, 1, 8))]
    assert [node.node.partition(" in ")[0] for node in found.nodes] == ["MaxPool with output 'y'"] * 2
    assert found.nodes[0].differences


def test_a_model_that_onnxruntime_refuses() -> None:
    """Where its own operators do not run, what it says is the finding."""
    model = mp.make_maxpool_model(kernel_shape=[2], pads=[3, 3], input_shape=[1, 1, 4])
    found = compare_model(model, {"X": np.zeros((1, 1, 4), np.float32)})
    assert not found.is_same
    assert "pad" in found.refusal.lower()


def test_a_converted_model_is_refused() -> None:
    """A converted model has no nodes of ONNX Runtime's left to compare."""
    model = mp.convert_model(mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4])).model
    with pytest.raises(mp.MaxPoolError, match="converted already; compare the original, or restore it first"):
        compare_model(model, {})


@pytest.mark.parametrize("rich", [True, False])
def test_command_line(
    rich: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Exit code 0 where nothing differs, 1 where something does; tables and JSON say the same."""
    if not rich:
        monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["compare", str(ROOT / "models" / "digits.onnx")]) == 0
    assert capsys.readouterr().out.endswith("nothing differs\n")
    onnx.save(parse_model(CHAIN), "chain.onnx")
    np.save("x.npy", np.array([[[1, NAN, 2, 3, 4, 5, 6, 7]]], np.float32))
    assert cli.main(["compare", "chain.onnx", "--input", "x.npy"]) == 1
    printed = capsys.readouterr().out
    for part in (
        "Y: 1 of 4",
        "(0, 0, 0)",
        "known of ONNX Runtime's own:\nMaxPool 'first': may lose NaN",
        "output of the model",
        "MaxPool and ours differ",
    ):
        assert part in printed
    assert cli.main(["compare", "chain.onnx", "--input", "x.npy", "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert not result["is_same"]
    assert result["nodes"][0]["differences"][0]["count"] == 1
    assert cli.main(["compare", "missing.onnx"]) == 1
    assert "missing.onnx" in capsys.readouterr().err
