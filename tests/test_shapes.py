"""Declared shapes that no run has: repaired, told, and put back by restoring."""

import json
from pathlib import Path

import numpy as np
import onnx
from onnx.parser import parse_model
import onnxruntime
import pytest
from test_convert import convert

import maxpool_ort as mp
from maxpool_ort import cli

CEIL = "MaxPool <kernel_shape = [1], strides = [2], ceil_mode = 1>"
"""From 12 elements 6, where onnx infers 7 before opset 22."""

# (id, body of a graph from float[N, 1, 12] X, what else it declares, what is repaired)
REPAIRED = [
    ("the output", "(float[N, 1, 7] Y)", f"{{ Y = {CEIL} (X) }}", {"Y": (("N", 1, 7), ("N", 1, 6))}),
    ("a symbolic size is kept", "(float[N, 1, M] Y)", f"{{ Y = {CEIL} (X) }}", {}),
    ("right ones are kept", "(float[N, 1, 6] Y) <float[N, 1, 6] Z>", f"{{ Z = {CEIL} (X)  Y = Relu (Z) }}", {}),
    (
        "behind it",
        "(float[N, 1, 7] Y) <float[N, 1, 7] Z, float[N, 1, 7] W>",
        f"{{ Z = {CEIL} (X)  W = Relu (Z)  Y = Sigmoid (W) }}",
        dict.fromkeys("ZWY", (("N", 1, 7), ("N", 1, 6))),
    ),
    ("behind two", "(float[N, 1, 4] Y) <float[N, 1, 7] Z>", f"{{ Z = {CEIL} (X)  Y = {CEIL} (Z) }}",
     {"Z": (("N", 1, 7), ("N", 1, 6)), "Y": (("N", 1, 4), ("N", 1, 3))}),
    ("Indices", "(int64[N, 1, 7] I)", f"{{ Y, I = {CEIL} (X) }}", {"I": (("N", 1, 7), ("N", 1, 6))}),
    ("no relation to it", "(float[N, 1, 6] Y) <float[N, 1, 99] Z>", f"{{ Z = Relu (X)  Y = {CEIL} (Z) }}",
     {"Z": (("N", 1, 99), ("N", 1, 12))}),
    ("another rank", "(float[N, 6] Y)", f"{{ Y = {CEIL} (X) }}", {"Y": (("N", 6), ("N", 1, 6))}),
    ("not behind what onnx may get wrong", "(float[N, 1, 4] Y)",
     f"{{ Z = AveragePool <kernel_shape = [1], strides = [2], ceil_mode = 1> (X)  Y = {CEIL} (Z) }}", {}),
]  # fmt: skip


@pytest.mark.parametrize(("outputs", "body", "expected"), [row[1:] for row in REPAIRED], ids=[row[0] for row in REPAIRED])  # fmt: skip
def test_repairs(outputs: str, body: str, expected: dict) -> None:
    """What contradicts is repaired and told; the converted model is consistent, and restoring gives the original."""
    model = parse_model(f'<ir_version: 8, opset_import: ["": 19]> main (float[N, 1, 12] X) => {outputs} {body}')
    done = convert(model)
    assert {shape.tensor: (shape.declared, shape.true) for shape in done.repaired} == expected
    assert all(shape.where == "graph 'main'" for shape in done.repaired)
    for shape in done.repaired:
        assert f"repaired the shape of '{shape.tensor}' in graph 'main': {shape.true}, was {shape.declared}" in str(
            done
        )
    onnx.shape_inference.infer_shapes(done.model, strict_mode=True, check_type=True)
    onnx.checker.check_model(done.model, full_check=True)
    x = np.random.default_rng(0).standard_normal((2, 1, 12)).astype(np.float32)
    outputs_run = mp.InferenceSession(model).run(None, {"X": x})
    for value, output in zip(done.model.graph.output, outputs_run, strict=True):
        declared = [dim.dim_value or dim.dim_param for dim in value.type.tensor_type.shape.dim]
        if expected:
            assert [d for d in declared if isinstance(d, int)] == list(output.shape[1:])


def test_repairs_in_bodies() -> None:
    """Bodies of control flow declare shapes too."""
    model = parse_model(f"""
        <ir_version: 8, opset_import: ["": 13]>
        main (bool go, float[1, 1, 12] X) => (float[1, 1, m] Y) {{
            [choose] Y = If (go) <
                then_branch = t () => (float[1, 1, 7] p) {{ p = {CEIL} (X) }},
                else_branch = e () => (float[1, 1, 12] q) {{ q = Identity (X) }}
            >
        }}
    """)
    done = convert(model)
    assert [(s.tensor, s.where, s.true) for s in done.repaired] == [
        ("p", "graph 'main', then_branch of If 'choose'", (1, 1, 6))
    ]


