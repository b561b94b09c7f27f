"""The maximum over windows, and where it lies, for any number of spatial axes, in vectorized NumPy.

A maximum is separable: one pass per spatial axis, each a loop over that axis' taps. Planes are worked
on in blocks, so that what a pass writes is still in cache when the next one reads it. Nothing is checked here: the
geometry that comes in is right, and fits X.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxpool_ort.geometry import Axis, Geometry

__all__ = ["lowest", "pool"]

Array = NDArray[Any]

BLOCK_BYTES = 256 * 1024
"""Input bytes of a block of planes: a block and what the passes make of it fit the second-level cache."""


@dataclass(frozen=True, eq=False)
class _Pass:
    """How one axis is reduced."""

    first: NDArray[np.intp]
    """Input position of each output's first tap that is no padding; any position where all taps are."""
    first_code: NDArray[np.int64]
    """Code of that tap: its number among the taps that any output uses."""
    steps: tuple[tuple[int, slice, slice], ...]
    """For each tap: its code, the outputs that have it in the input, and the input positions where it lies."""
    whole: tuple[int, slice, slice] | None
    """A step whose tap lies in the input for every output, the first one of these; None if there is none."""
    empty: NDArray[np.bool_] | None
    """Outputs of which all taps are padding; None if there are none."""
    is_copy: bool
    """Whether each output is the input element at its own position."""


@dataclass(frozen=True, eq=False)
class _Plan:
    """What can be worked out once for a geometry: a pass per spatial axis, and how codes become Indices."""

    passes: tuple[_Pass, ...]
    radices: tuple[int, ...]
    """What a step of one tap along each axis adds to a window's code: row-major over the taps."""
    code_dtype: np.dtype[Any]
    offsets: NDArray[np.int64]
    """Code to distance in Indices from the window's origin, its tap 0 along each axis."""
    origins: NDArray[np.int64]
    """Index, within a plane, of each output's origin."""


