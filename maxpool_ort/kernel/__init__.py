"""The maximum over windows, and where it lies, for any number of spatial axes, in vectorized NumPy.

``plan`` cuts X into pieces that stay in cache, ``block`` leads each to its outputs: by a ``program`` of ``passes`` or,
where that does not pay, by ``taps``. What is tiny goes another way, by ``gather``. Nothing is checked here:
the geometry that comes in is right, and fits X.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from math import prod
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxpool_ort.geometry import Geometry
from maxpool_ort.kernel.block import put_maxima, put_maxima_and_indices
from maxpool_ort.kernel.gather import Gather, is_tiny
from maxpool_ort.kernel.plan import Piece, Plan, make_plan
from maxpool_ort.kernel.positions import to_column_major
from maxpool_ort.kernel.sortable import lowest
from maxpool_ort.kernel.threads import get_num_threads, run_all, set_num_threads
from maxpool_ort.kernel.trial import Trial
from maxpool_ort.kernel.workspace import thread_workspace

__all__ = ["Pooling", "get_num_threads", "is_large", "pooling", "set_num_threads"]

Array = NDArray[Any]

THREADED_BYTES = 512 * 1024
"""Smaller inputs are done before a second thread, which sleeps between runs, has begun; with Indices, of half of it."""


def is_large(nbytes: int, *, with_indices: bool) -> bool:
    """Whether X of so many bytes may be worth several threads."""
    return nbytes * (2 if with_indices else 1) >= THREADED_BYTES


class Pooling:
    """MaxPool for X of one shape and dtype: what does not depend on the elements is worked out once.

    Parameters
    ----------
    geometry, storage_order, with_indices
        What to do.
    shape
        Of X: (N, C, *geometry.input_spatial_shape).
    """

    def __init__(self, geometry: Geometry, shape: tuple[int, ...], storage_order: int, *, with_indices: bool) -> None:
        self._geometry = geometry
        self._with_indices = with_indices
        self._storage_order = storage_order
        self._planes = prod(shape[:2])
        self._sizes = geometry.input_spatial_shape
        self._strides = tuple(prod(self._sizes[i + 1 :]) for i in range(len(self._sizes)))
        self._origin_dtype = np.uint32 if prod(shape) < 1 << 32 else np.int64  # wider ones take twice as long
        self._shape = (*shape[:2], *geometry.output_spatial_shape)
        self._plans: dict[tuple[int, int], Plan] = {}
        self._trials: defaultdict[tuple[int, int], Trial] = defaultdict(Trial)
        self._gather = None
        if is_tiny(geometry, self._planes):
            self._gather = Gather(geometry, (shape[0], shape[1]), storage_order, with_indices=with_indices)

    def __call__(self, x: Array, empty: Callable[..., Array] = np.empty) -> tuple[Array, Array | None]:
        """Y, and Indices or None, C-contiguous; ``empty``, called for Y first, makes large ones."""
        if self._gather is not None:
            return self._gather(x)
        y = empty(self._shape, x.dtype)
        indices = empty(self._shape, np.int64) if self._with_indices else None
        if not y.size:
            return y, indices
        if is_large(x.nbytes, with_indices=self._with_indices) and (threads := get_num_threads()) > 1:
            trial = self._trials[x.itemsize, threads]
            several = trial.several
            start = perf_counter()
            self._pool(x, y, indices, threads if several else 1)
            trial.took(perf_counter() - start, several=several)
        else:
            self._pool(x, y, indices, 1)
        return y, indices

    def _pool(self, x: Array, y: Array, indices: Array | None, threads: int) -> None:
        """Fill the outputs, on at most these threads."""
        plan = self._plan(x.itemsize, threads)
        x_planes = x.reshape(self._planes, *self._sizes)
        y_planes = y.reshape(self._planes, *self._shape[2:])
        index_planes = None if indices is None else indices.reshape(y_planes.shape)

        def work(first: int, piece: Piece) -> None:
            planes = slice(first, first + plan.planes)
            index_part = None if index_planes is None else index_planes[planes][piece.outputs]
            self._put(x_planes[planes][piece.inputs], piece, y_planes[planes][piece.outputs], index_part, first)

        firsts = range(0, self._planes, plan.planes)
        run_all(work, [(first, piece) for first in firsts for piece in plan.pieces], plan.threads)

    def _plan(self, itemsize: int, threads: int) -> Plan:
        key = itemsize, threads
        if key not in self._plans:
            self._plans[key] = make_plan(
                self._geometry, self._planes, itemsize, threads, with_indices=self._with_indices
            )
        return self._plans[key]

    def _put(self, x: Array, piece: Piece, y: Array, indices: Array | None, first: int) -> None:
        """Fill the outputs of one piece, in planes of which the number of the first is ``first``."""
        with thread_workspace() as space:
            if indices is None:
                put_maxima(space, x, piece.work, y)
            else:
                size = max(1, prod(self._sizes))
                start = first * size + piece.start(self._strides)
                origins = np.arange(start, start + (len(x) - 1) * size + 1, size, dtype=self._origin_dtype)
                origins = origins.reshape(-1, *[1] * len(self._sizes))
                put_maxima_and_indices(space, x, piece.work, y, indices, self._strides, origins)
        if indices is not None and self._storage_order and x.size:
            to_column_major(indices, self._sizes)
        for outputs in piece.work.empty:
            y[outputs] = lowest(y.dtype)
            if indices is not None:
                indices[outputs] = -1


@lru_cache(maxsize=256)
def pooling(geometry: Geometry, shape: tuple[int, ...], storage_order: int, *, with_indices: bool) -> Pooling:
    """A Pooling, made once."""
    return Pooling(geometry, shape, storage_order, with_indices=with_indices)