def test_nothing_is_repaired_behind_a_node_that_stays_and_differs() -> None:
    """Where ONNX Runtime's own operator has another shape than the true one, nothing behind it is known."""
    model = parse_model("""
        <ir_version: 8, opset_import: ["": 13]>
        main (float[1, 1, 9] X) => (float[1, 1, 1] Y) {
            [dilated] Z = MaxPool <kernel_shape = [3], dilations = [2], auto_pad = "SAME_UPPER"> (X)
            [behind] Y = MaxPool <kernel_shape = [9]> (Z)
        }
    """)
    assert [node.is_guarded for node in convert(model).converted] == [False, False]
    done = mp.convert_model(model, select=["behind"])
    assert ([node.is_guarded for node in done.converted], done.repaired) == ([True], ())
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    mp.register(options)
    plain = onnxruntime.InferenceSession(done.model.SerializeToString(), options)
    with pytest.raises(Exception, match="maxpool_ort/Y/guard"):
        plain.run(None, {"X": np.zeros((1, 1, 9), np.float32)})  # Z has 7 elements there


# (id, model, feed: what onnx alone would take for proved, and is not); Y is not the node's own: that might have a guard
NO_PROOF = [
    (
        "VALID and ceil_mode, one size unknown",
        """main (float[1, 2, 5, W] X) => (float[1, 2, 2, w] Y) {
            P = MaxPool <kernel_shape = [2, 2], strides = [2, 1], auto_pad = "VALID", ceil_mode = 1> (X)  Y = Relu (P) }""",
        {"X": (1, 2, 5, 4)},
    ),
    (
        "a window larger than X, one size unknown",
        """main (float[1, 2, 4, W] X) => (float[1, 2, 0, w] Y) {
            P = MaxPool <kernel_shape = [5, 1], strides = [2, 1]> (X)  Y = Relu (P) }""",
        {"X": (1, 2, 4, 4)},
    ),
    (
        "an initializer that a run may replace",
        """main (float[n] v, int64[3] s) => (float[a, b, c] Y) <int64[3] s = {1, 1, 9}> {
            Z = Reshape (v, s)  P = MaxPool <kernel_shape = [3]> (Z)  Y = Relu (P) }""",
        {"v": (6,), "s": [1, 1, 6]},
    ),
    (
        "what is in a sequence",
        """main (seq(float[1, 2, 9]) S, int64 i) => (float[a, b, c] Y) {
            Z = SequenceAt (S, i)  P = MaxPool <kernel_shape = [3]> (Z)  Y = Relu (P) }""",
        {"S": [np.zeros((1, 2, 5), np.float32)], "i": 0},
    ),
]


@pytest.mark.parametrize(("text", "feed"), [row[1:] for row in NO_PROOF], ids=[row[0] for row in NO_PROOF])
def test_no_proof(text: str, feed: dict) -> None:
    """What a run need not hold to is not taken for proved: a guard stands, and what is declared stays."""
    model = parse_model(f'<ir_version: 8, opset_import: ["": 15]> {text}')
    done = convert(model)
    assert ([node.is_guarded for node in done.converted], done.repaired) == ([True], ())
    given = {
        name: np.zeros(value, np.float32) if isinstance(value, tuple) else value if name == "S" else np.array(value)
        for name, value in feed.items()
    }
    (theirs,) = mp.InferenceSession(model).run(None, given)
    assert 1 in theirs.shape


def test_a_constant_proves() -> None:
    """The elements of a small initializer are known to inference, those of a large one are not needed."""
    model = parse_model("""
        <ir_version: 8, opset_import: ["": 15]> main (float[1, 1, 12] X) => (float[1, 1, 11] Y)
        <int64[3] s = {1, 1, 12}> { Z = Reshape (X, s)  Y = MaxPool <kernel_shape = [2]> (Z) }
    """)
    assert [node.is_guarded for node in convert(model).converted] == [False]


def test_a_proof_in_two_steps() -> None:
    """What the second of two conversions takes for proved holds behind what the first converted."""
    model = parse_model("""
        <ir_version: 8, opset_import: ["": 15]> main (float[1, 2, 5] X) => (float[1, 2, 1] Y) {
            [a] Z = MaxPool <kernel_shape = [2], strides = [2], auto_pad = "VALID", ceil_mode = 1> (X)
            [b] Y = MaxPool <kernel_shape = [2]> (Z) }
    """)
    two = mp.convert_model(mp.convert_model(model, select=["a"]).model)
    assert [(node.input_dims, node.is_guarded) for node in two.converted] == [((1, 2, 2), False)]
    assert mp.restore_model(two.model) == model


