"""The passes tap by tap: for any geometry, also one with few outputs or many pads."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxpool_ort.geometry import Axis
from maxpool_ort.kernel.passes import first_taps

__all__ = ["maxima", "maxima_and_positions"]

Array = NDArray[Any]


def maxima(x: Array, axes: Sequence[Axis]) -> Array:
    """Maxima of the windows of a block (plane, D1, ..., Dr), outermost axis first: it leaves less for short rows."""
    for number, axis in enumerate(axes, start=1):
        best = x.take(_first(axis), number)
        for outputs, inputs in _taps(axis, number):
            target = best[outputs]
            np.maximum(target, x[inputs], out=target)
        x = best
    return x


def maxima_and_positions(x: Array, position: Array, axes: Sequence[Axis]) -> tuple[Array, Array]:
    """Maxima and the position of each, of equals the first.

    Innermost axis first, and taps in order: a tap that replaces what was found is greater, and lies behind it.
    """
    for number, axis in reversed(list(enumerate(axes, start=1))):
        first = _first(axis)
        best, best_position = x.take(first, number), position.take(first, number)
        for outputs, inputs in _taps(axis, number):
            target, candidate = best[outputs], x[inputs]
            is_greater = (candidate > target) | (np.isnan(candidate) & ~np.isnan(target))  # NaN is the greatest
            np.copyto(target, candidate, where=is_greater)
            np.copyto(best_position[outputs], position[inputs], where=is_greater)
        x, position = best, best_position
    return x, position


def _first(axis: Axis) -> NDArray[np.intp]:
    return first_taps(axis, np.arange(axis.output))[0]


def _taps(axis: Axis, number: int) -> list[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """For each tap: the outputs that have it in the input, and the input positions where it lies."""
    found = []
    for tap in axis.taps:
        outputs = axis.outputs(tap)
        if outputs:
            start = outputs.start * axis.stride - axis.pad_begin + tap * axis.dilation
            inputs = slice(start, start + (len(outputs) - 1) * axis.stride + 1, axis.stride)
            before = (slice(None),) * number
            found.append(((*before, slice(outputs.start, outputs.stop)), (*before, inputs)))
    return found
