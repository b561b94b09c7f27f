"""Tiny inputs: all taps of all windows at once, by tables of where they lie.

There NumPy's calls take longer than their work, and what takes the fewest calls is the fastest.
"""

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxpool_ort.geometry import Axis, Geometry
from maxpool_ort.kernel.passes import first_taps
from maxpool_ort.kernel.positions import to_column_major

__all__ = ["Gather", "is_tiny"]

Array = NDArray[Any]

MOST_TAPS = 4096
"""Of all windows together: then passes are as fast, and tables would take memory."""


def is_tiny(geometry: Geometry, planes: int) -> bool:
    """Whether this pays: for few taps, and where each window has some that are no padding."""
    taps = planes * prod(axis.output * axis.kernel for axis in geometry.axes)
    return 0 < taps <= MOST_TAPS and not any(_first_taps(axis)[1].any() for axis in geometry.axes)


class Gather:
    """MaxPool of this geometry for X of (N, C) planes.

    A tap on padding is the first tap of its window that is not, once more: that changes neither the maximum nor which
    of equals is the first.
    """

    def __init__(self, geometry: Geometry, planes: tuple[int, int], storage_order: int, *, with_indices: bool) -> None:
        axes, sizes = geometry.axes, geometry.input_spatial_shape
        positions = np.arange(prod(planes)).reshape(*planes, *[1] * 2 * len(axes)) * prod(sizes)
        for number, axis in enumerate(axes, start=1):
            shape = [1] * positions.ndim  # (N, C, O1, ..., Or, K1, ..., Kr)
            shape[1 + number], shape[1 + number + len(axes)] = axis.output, axis.kernel
            positions = positions + _taps(axis).reshape(shape) * prod(sizes[number:])
        positions = positions.reshape(*planes, *geometry.output_spatial_shape, -1)
        if with_indices:
            self._positions, taps = positions, positions.shape[-1]
            self._rows = np.arange(positions.size // taps).reshape(positions.shape[:-1]) * taps
            self._indices = positions.copy()
            if storage_order:
                to_column_major(self._indices, sizes)
        else:
            self._positions = np.ascontiguousarray(np.moveaxis(positions, -1, 0))  # outer axes are reduced faster
            self._indices = None

    def __call__(self, x: Array) -> tuple[Array, Array | None]:
        """Y, and Indices or None."""
        x = x.reshape(-1)
        if self._indices is None:
            return np.maximum.reduce(x.take(self._positions)), None
        chosen = x.take(self._positions).argmax(axis=-1)  # of equals the first; NaN is the greatest
        chosen += self._rows
        return x.take(self._positions.take(chosen)), self._indices.take(chosen)


def _first_taps(axis: Axis) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    return first_taps(axis, np.arange(axis.output))


def _taps(axis: Axis) -> NDArray[np.int64]:
    """Positions along an axis: (outputs, taps)."""
    origins = np.arange(axis.output)[:, np.newaxis] * axis.stride - axis.pad_begin
    positions = origins + np.arange(axis.kernel) * axis.dilation
    is_padding = (positions < 0) | (positions >= axis.input)
    return np.where(is_padding, _first_taps(axis)[0][:, np.newaxis], positions)
