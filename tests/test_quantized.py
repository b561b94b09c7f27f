"""MaxPool between DequantizeLinear and QuantizeLinear takes integers where both are inverse, and nowhere else."""

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.parser import parse_model
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
import pytest
from subprocesses import printed
from test_convert import convert, run_both
from versions import ONNX

import maxpool_ort as mp

IMAGE = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)

# (id, element type, scale and zero point of either end, what stands between and around, element types that ours then has)
PLAIN = "X = DequantizeLinear (Q, s, z)  Y = MaxPool <kernel_shape = [2]> (X)  R = QuantizeLinear (Y, t, w)"
FOLDS = [
    ("uint8", "uint8", "0.5", "3", "0.5", "3", PLAIN, ["uint8"]),
    ("int8", "int8", "0.5", "-3", "0.5", "-3", PLAIN, ["int8"]),
    ("another scale", "uint8", "0.5", "3", "0.25", "3", PLAIN, ["float"]),
    ("another zero point", "uint8", "0.5", "3", "0.5", "4", PLAIN, ["float"]),
    ("a scale of 0", "uint8", "0.0", "3", "0.0", "3", PLAIN, ["float"]),
    ("a negative scale turns the order round", "uint8", "-0.5", "3", "-0.5", "3", PLAIN, ["float"]),
    ("a scale that overflows", "uint8", "1e38", "3", "1e38", "3", PLAIN, ["float"]),
    ("a scale by which only the last overflows", "uint8", "1.335e36", "0", "1.335e36", "0", PLAIN, ["float"]),
    ("a scale that underflows", "uint8", "1e-45", "0", "1e-45", "0", PLAIN, ["uint8"]),
    ("pads of nothing but padding", "int8", "0.5", "-3", "0.5", "-3",
     PLAIN.replace("[2]", "[2], dilations = [4], pads = [1, 1]"), ["int8"]),
    ("two poolings of one X", "uint8", "0.5", "3", "0.5", "3",
     "X = DequantizeLinear (Q, s, z)  Y = MaxPool <kernel_shape = [2]> (X)  A = MaxPool <kernel_shape = [3]> (X)"
     "  B = QuantizeLinear (A, t, w)  R = QuantizeLinear (Y, t, w)  U = DequantizeLinear (B, s, z)", ["uint8", "uint8"]),
    ("X is used elsewhere", "uint8", "0.5", "3", "0.5", "3", PLAIN + "  U = Relu (X)", ["uint8"]),
    ("Y is used elsewhere", "uint8", "0.5", "3", "0.5", "3", PLAIN + "  U = Relu (Y)", ["float"]),
    ("in a row", "uint8", "0.5", "3", "0.5", "3",
     "X = DequantizeLinear (Q, s, z)  Y = MaxPool <kernel_shape = [2]> (X)  A = QuantizeLinear (Y, t, w)"
     "  B = DequantizeLinear (A, s, z)  C = MaxPool <kernel_shape = [2]> (B)  R = QuantizeLinear (C, t, w)", ["uint8", "uint8"]),
    ("far apart, in another order", "uint8", "0.5", "3", "0.5", "3",
     "X = DequantizeLinear (Q, s, z)  A = Cast <to = 1> (Q)  B = Sigmoid (A)  Y = MaxPool <kernel_shape = [2]> (X)"
     "  U = Relu (B)  R = QuantizeLinear (Y, t, w)", ["uint8"]),
    ("Indices", "uint8", "0.5", "3", "0.5", "3",
     "X = DequantizeLinear (Q, s, z)  Y, I = MaxPool <kernel_shape = [2]> (X)  R = QuantizeLinear (Y, t, w)"
     "  U = Cast <to = 1> (I)", ["uint8"]),
]  # fmt: skip


def model_of(element_type: str, parameters: tuple[str, str, str, str], body: str) -> onnx.ModelProto:
    """A graph from Q to R (and U, where the body makes it), with the parameters as constants."""
    scale, zero_point, other_scale, other_zero_point = parameters
    u = ", float[a, b, d] U" if "U =" in body else ""
    return parse_model(f"""
        <ir_version: 8, opset_import: ["": 13]>
        main ({element_type}[1, 2, L] Q) => ({element_type}[a, b, c] R{u})
        <float s = {{{scale}}}, {element_type} z = {{{zero_point}}},
         float t = {{{other_scale}}}, {element_type} w = {{{other_zero_point}}}> {{ {body} }}
    """)


