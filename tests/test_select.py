"""Which nodes are converted: all, the recommended ones, those of a function, those of given names."""

import json

import numpy as np
import onnx
from onnx.parser import parse_model
import onnxruntime
import pytest

import maxpool_ort as mp
from maxpool_ort import cli
from maxpool_ort.recommend import recommend

LARGE = (1, 64, 56, 56)
# (id, attributes, element type, dims of X, Indices, whether ours is recommended, what the reason says)
RECOMMENDED = [
    ("hand-tuned", {"kernel_shape": [3, 3]}, "float", LARGE, False, False, "hand-tuned path"),
    ("float16", {"kernel_shape": [2, 2]}, "float16", LARGE, False, False, "hand-tuned path"),
    ("unknown sizes", {"kernel_shape": [2, 2]}, "float", None, False, False, "hand-tuned path"),
    ("Indices", {"kernel_shape": [2, 4]}, "float", LARGE, True, True, "only a plain loop for Indices"),
    ("Indices, strides", {"kernel_shape": [2, 4], "strides": [2, 1]}, "uint8", LARGE, True, False, "plain loop for Indices looks at an element of X only 4 times"),
    ("dilations", {"kernel_shape": [2, 2], "dilations": [2, 1]}, "float", LARGE, False, False, "hand-tuned path"),
    ("float16, dilations", {"kernel_shape": [2, 2], "dilations": [2, 1]}, "float16", LARGE, False, True, "only a plain loop for float16 with dilations"),
    ("windows", {"kernel_shape": [31, 33]}, "float16", LARGE, False, False, "hand-tuned path"),
    ("large windows", {"kernel_shape": [32, 32]}, "float", LARGE, False, True, "visits all 1024 taps"),
    ("float16, large windows", {"kernel_shape": [64, 32]}, "float16", ("N", 64, 256, 256), False, True, "visits all 2048 taps"),
    ("double", {"kernel_shape": [3, 3]}, "double", LARGE, False, True, "only a plain loop for double"),
    ("double, strides", {"kernel_shape": [3, 3], "strides": [2, 2]}, "double", LARGE, False, False, "plain loop for double looks at an element of X only 2.25 times"),
    ("uint8, unknown N", {"kernel_shape": [2, 2]}, "uint8", ("N", 64, 56, 56), False, True, "only a plain loop for uint8"),
    ("small X", {"kernel_shape": [2, 2]}, "int8", (1, 4, 8, 8), False, False, "only 256 elements"),
    ("small X, but wrong", {"kernel_shape": [2, 2], "dilations": [2, 2], "auto_pad": "SAME_UPPER"}, "int8", (1, 4, 8, 8), False, True, "ONNX Runtime's own SAME with dilations"),
    ("refused", {"kernel_shape": [2, 2, 2, 2]}, "float", (1, 8, 8, 8, 8, 8), False, True, "fails at the run: more than 3"),
]  # fmt: skip


@pytest.mark.parametrize("row", RECOMMENDED, ids=[row[0] for row in RECOMMENDED])
def test_recommend(row: tuple) -> None:
    """Ours is recommended where the built-in has no fast path or is wrong, with the reason."""
    _, attributes, element_type, dims, with_indices, expected, reason = row
    read = mp.MaxPoolAttributes(**attributes)
    got = recommend(read, element_type, dims, with_indices=with_indices, opset=12)
    assert got.is_ours == expected
    assert reason in got.reason


@pytest.fixture
def model() -> onnx.ModelProto:
    """Three pools: on the hand-tuned path, with large windows, and one without a name and with Indices."""
    return parse_model("""
        <ir_version: 8, opset_import: ["": 13]>
        main (float[1, 16, 40, 40] X) => (float[1, 16, 39, 39] A, float[1, 16, 9, 9] B, int64[1, 16, 19, 37] I) {
            [fast] A = MaxPool <kernel_shape = [2, 2]> (X)
            [large] B = MaxPool <kernel_shape = [32, 32]> (X)
            C, I = MaxPool <kernel_shape = [4, 4], strides = [2, 1]> (X)
        }
    """)


