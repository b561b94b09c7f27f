"""Where other implementations give something else: their answer and ours, each shown.

If one of these fails because the other has changed its mind, that is good news: drop the row here and in the README.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
import onnxruntime
from oracle import assert_same, max_pool_oracle
import pytest
from versions import ORT

import maxpool_ort as mp

NAN, INF = np.nan, np.inf
LOWEST = np.finfo(np.float32).min


def model_of(x: np.ndarray, attributes: dict[str, Any], *, with_indices: bool = False) -> onnx.ModelProto:
    """A model of one MaxPool-12, no shapes of Y declared that a runtime could be held to."""
    shape = [None] * x.ndim
    return mp.make_maxpool_model(**attributes, input_shape=shape, dtype=x.dtype, with_indices=with_indices)


def built_in(x: np.ndarray, attributes: dict[str, Any], *, with_indices: bool = False) -> list[np.ndarray]:
    """ONNX Runtime's own MaxPool."""
    model = model_of(x, attributes, with_indices=with_indices)
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"X": x})


def reference(x: np.ndarray, attributes: dict[str, Any], *, with_indices: bool = False) -> list[np.ndarray]:
    """ONNX's reference evaluator."""
    return ReferenceEvaluator(model_of(x, attributes, with_indices=with_indices)).run(None, {"X": x})


def ours(x: np.ndarray, attributes: dict[str, Any], *, with_indices: bool = False) -> list[np.ndarray]:
    """Our operator, in a session; it must give what the oracle gives."""
    model = model_of(x, attributes, with_indices=with_indices)
    outputs = mp.InferenceSession(model).run(None, {"X": x})
    for got, expected in zip(outputs, max_pool_oracle(x, **attributes), strict=False):
        assert_same(got, expected, attributes)
    return outputs


def ramp(*shape: int, dtype: type[np.generic] = np.float32) -> np.ndarray:
    """0, 1, 2, ... in a shape."""
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


COLUMNS = ("other", "x", "attributes", "theirs", "our")
Runtime = Callable[..., list[np.ndarray]]
X_NAN = np.array([[[NAN, 1, 2, NAN, NAN, NAN, 3, 1]]], np.float32)
X_ALL_LOW = np.full((1, 1, 4), -INF, np.float32)

# (id, other, X, attributes, their Y, our Y)
VALUES: list[tuple[str, Runtime, np.ndarray, dict[str, Any], list[float], list[float]]] = [
    (
        "float32 loses NaN",
        built_in,
        X_NAN,
        {"kernel_shape": [2], "strides": [2]},
        [1, 2, LOWEST, 3],
        [NAN, NAN, NAN, 3],
    ),
    ("float32 loses -inf", built_in, X_ALL_LOW, {"kernel_shape": [3], "pads": [1, 1]}, [LOWEST] * 4, [-INF] * 4),
    (
        "SAME with dilation",
        built_in,
        ramp(1, 1, 5),
        {"kernel_shape": [3], "dilations": [2], "auto_pad": "SAME_UPPER"},
        [3, 4, 3],
        [2, 3, 4, 3, 4],
    ),
    (
        "VALID with ceil_mode",
        built_in,
        ramp(1, 1, 5),
        {"kernel_shape": [2], "strides": [2], "auto_pad": "VALID", "ceil_mode": 1},
        [1, 3, 4],
        [1, 3],
    ),
    ("size 0 by floor", built_in, ramp(1, 1, 4), {"kernel_shape": [3], "dilations": [2], "strides": [2]}, [2], []),
]


@pytest.mark.parametrize(COLUMNS, [row[1:] for row in VALUES], ids=[row[0] for row in VALUES])
def test_values(
    other: Runtime, x: np.ndarray, attributes: dict[str, Any], theirs: list[float], our: list[float]
) -> None:
    """Theirs and ours differ as the table says."""
    np.testing.assert_array_equal(other(x, attributes)[0].ravel(), np.array(theirs, x.dtype))
    np.testing.assert_array_equal(ours(x, attributes)[0].ravel(), np.array(our, x.dtype))


