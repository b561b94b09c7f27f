"""Which MaxPool nodes are better off with our operator: those where ONNX Runtime's own is wrong or clearly slower.

The measurements are those of ``bench``; what is wrong is what ``inspection`` finds. That ONNX Runtime may lose NaN is
not counted: it holds for nearly every node of floats, and matters only where there are NaN.
"""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from maxpool_ort.graphs import Dims
from maxpool_ort.inspection import differences
from maxpool_ort.schema import MaxPoolAttributes

__all__ = ["Recommendation", "recommend"]

SMALL = 16 * 1024
"""Elements of X below which a call into Python takes longer than ONNX Runtime's loops."""
HAND_TUNED = ("float", "float16")
LARGE_WINDOW = 1024
"""Taps of a window from which on ONNX Runtime's hand-tuned path, which visits them all, is slower. On some machines it
is with 64 already; on others not with 169, given two threads and in the middle of a network."""

LONG_LOOP = 8
"""Taps for each element of X from which on ONNX Runtime's plain loop is slower where ours is slow, too: for Indices and
float64. With two threads, and with data as it is in the middle of a network, it is as fast with windows of 2 by 2 and
strides of 2."""


class Recommendation(NamedTuple):
    """Whether our operator is recommended, and why."""

    is_ours: bool
    reason: str


def recommend(
    attributes: MaxPoolAttributes, element_type: str, input_dims: Dims | None, *, with_indices: bool, opset: int
) -> Recommendation:
    """Recommend our operator for a node, or ONNX Runtime's own.

    >>> from maxpool_ort.schema import MaxPoolAttributes
    >>> attributes = MaxPoolAttributes(kernel_shape=[3, 3], strides=[2, 2])
    >>> recommend(attributes, "float", (1, 64, 112, 112), with_indices=False, opset=12).is_ours
    False
    >>> recommend(attributes, "uint8", (1, 64, 112, 112), with_indices=False, opset=12)
    Recommendation(is_ours=True, reason='faster: ONNX Runtime has only a plain loop for uint8')
    """
    found = differences(attributes, element_type, input_dims, with_indices=with_indices, opset=opset)
    wrong = [reason for reason in found if not reason.startswith("may lose NaN")]
    if wrong:
        return Recommendation(True, f"ONNX Runtime's own {wrong[0]}")
    size = _size(input_dims)
    if size is not None and size < SMALL:
        return Recommendation(
            False, f"faster: X has only {size} elements, a call into Python takes longer than the work"
        )
    plain = _plain_loop(attributes, element_type, with_indices=with_indices)
    taps = prod(attributes.kernel_shape) / prod(attributes.strides)
    if plain in {"Indices", "double"} and taps < LONG_LOOP:
        return Recommendation(
            False,
            f"faster: ONNX Runtime's plain loop for {plain} looks at an element of X only {taps:g} times, on average",
        )
    if plain:
        return Recommendation(True, f"faster: ONNX Runtime has only a plain loop for {plain}")
    if prod(attributes.kernel_shape) >= LARGE_WINDOW:
        return Recommendation(True, f"faster: ONNX Runtime visits all {prod(attributes.kernel_shape)} taps of a window")
    return Recommendation(False, "faster: ONNX Runtime has a hand-tuned path for it, which may lose NaN")


def _size(dims: Sequence[int | str | None] | None) -> int | None:
    """Elements of X, if they are known."""
    sizes = [dim for dim in dims or (None,) if isinstance(dim, int)]
    return prod(sizes) if dims is not None and len(sizes) == len(dims) else None


def _plain_loop(attributes: MaxPoolAttributes, element_type: str, *, with_indices: bool) -> str:
    """For what ONNX Runtime's hand-tuned path is not there; empty if it is."""
    if with_indices:
        return "Indices"
    if element_type == "float16" and set(attributes.dilations) != {1}:
        return "float16 with dilations"
    return "" if element_type in HAND_TUNED else element_type