def test_a_branch_that_never_runs() -> None:
    """A node that cannot run is an error where it runs in any case, and has a guard in a branch that may never be taken."""
    model = parse_model("""
        <ir_version: 8, opset_import: ["": 15]> main (bool go, float[1, 1, 4] X) => (float[a, b, c] Y) {
            Y = If (go) <then_branch = t () => (float[a, b, d] p) { [wide] p = MaxPool <kernel_shape = [9]> (X) },
                         else_branch = e () => (float[a, b, d2] q) { r = MaxPool <kernel_shape = [2]> (X)  q = Relu (r) }> }
    """)
    assert [node.is_guarded for node in convert(model).converted] == [True, False]
    session = mp.InferenceSession(model)
    x = np.zeros((1, 1, 4), np.float32)
    assert session.run(None, {"go": np.array(False), "X": x})[0].shape == (1, 1, 3)
    with pytest.raises(mp.InvalidShapeError, match="MaxPool 'wide': output size of spatial axis D1 must be >= 0"):
        session.run(None, {"go": np.array(True), "X": x})


def test_negative_sizes_are_unknown_ones() -> None:
    """Some exporters declare unknown sizes as -1, and ONNX Runtime takes them so."""
    model = parse_model(
        '<ir_version: 8, opset_import: ["": 15]> main (float[N, 2, L] X) => (float[N, 2, l] Y) { Y = MaxPool <kernel_shape = [2]> (X) }'
    )
    for number in (0, 2):
        model.graph.input[0].type.tensor_type.shape.dim[number].dim_value = -1
    assert convert(model).converted[0].input_dims == (None, 2, None)
    assert mp.InferenceSession(model).run(None, {"X": np.zeros((3, 2, 5), np.float32)})[0].shape == (3, 2, 4)


def test_a_scan_proves_nothing() -> None:
    """onnx takes for constant what a Scan carries along, so that no size of such a model is taken for proved."""
    model = parse_model("""
        <ir_version: 8, opset_import: ["": 13]>
        main (float[1, 1, 12] S, float[5, 1] X) => (float[1, 1, k] Y, float[5, 1] W) {
            Y, W = Scan <num_scan_inputs = 1, body = b (float[1, 1, m] s, float[1] x) => (float[1, 1, n] t, float[1] w) {
                p = MaxPool <kernel_shape = [2]> (s)
                t = Relu (p)
                w = Identity (x)
            }> (S, X)
        }
    """)
    assert [node.is_guarded for node in convert(model).converted] == [True]


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Convert says what it repaired, restore what it puts back, as tables and as JSON."""
    src, dst, back = (str(tmp_path / f"{name}.onnx") for name in ("a", "b", "c"))
    model = parse_model(
        f'<ir_version: 8, opset_import: ["": 12]> main (float[N, 1, 12] X) => (float[N, 1, 7] Y) {{ Y = {CEIL} (X) }}'
    )
    onnx.save(model, src)
    assert cli.main(["convert", src, dst]) == 0
    said = capsys.readouterr().out
    assert all(part in said for part in ("was declared", "(N, 1, 7)", "(N, 1, 6)"))
    assert cli.main(["restore", dst, back]) == 0
    said = capsys.readouterr().out
    assert all(part in said for part in ("declared again", "(N, 1, 7)", "(N, 1, 6)"))
    assert cli.main(["restore", dst, back, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["repaired"] == [
        {"tensor": "Y", "where": "graph 'main'", "declared": ["N", 1, 7], "true": ["N", 1, 6]}
    ]
    assert onnx.load(back) == model


def test_a_damaged_note() -> None:
    """A shape that was kept and changed is refused when it is wanted back."""
    model = parse_model(
        f'<ir_version: 8, opset_import: ["": 12]> main (float[N, 1, 12] X) => (float[N, 1, 7] Y) {{ Y = {CEIL} (X) }}'
    )
    done = mp.convert_model(model).model
    done.graph.output[0].metadata_props[0].value = "7"
    with pytest.raises(
        mp.InvalidModelError, match="tensor 'Y': the metadata maxpool_ort/declared_shape must hold a shape, got '7'"
    ):
        mp.restore_model(done)