@pytest.mark.parametrize("row", FOLDS, ids=[row[0] for row in FOLDS])
def test_folds(row: tuple) -> None:
    """Ours takes the integers where that is the same, and what comes out is the same."""
    _, element_type, *parameters, body, expected = row
    if "1e-45" in parameters and ONNX < (1, 23):
        pytest.skip("onnx's parser takes subnormal numbers from 1.23 on")
    model = model_of(element_type, tuple(parameters), body)
    done = convert(model)
    assert [node.element_type for node in done.converted] == expected
    integers = np.random.default_rng(0).integers(0, 256, (1, 2, 9)).astype(np.uint8).view(element_type)
    if (
        "0.0" in parameters
        or "dilations" in body
        or "1e38" in parameters
        or "1.335e36" in parameters
        or "1e-45" in parameters
    ):
        (r,) = mp.InferenceSession(model).run(None, {"Q": integers})
        if expected != ["float"]:
            attributes = mp.MaxPoolAttributes.from_node(model.graph.node[1])
            pads = {"dilations": attributes.dilations, "pads": attributes.pads}
            np.testing.assert_array_equal(r, mp.max_pool(integers, attributes.kernel_shape, **pads))
    else:
        run_both(model, {"Q": integers}, len(expected))


CAPTURED = """
    import sys
    import numpy as np, onnxruntime, maxpool_ort as mp
    from onnx.parser import parse_model
    model = parse_model('<ir_version: 8, opset_import: ["": 13]>' + sys.argv[1])
    feed = {"X": (np.arange(8) * 7 % 11).astype(np.uint8).reshape(1, 1, 8), "go": np.array(True)}
    (theirs,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)
    (ours,) = mp.InferenceSession(model).run(None, feed)
    print(np.array_equal(theirs, ours), mp.convert_model(model).converted[0].element_type)
"""


@pytest.mark.parametrize("taken", ["Cast <to = 1> (Q)", "DequantizeLinear (Q, s, z)", "Relu (D)"])
def test_ends_that_a_body_takes(taken: str) -> None:
    """Nothing is folded: ONNX Runtime ends the process where it takes out a pair of which only a body takes the end."""
    text = f"""
        main (uint8[1, 1, 8] X, bool go) => (float[a, b, c] W) <float s = {{0.5}}, uint8 z = {{3}}> {{
            D = DequantizeLinear (X, s, z)
            P = MaxPool <kernel_shape = [2]> (D)
            Q = QuantizeLinear (P, s, z)
            W = If (go) <then_branch = t () => (float[a, b, c] p) {{ p = {taken} }},
                         else_branch = e () => (float[a, b, c] q) {{ q = {taken} }}>
        }}"""
    assert printed(CAPTURED, text) == "True float"


def test_parameters_that_are_not_constant() -> None:
    """A scale that is fed, or that a caller may replace, or that lies in another file, proves nothing."""
    model = model_of("uint8", ("0.5", "3", "0.5", "3"), PLAIN)
    fed = onnx.ModelProto()
    fed.CopyFrom(model)
    fed.graph.input.append(onnx.helper.make_tensor_value_info("s", onnx.TensorProto.FLOAT, []))
    outside = onnx.ModelProto()
    outside.CopyFrom(model)
    outside.graph.initializer[0].ClearField("float_data")
    outside.graph.initializer[0].raw_data = np.float32(0.5).tobytes()
    onnx.external_data_helper.set_external_data(outside.graph.initializer[0], "scale.bin")
    for other in (fed, outside):
        assert [node.element_type for node in mp.convert_model(other).converted] == ["float"]
        assert mp.restore_model(mp.convert_model(other).model) == other


@pytest.mark.parametrize(("axis", "expected"), [(1, "int8"), (2, "float")])
def test_parameters_per_channel(axis: int, expected: str) -> None:
    """A scale for each channel keeps the order in a window; one along a pooled axis does not."""
    body = PLAIN.replace("DequantizeLinear", f"DequantizeLinear <axis = {axis}>").replace(
        "= QuantizeLinear", f"= QuantizeLinear <axis = {axis}>"
    )
    model = model_of("int8", ("1.0", "0", "1.0", "0"), body)
    for tensor in model.graph.initializer:
        value = np.array([0.5, 2], np.float32) if tensor.name in "st" else np.array([0, 0], np.int8)
        tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    assert [node.element_type for node in convert(model).converted] == [expected]
    if axis == 1:
        run_both(model, {"Q": np.arange(-9, 9, dtype=np.int8).reshape(1, 2, 9)}, 1)


