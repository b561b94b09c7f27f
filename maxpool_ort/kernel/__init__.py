"""The maximum over windows, and where it lies, for any number of spatial axes, in vectorized NumPy.

``plan`` cuts X into pieces that stay in cache and lays them out, ``block`` leads each to its outputs by ``flat`` or,
where that does not pay, by ``taps``. Nothing is checked here: the geometry that comes in is right, and fits X.
"""

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxpool_ort.geometry import Geometry
from maxpool_ort.kernel.block import put_maxima, put_maxima_and_indices
from maxpool_ort.kernel.plan import Piece, make_plan
from maxpool_ort.kernel.positions import to_column_major
from maxpool_ort.kernel.sortable import lowest
from maxpool_ort.kernel.threads import get_num_threads, run_all, set_num_threads

__all__ = ["get_num_threads", "pool", "set_num_threads"]

Array = NDArray[Any]

THREADED_BYTES = 1024 * 1024
"""Smaller inputs are done before a second thread has begun."""


def pool(x: Array, geometry: Geometry, storage_order: int, *, with_indices: bool) -> tuple[Array, Array | None]:
    """Y, and Indices or None, for X of shape (N, C, *geometry.input_spatial_shape); both are new and C-contiguous."""
    shape = (*x.shape[:2], *geometry.output_spatial_shape)
    y = np.empty(shape, x.dtype)
    indices = np.empty(shape, np.int64) if with_indices else None
    if not y.size:
        return y, indices
    plan = make_plan(geometry, x.itemsize, with_indices=with_indices)
    sizes = geometry.input_spatial_shape
    strides = tuple(prod(sizes[i + 1 :]) for i in range(len(sizes)))
    count = prod(x.shape[:2])
    x_planes, y_planes = x.reshape(count, *sizes), y.reshape(count, *geometry.output_spatial_shape)
    index_planes = None if indices is None else indices.reshape(y_planes.shape)

    def work(first: int, piece: Piece) -> None:
        planes = slice(first, first + plan.planes)
        x_part, y_part = x_planes[planes][piece.inputs], y_planes[planes][piece.outputs]
        index_part = None
        if index_planes is None:
            put_maxima(x_part, piece, y_part)
        else:
            index_part = index_planes[planes][piece.outputs]
            origins = np.arange(first, first + len(x_part)) * prod(sizes) + piece.start(strides)
            origins = origins.reshape(-1, *[1] * len(sizes))
            put_maxima_and_indices(x_part, piece, y_part, index_part, strides, origins)
            if storage_order and x.size:
                to_column_major(index_part, sizes)
        for outputs in piece.empty:
            y_part[outputs] = lowest(y.dtype)
            if index_part is not None:
                index_part[outputs] = -1

    threads = get_num_threads() if x.nbytes >= THREADED_BYTES else 1
    run_all(work, ((first, piece) for first in range(0, count, plan.planes) for piece in plan.pieces), threads)
    return y, indices
