"""onnxscript finds our operators by their schemas."""

import numpy as np
import onnx
from onnxscript import FLOAT, INT64, script
from onnxscript import opset18 as op
from onnxscript.values import Opset
from versions import knows_schemas

import maxpool_ort as mp
from maxpool_ort import wire

OURS = Opset("maxpool_ort", 1)
WIRED = wire.encode(mp.MaxPoolAttributes(kernel_shape=[2], strides=[2]))


@script()
def pooled(x: FLOAT["N", 1, "L"]) -> tuple[FLOAT["N", 1, "M"], INT64["N", 1, "M"]]:  # noqa: D103, F821 (names of sizes)
    y, indices = OURS.MaxPoolWithIndices(
        op.Relu(x), kernel_shape=[2], strides=[2], wire_attributes=WIRED, wire_node="pool1"
    )
    return op.Neg(y), indices


@knows_schemas
def test_a_script_calls_our_operator() -> None:
    """A script function becomes a valid model with a node of ours, and runs."""
    assert {"MaxPool", "MaxPoolWithIndices"} <= {
        name for name in ("MaxPool", "MaxPoolWithIndices", "Relu") if name in OURS
    }
    model = pooled.to_model_proto()
    onnx.checker.check_model(model, full_check=True)
    assert [node.domain for node in model.graph.node] == ["", "maxpool_ort", ""]
    y, indices = mp.InferenceSession(model).run(None, {"x": np.array([[[1, 3, -2, -4, 7]]], np.float32)})
    assert (y.tolist(), indices.tolist()) == ([[[-3, 0]]], [[[1, 2]]])