def test_select_sees_the_integers() -> None:
    """What select decides by is what would run: uint8, for which ONNX Runtime has no fast path."""
    model = model_of("uint8", ("0.5", "3", "0.5", "3"), PLAIN)
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 2**16
    (node,) = mp.convert_model(model, select="recommended").converted
    assert node.reason == "faster: ONNX Runtime has only a plain loop for uint8"
    left = mp.convert_model(model, select=[])
    assert left.model == model


@pytest.mark.parametrize("element_type", ["uint8", "int8"])
def test_in_the_middle_nothing_is_left_but_integers(element_type: str, tmp_path: Path) -> None:
    """Between two that quantize, ONNX Runtime takes out all that is inverse; and where it makes uint8 of int8, so do we."""
    body = """Q = QuantizeLinear (F, s, z)  X = DequantizeLinear (Q, s, z)
        Y = MaxPool <kernel_shape = [2]> (X)  Z = MaxPool <kernel_shape = [3]> (X)
        T = QuantizeLinear (Y, t, w)  U = QuantizeLinear (Z, t, w)  R = DequantizeLinear (T, t, w)  V = DequantizeLinear (U, t, w)"""
    model = parse_model(f"""
        <ir_version: 8, opset_import: ["": 13]> main (float[1, 2, 9] F) => (float[1, 2, 8] R, float[1, 2, 7] V)
        <float s = {{0.5}}, {element_type} z = {{3}}, float t = {{0.5}}, {element_type} w = {{3}}> {{ {body} }}
    """)
    assert [node.element_type for node in convert(model).converted] == ["uint8", "uint8"]
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 3  # it warns that the file is for this machine
    session = mp.InferenceSession(model, options)
    left = [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node]
    pair = ["DequantizeLinear", "QuantizeLinear"] if element_type == "int8" else []  # X of both, which is int8 still
    assert sorted(left) == sorted(["DequantizeLinear"] * 2 + ["MaxPool"] * 2 + ["QuantizeLinear"] + pair)
    reals = np.random.default_rng(0).standard_normal((1, 2, 9)).astype(np.float32) * 99
    theirs = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"F": reals})
    for got, expected in zip(session.run(None, {"F": reals}), theirs, strict=True):
        np.testing.assert_array_equal(got, expected)


class Images(CalibrationDataReader):
    """A few images to calibrate with."""

    def __init__(self) -> None:
        """Three of them."""
        self.images = iter([IMAGE, IMAGE * 2, -IMAGE])

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next one."""
        image = next(self.images, None)
        return None if image is None else {"image": image}


@pytest.mark.parametrize("quant_format", [QuantFormat.QDQ, QuantFormat.QOperator])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("activation", [QuantType.QInt8, QuantType.QUInt8])
def test_a_model_that_onnxruntime_quantized(
    quant_format: QuantFormat, per_channel: bool, activation: QuantType, tmp_path: Path
) -> None:
    """A network quantized by onnxruntime's own tool: our operator takes the integers, and gives what theirs gives."""
    rng = np.random.default_rng(1)
    model = parse_model("""
        <ir_version: 8, opset_import: ["": 13]>
        main (float[1, 3, 8, 8] image) => (float[1, 4, 1, 1] scores) {
            a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (image, first)
            b = Relu (a)
            c = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (b)
            d = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (c, second)
            e = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (d)
            scores = GlobalAveragePool (e)
        }
    """)
    for name, shape in (("first", (5, 3, 3, 3)), ("second", (4, 5, 3, 3))):
        model.graph.initializer.append(numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name))
    source, target = tmp_path / "float.onnx", tmp_path / "quantized.onnx"
    onnx.save(model, source)
    quantize_static(
        source, target, Images(), quant_format=quant_format, per_channel=per_channel, activation_type=activation
    )
    quantized = onnx.load(target)
    done = convert(quantized)
    # Between what quantizes int8 becomes uint8, as ONNX Runtime has it; an operator that takes int8 itself keeps it.
    dtype = "int8" if (activation, quant_format) == (QuantType.QInt8, QuantFormat.QOperator) else "uint8"
    assert [node.element_type for node in done.converted] == [dtype] * 2
    with mp.record_calls() as calls:
        ours = mp.InferenceSession(quantized).run(None, {"image": IMAGE})
    assert [call.dtype for call in calls] == [dtype] * 2
    theirs = onnxruntime.InferenceSession(target).run(None, {"image": IMAGE})
    np.testing.assert_array_equal(ours[0], theirs[0])