# (id, select, outputs of the nodes that are converted)
SELECTS = [
    ("all", "all", "ABC"),
    ("recommended", "recommended", "BC"),
    ("function", lambda node: node.element_type == "float" and not node.has_indices, "AB"),
    ("names", ["fast"], "A"),
    ("set of names", {"large", "fast"}, "AB"),
    ("no name", [""], "C"),
    ("nothing", [], ""),
]


@pytest.mark.parametrize(("select", "expected"), [row[1:] for row in SELECTS], ids=[row[0] for row in SELECTS])
def test_select(model: onnx.ModelProto, select: object, expected: str) -> None:
    """The chosen nodes are converted, the others are left and say why; the outputs are the same; restore undoes it."""
    conversion = mp.convert_model(model, select=select)
    converted = [node.output[0] for node in conversion.model.graph.node if node.domain == "maxpool_ort"]
    assert "".join(converted) == expected
    assert len(conversion.converted) + len(conversion.skipped) == 3
    assert all(node.reason and node.is_choice and not node.is_ours for node in conversion.skipped)
    assert all(bool(node.reason) == (select != "all") for node in conversion.converted)
    onnx.checker.check_model(conversion.model)
    assert mp.restore_model(conversion.model) == model
    x = np.random.default_rng(0).standard_normal((1, 16, 40, 40)).astype(np.float32)
    with mp.record_calls() as calls:
        got = mp.InferenceSession(model, select=select).run(None, {"X": x})
    assert len(calls) == len(expected)
    for ours, theirs in zip(
        got, onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"X": x}), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


# (id, select, what the error says)
WRONG = [
    ("text", "some", "select must be 'all', 'recommended', a function or a list of node names, got 'some'"),
    ("no text", ["fast", 3], "select must be 'all', .* got \\['fast', 3\\]"),
    ("none", None, "select must be 'all', .* got None"),
    ("unknown name", ["fast", "fats"], "select must name MaxPool nodes of the model, got \\['fats'\\]; it has \\['fast', 'large'\\] and some without a name \\(''\\)"),
]  # fmt: skip


@pytest.mark.parametrize(("select", "message"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_wrong_select(model: onnx.ModelProto, select: object, message: str) -> None:
    """What cannot choose is refused, and a name that no MaxPool has is not passed over."""
    with pytest.raises(mp.MaxPoolError, match=message):
        mp.convert_model(model, select=select)


def test_a_function_that_raises(model: onnx.ModelProto) -> None:
    """An error in the caller's own function is the caller's."""
    with pytest.raises(ZeroDivisionError):
        mp.convert_model(model, select=lambda node: node.has_indices / 0)


def test_command_line(
    model: onnx.ModelProto, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    """Convert and run take --select and --node; reasons are told for what is converted and for what is left."""
    monkeypatch.chdir(tmp_path)
    onnx.save(model, "pools.onnx")
    assert cli.main(["convert", "pools.onnx", "c.onnx", "--select", "recommended"]) == 0
    printed = capsys.readouterr().out
    assert "visits all 1024 taps" in printed
    assert "left to ONNX Runtime: MaxPool 'fast' in graph 'main': faster: ONNX Runtime has a hand-tuned path" in printed
    assert cli.main(["run", "pools.onnx", "--node", "fast", "--node", "large", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert sorted(entry["node"] for entry in result["maxpool"]) == ["MaxPool 'fast'", "MaxPool 'large'"]
    assert [entry["reason"] for entry in result["skipped"]] == ["not selected"]
    assert cli.main(["convert", "pools.onnx", "d.onnx", "--node", "fats"]) == 1
    assert "select must name MaxPool nodes of the model, got ['fats']" in capsys.readouterr().err
    assert not (tmp_path / "d.onnx").exists()