def _plan_pass(axis: Axis) -> _Pass:
    origins = np.arange(axis.output) * axis.stride - axis.pad_begin
    first_tap = np.maximum(0, -(origins // axis.dilation))  # a ceiling: the first tap at a position >= 0
    first = origins + first_tap * axis.dilation
    empty = (first_tap >= axis.kernel) | (first >= axis.input)
    steps = []
    for code, tap in enumerate(axis.taps):
        outputs = axis.outputs(tap)
        if outputs:
            start = outputs.start * axis.stride - axis.pad_begin + tap * axis.dilation
            inputs = slice(start, start + (len(outputs) - 1) * axis.stride + 1, axis.stride)
            steps.append((code, slice(outputs.start, outputs.stop), inputs))
    return _Pass(
        first=np.where(empty, 0, first),
        first_code=np.where(empty, 0, np.searchsorted(np.array(axis.taps, np.int64), first_tap)),
        steps=tuple(steps),
        whole=next((step for step in steps if step[1] == slice(0, axis.output)), None),
        empty=empty if empty.any() else None,
        is_copy=axis.output == axis.input and not empty.any() and all(step[1] == step[2] for step in steps),
    )


@lru_cache(maxsize=256)
def _plan(geometry: Geometry, storage_order: int) -> _Plan:
    axes = geometry.axes
    taps = [len(axis.taps) for axis in axes]
    radices = tuple(prod(taps[i + 1 :]) for i in range(len(axes)))
    sizes = geometry.input_spatial_shape
    weights = [prod(sizes[:i]) if storage_order else prod(sizes[i + 1 :]) for i in range(len(axes))]
    along = [
        (
            np.array(axis.taps, dtype=np.int64) * axis.dilation * weight,
            (np.arange(axis.output, dtype=np.int64) * axis.stride - axis.pad_begin) * weight,
        )
        for axis, weight in zip(axes, weights, strict=True)
    ]
    return _Plan(
        passes=tuple(map(_plan_pass, axes)),
        radices=radices,
        code_dtype=np.min_scalar_type(max(0, prod(taps) - 1)),
        offsets=_outer_sum([offsets for offsets, _ in along]).ravel(),
        origins=_outer_sum([origins for _, origins in along]),
    )


def _outer_sum(vectors: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Sum of one entry of each vector, for all combinations: entry [i, j, ...] is v[0][i] + v[1][j] + ..."""
    total = np.zeros((), np.int64)
    for vector in vectors:
        total = total[..., np.newaxis] + vector
    return total


def lowest(dtype: np.dtype[Any]) -> Any:
    """What a window without any element yields: -inf, or the smallest integer.

    >>> int(lowest(np.dtype(np.int8))), float(lowest(np.dtype(np.float32)))
    (-128, -inf)
    """
    return dtype.type(-np.inf if dtype.kind == "f" else np.iinfo(dtype).min)


def pool(x: Array, geometry: Geometry, storage_order: int, *, with_indices: bool) -> tuple[Array, Array | None]:
    """Y, and Indices or None, for X of shape (N, C, *geometry.input_spatial_shape); both are new and C-contiguous."""
    shape = (*x.shape[:2], *geometry.output_spatial_shape)
    y = np.empty(shape, x.dtype)
    indices = np.empty(shape, np.int64) if with_indices else None
    plan = _plan(geometry, storage_order)
    if not x.size or not plan.offsets.size:  # then all windows there are, if any, are without elements
        y.fill(lowest(x.dtype))
        if indices is not None:
            indices.fill(-1)
    elif y.size:
        planes = x.reshape(-1, *geometry.input_spatial_shape)
        y_planes = y.reshape(-1, *geometry.output_spatial_shape)
        index_planes = None if indices is None else indices.reshape(y_planes.shape)
        count = max(1, BLOCK_BYTES // planes[0].nbytes)
        for first in range(0, len(planes), count):
            block = slice(first, first + count)
            _pool_block(
                planes[block], y_planes[block], None if index_planes is None else index_planes[block], first, plan
            )
    return y, indices


def _pool_block(x: Array, y: Array, indices: Array | None, first_plane: int, plan: _Plan) -> None:
    """Fill y, and indices if they are wanted, for a block of planes (plane, D1, ..., Dr)."""
    keys = _to_sortable(x) if x.dtype == np.float16 else x
    if indices is None:
        best = _values(keys, plan)
    else:
        best, code = _values_and_codes(keys, plan)
        np.take(plan.offsets, code, out=indices, mode="clip")  # clip: no buffer; codes are in range anyway
        indices += plan.origins
        planes = np.arange(first_plane, first_plane + len(x), dtype=np.int64)
        indices += planes.reshape(-1, *[1] * len(plan.passes)) * x[0].size
    y[...] = _from_sortable(best) if x.dtype == np.float16 else best
    for axis, along in enumerate(plan.passes, start=1):
        if along.empty is not None:
            y[_at(axis, along.empty)] = lowest(y.dtype)
            if indices is not None:
                indices[_at(axis, along.empty)] = -1


def _values(x: Array, plan: _Plan) -> Array:
    # Outermost first: its taps are whole contiguous rows, and a stride leaves less for the axes where they are not.
    for axis, along in _passes(plan):
        best = _start(x, axis, along, along.whole)
        for step in along.steps:
            if step is not along.whole:
                _, outputs, inputs = step
                target = best[_at(axis, outputs)]
                np.maximum(target, x[_at(axis, inputs)], out=target)
        x = best
    return x


def _start(x: Array, axis: int, along: _Pass, whole: tuple[int, slice, slice] | None) -> Array:
    """For each output, the element at the tap of ``whole``, or at its own first tap: an array to find maxima in."""
    return x.take(along.first, axis) if whole is None else x[_at(axis, whole[2])].copy()


def _values_and_codes(x: Array, plan: _Plan) -> tuple[Array, Array]:
    """Maxima, and the code of the tap that each lies at.

    Innermost axis first, so that codes grow in row-major order of the window. Taps are tried in that order and only a
    greater one replaces what was found, so the first of equals stays; and since its code is the greatest so far, no
    masked copy is needed.
    """
    greater = _greater_or_first_nan if x.dtype.kind == "f" and np.isnan(x).any() else np.greater
    code = np.zeros(x.shape, plan.code_dtype)
    for axis, along in reversed(_passes(plan)):
        radix = plan.code_dtype.type(plan.radices[axis - 1])
        whole = along.whole if along.steps[:1] == (along.whole,) else None  # an earlier tap would have to win ties
        best = _start(x, axis, along, whole)
        best_code = _start(code, axis, along, whole)
        best_code += _along(axis, along.first_code, x.ndim).astype(plan.code_dtype) * radix
        for tap, outputs, inputs in along.steps:
            target, target_code = best[_at(axis, outputs)], best_code[_at(axis, outputs)]
            candidate = x[_at(axis, inputs)]
            candidate_code = code[_at(axis, inputs)] + plan.code_dtype.type(tap) * radix
            candidate_code *= greater(candidate, target)
            np.maximum(target, candidate, out=target)
            np.maximum(target_code, candidate_code, out=target_code)
        x, code = best, best_code
    return x, code


def _greater_or_first_nan(candidate: Array, current: Array) -> Array:
    """Whether a candidate replaces what was found, in an order where NaN is the greatest and all NaN are equal."""
    return (candidate > current) | (np.isnan(candidate) & ~np.isnan(current))


def _passes(plan: _Plan) -> list[tuple[int, _Pass]]:
    """The passes that change anything, outermost axis first, with the axis of a block that each is along."""
    return [(axis, along) for axis, along in enumerate(plan.passes, start=1) if not along.is_copy]


def _at(axis: int, key: slice | Array) -> tuple[Any, ...]:
    """Index ``key`` of one axis, all of those before it and (implied) after it."""
    return (*[slice(None)] * axis, key)


def _along(axis: int, vector: Array, ndim: int) -> Array:
    """A vector laid along one axis, ready to broadcast."""
    return vector.reshape(-1, *[1] * (ndim - 1 - axis))


_INFINITY_BITS = np.int16(0x7C00)
_MAGNITUDE_BITS = np.int16(0x7FFF)


def _to_sortable(x: Array) -> Array:
    """float16 as int16 in the order of the values; zeros are equal, and all NaN are one value above infinity.

    NumPy has no vectorized float16 comparison: this is 40 times faster.

    >>> _to_sortable(np.array([-np.inf, -0.0, 0.0, 1.0, np.inf, -np.nan], np.float16)).tolist()
    [-31744, 0, 0, 15360, 31744, 32767]
    """
    magnitude = x.view(np.int16) & _MAGNITUDE_BITS
    keys: Array = np.where(np.signbit(x), -magnitude, magnitude)
    keys[magnitude > _INFINITY_BITS] = _MAGNITUDE_BITS
    return keys


def _from_sortable(keys: Array) -> Array:
    """The inverse of _to_sortable.

    >>> _from_sortable(np.array([-31744, 0, 15360, 32767], np.int16)).tolist()
    [-inf, 0.0, 1.0, nan]
    """
    magnitude = np.abs(keys)
    return np.where(keys < 0, magnitude | np.int16(-0x8000), magnitude).view(np.float16)