# (id, other, X, attributes, their shape, our shape)
SHAPES: list[tuple[str, Runtime, np.ndarray, dict[str, Any], tuple[int, ...], tuple[int, ...]]] = [
    (
        "ORT: SAME_LOWER with dilation",
        built_in,
        ramp(2, 2, 5, 7),
        {"kernel_shape": [1, 3], "dilations": [1, 3], "auto_pad": "SAME_LOWER"},
        (2, 2, 5, 3),
        (2, 2, 5, 7),
    ),
    (
        "onnx.reference: SAME_LOWER",
        reference,
        ramp(1, 1, 5, 5),
        {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
        (1, 1, 2, 2),
        (1, 1, 3, 3),
    ),
]


@pytest.mark.parametrize(COLUMNS, [row[1:] for row in SHAPES], ids=[row[0] for row in SHAPES])
def test_shapes(
    other: Runtime, x: np.ndarray, attributes: dict[str, Any], theirs: tuple[int, ...], our: tuple[int, ...]
) -> None:
    """Theirs and ours have the shapes that the table says."""
    assert other(x, attributes)[0].shape == theirs
    assert ours(x, attributes)[0].shape == our


# (id, X, attributes, text of the refusal, our Y)
REFUSALS: list[tuple[str, np.ndarray, dict[str, Any], str, list[float]]] = [
    ("pads >= kernel", ramp(1, 1, 5), {"kernel_shape": [2], "dilations": [4], "pads": [2, 2]}, "pad", [2, 3, 4, 1, 2]),
    ("four spatial axes", ramp(1, 1, 2, 1, 1, 2), {"kernel_shape": [2, 1, 1, 1]}, "pooling size", [2, 3]),
    (
        "SAME of negative total pad",
        ramp(1, 1, 6),
        {"kernel_shape": [1], "strides": [3], "auto_pad": "SAME_UPPER"},
        "padding values must be non-negative",
        [0, 3],
    ),
]


@pytest.mark.parametrize(("x", "attributes", "text", "our"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS])
def test_refusals(x: np.ndarray, attributes: dict[str, Any], text: str, our: list[float]) -> None:
    """ONNX Runtime's own refuses the model or fails at the run; ours runs."""
    if "non-negative" in text and ORT < (1, 32):
        pytest.skip("older ones run, and give what they give with Indices, see below")
    with pytest.raises(Exception, match=text) as caught:
        built_in(x, attributes)
    assert type(caught.value).__module__ == "onnxruntime.capi.onnxruntime_pybind11_state"
    assert ours(x, attributes)[0].ravel().tolist() == our


def test_ort_same_of_negative_total_pad_with_indices() -> None:
    """ONNX Runtime's own starts outside of the first window where SAME's total pad is negative, with Indices."""
    x = ramp(1, 1, 6)
    attributes = {"kernel_shape": [1], "strides": [3], "auto_pad": "SAME_UPPER"}
    assert built_in(x, attributes, with_indices=True)[0].ravel().tolist() == [1, 4]
    assert ours(x, attributes, with_indices=True)[0].ravel().tolist() == [0, 3]


def test_ort_windows_of_padding_with_indices() -> None:
    """ONNX Runtime's own gives the lowest finite value and a stray index where a window holds padding only."""
    x = ramp(1, 1, 4, 2, dtype=np.float64)
    attributes = {
        "kernel_shape": [4, 3], "strides": [3, 4], "dilations": [1, 3], "pads": [0, 1, 1, 1], "ceil_mode": 1,
    }  # fmt: skip
    y, indices = built_in(x, attributes, with_indices=True)
    our_y, our_indices = ours(x, attributes, with_indices=True)
    empty = np.isneginf(our_y)
    assert empty.any()
    np.testing.assert_array_equal(y[empty], np.finfo(np.float64).min)
    np.testing.assert_array_equal(y[~empty], our_y[~empty])
    assert (our_indices[empty] == -1).all()
    assert -3 in indices


def test_reference_indices_of_a_batch() -> None:
    """ONNX's reference evaluator counts Indices within each plane; the page says within the whole of X."""
    x = ramp(2, 2, 2, 2)
    attributes = {"kernel_shape": [2, 2], "strides": [1, 1]}
    assert reference(x, attributes, with_indices=True)[1].ravel().tolist() == [6, 6, 6, 6]
    assert ours(x, attributes, with_indices=True)[1].ravel().tolist() == [3, 7, 11, 15]


def test_onnx_shape_inference_of_ceil_mode() -> None:
    """onnx's shape inference for opset 12 counts a window that starts in the end pad; nobody's run does."""
    x = ramp(1, 1, 12, 12)
    attributes: dict[str, Any] = {"kernel_shape": [1, 1], "strides": [2, 2], "ceil_mode": 1}
    model = mp.make_maxpool_model(**attributes, input_shape=x.shape)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    inferred = onnx.shape_inference.infer_shapes(model).graph.output[0].type.tensor_type.shape
    assert [dim.dim_value for dim in inferred.dim] == [1, 1, 7, 7]
    assert mp.MaxPoolAttributes(**attributes).output_shape(x.shape) == (1, 1, 6, 6)
    assert ours(x, attributes)[0].shape == built_in(x, attributes)[0].shape == (1, 1, 6, 6)
