"""Converted models in onnx's own evaluator, without ONNX Runtime: they give what they give in a session."""

import numpy as np
import onnx
from onnx import ModelProto
from onnx.inliner import inline_local_functions
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator
import pytest
from test_exports import ARITHMETIC, NAMES, called_nodes, load
from test_models import MODELS, ONNX_FILES, seeded_input
from test_quantized import FOLDS, model_of
from versions import ONNX, skip_unless_known

import maxpool_ort as mp
from maxpool_ort import wire

Feed = dict[str, np.ndarray]
QUANTIZED = [row for row in FOLDS if row[7] != ["float"] and "Sigmoid" not in row[6] and "1e-45" not in row]
# name of an export: the first onnx whose evaluator runs it, converted or not, and why
RUNS_FROM = {
    "bfloat16_dynamo22": ((1, 19), "before, its Cast to bfloat16 warns of itself"),
    "scan_dynamo18": ((1, 22), "before, the body of its Scan sees nothing of the graph around it"),
}


def check(model: ModelProto, feed: Feed) -> None:
    """Convert, and let the evaluator run it: outputs are those of a session; where sums are in between, nearly."""
    converted = mp.convert_model(model).model
    assert any(node.domain == "maxpool_ort" for node in called_nodes(converted))
    assert not any(node.op_type == "MaxPool" and node.domain != "maxpool_ort" for node in called_nodes(converted))
    inlined = inline_local_functions(converted) if converted.functions else converted
    got = ReferenceEvaluator(inlined, new_ops=mp.reference_ops).run(None, feed)
    is_exact = ARITHMETIC.isdisjoint(node.op_type for node in called_nodes(model))
    for ours, expected in zip(got, mp.InferenceSession(model).run(None, feed), strict=True):
        assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
        if is_exact:
            np.testing.assert_array_equal(ours, expected)
        else:
            np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ONNX_FILES)
def test_models(name: str) -> None:
    """Each of models/."""
    model = onnx.load(MODELS / name)
    (x,) = model.graph.input
    if name.startswith("maxpool_"):
        check(model, {"X": seeded_input(model)})
    else:
        shape = [dim.dim_value or 2 for dim in x.type.tensor_type.shape.dim]
        check(model, {x.name: np.random.default_rng(0).random(shape, np.float32)})


@pytest.mark.parametrize("name", NAMES)
def test_exports(name: str) -> None:
    """Each export: bodies of If, Loop and Scan, functions, guards, casts, and every element type are among them."""
    since, reason = RUNS_FROM.get(name, ((), ""))
    if since > ONNX:
        pytest.skip(f"onnx.reference: {reason}")
    model, feed, _ = load(name)
    skip_unless_known(next(each.version for each in model.opset_import if not each.domain))
    check(model, feed)


@pytest.mark.parametrize("row", QUANTIZED, ids=[row[0] for row in QUANTIZED])
def test_quantized(row: tuple) -> None:
    """Between a DequantizeLinear and a QuantizeLinear the evaluator takes integers too."""
    _, element_type, *parameters, body, _ = row
    integers = np.random.default_rng(0).integers(0, 256, (1, 2, 9)).astype(np.uint8).view(element_type)
    model = model_of(element_type, tuple(parameters), body)
    model.opset_import[0].version = 19  # the evaluator knows no older DequantizeLinear
    model.ir_version = 9
    check(model, {"Q": integers})


def test_functions_must_be_inlined() -> None:
    """onnx's evaluator hands on no operators to functions, which is why the others above are inlined."""
    converted = mp.convert_model(load("functions_indices_torchscript15")[0]).model
    with pytest.raises(NotImplementedError, match="from domain 'maxpool_ort' is unknown"):
        ReferenceEvaluator(converted, new_ops=mp.reference_ops)


def test_a_list_of_its_own() -> None:
    """onnx's evaluator appends to the list that it is given: everybody gets a new one."""
    given = mp.reference_ops
    ReferenceEvaluator(
        parse_model('<ir_version: 8, opset_import: ["": 13]> g (float[1] X) => (float[1] X) {}'), new_ops=given
    )
    assert [(each.op_domain, each.__name__) for each in mp.reference_ops] == [
        ("maxpool_ort", "MaxPool"),
        ("maxpool_ort", "MaxPoolWithIndices"),
    ]


# failures

WIRED = wire.encode(mp.MaxPoolAttributes(kernel_shape=[2]))
# (id, the node's attributes for PyOp, X, type of the error, its text)
FAILURES = [
    ("a negative size", WIRED, np.zeros((1, 1, 0), np.float32), mp.InvalidShapeError,
     f"MaxPool 'pool1': output size of spatial axis D1 must be >= 0, got -1: input 0 + pads 0 and 0 is too small for the effective kernel extent 2 (kernel 2, dilation 1) at stride 1; use a smaller kernel or dilation, or larger pads (X: float32 (1, 1, 0); {WIRED})"),
    ("another dtype", WIRED, np.zeros((1, 1, 4), np.int32), mp.UnsupportedTypeError,
     f"MaxPool 'pool1': X must have one of the dtypes float16, float32, float64, int8, uint8, got int32 (X: int32 (1, 1, 4); {WIRED})"),
    ("damaged attributes", "damaged", np.zeros((1, 1, 4), np.float32), mp.InvalidAttributeError,
     "MaxPool 'pool1': wire_attributes is damaged: 'damaged'; convert the original model again (X: float32 (1, 1, 4); damaged)"),
    ("no attributes for PyOp", None, np.zeros((1, 1, 4), np.float32), mp.InvalidAttributeError,
     "MaxPool 'pool1': wire_attributes is damaged: ''; convert the original model again (X: float32 (1, 1, 4); )"),
]  # fmt: skip


@pytest.mark.parametrize("with_indices", [False, True])
@pytest.mark.parametrize(
    ("wired", "x", "kind", "text"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES]
)
def test_failures(wired: str | None, x: np.ndarray, kind: type[Exception], text: str, with_indices: bool) -> None:
    """The evaluator raises our error, with node, attributes and X: also a TypeError, for which it has another text."""
    model = mp.convert_model(mp.make_maxpool_model([2], ["N", 1, "L"], name="pool1", with_indices=with_indices)).model
    (node,) = (node for node in model.graph.node if node.domain == "maxpool_ort")
    (attribute,) = (attribute for attribute in node.attribute if attribute.name == wire.ATTRIBUTES)
    node.attribute.remove(attribute)
    if wired is not None:
        attribute.s = wired.encode()
        node.attribute.append(attribute)
    with pytest.raises(kind) as info:
        ReferenceEvaluator(model, new_ops=mp.reference_ops).run(None, {"X": x})
    assert str(info.value) == text
    assert isinstance(info.value.__cause__, kind)
