"""Where elements are in X: in row-major order while windows are worked on, as the order of taps is."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["grid", "to_column_major"]

Array = NDArray[np.int64]

_INT64 = np.dtype(np.int64)


def grid(
    coordinates: Sequence[NDArray[np.intp]], strides: Sequence[int], dtype: np.dtype[Any] = _INT64
) -> NDArray[Any]:
    """Position for each combination of coordinates, one vector along each axis, in integers that hold them all.

    >>> grid([np.arange(2), np.arange(3)], [10, 1]).tolist()
    [[0, 1, 2], [10, 11, 12]]
    """
    total = np.zeros((), dtype)
    for vector, stride in zip(coordinates, strides, strict=True):
        total = total[..., np.newaxis] + (vector * stride).astype(dtype)
    return total


def to_column_major(indices: Array, sizes: Sequence[int]) -> None:
    """Turn row-major Indices of planes of these sizes into column-major ones.

    >>> indices = np.arange(6, 12)  # the second plane of 2 x 3
    >>> to_column_major(indices, [2, 3])
    >>> indices.tolist()
    [6, 8, 10, 7, 9, 11]
    """
    rest, total = indices.copy(), 0
    for number, size in reversed(list(enumerate(sizes))):
        rest, coordinate = np.divmod(rest, size)
        total = total + coordinate * prod(sizes[:number])
    np.add(total, rest * prod(sizes), out=indices)
