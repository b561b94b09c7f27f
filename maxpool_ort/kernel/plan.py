"""The pieces that planes are cut into, so that they stay in cache, and what leads each to its outputs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
import math
from math import prod
from typing import Any

import numpy as np

from maxpool_ort.geometry import Axis, Geometry
from maxpool_ort.kernel.passes import Layout, first_taps, is_dense, lay_out, seen_outputs

__all__ = ["Piece", "Plan", "Work", "make_plan"]

PIECE_BYTES = 2 * 1024 * 1024
"""Input bytes of a piece at most: large enough that calls take little time beside their work."""
PIECE_SIZE = 512 * 1024
"""Elements of a piece at most."""
SCRATCH_BYTES = 14 * 1024 * 1024
"""Memory of all threads together."""
THREAD_SIZE = 160 * 1024
"""Elements that a piece of each of several threads must have: NumPy's calls on less are so short that threads spend
more time waiting for one another, to hold the interpreter's lock, than they save."""
FIRST_PERCENT = 54
"""Of what two threads do in a piece each, for that which calls: the other one has to wake first."""
WINDOWS = 8
"""Of an axis that is cut, a piece holds more than half as many extents of a window, where it can: what neighbouring
pieces both read is little then."""
MOST_READ = 8
"""How many times more inputs all pieces may have than X: windows that are larger than a piece make pieces larger."""


@dataclass(frozen=True, eq=False)
class Work:
    """What leads from the inputs of a piece to its outputs; pieces of the same axes and dtype share it."""

    axes: tuple[Axis, ...]
    """The axes that the inputs are by themselves."""
    layout: Layout | None
    """None if tap after tap is better, or there is no input."""
    has_empty: bool
    """Whether there are outputs of which all taps are padding."""

    @property
    def empty(self) -> list[tuple[Any, ...]]:
        """Those outputs, in a block (plane, D1, ..., Dr); they are not kept, since they may be many."""
        if not self.has_empty:
            return []
        of_axes = [(number, _empty_outputs(axis)) for number, axis in enumerate(self.axes, start=1)]
        return [(*[slice(None)] * number, outputs) for number, found in of_axes for outputs in found]

    @property
    def size(self) -> int:
        """Elements in each plane, of the layout if there is one."""
        return prod(axis.input for axis in self.axes) if self.layout is None else prod(self.layout.sizes)


@dataclass(frozen=True, eq=False)
class Piece:
    """Some outputs of a block (plane, D1, ..., Dr), and what of the input they see."""

    inputs: tuple[slice, ...]
    outputs: tuple[slice, ...]
    work: Work

    def start(self, strides: Sequence[int]) -> int:
        """Index of the first input in a plane of these strides."""
        return sum(part.start * stride for part, stride in zip(self.inputs[1:], strides, strict=True))


@dataclass(frozen=True, eq=False)
class Plan:
    """The pieces of each plane, how many planes go together (one if they are cut), and on how many threads."""

    pieces: tuple[Piece, ...]
    planes: int
    threads: int


@lru_cache(maxsize=256)
def make_plan(geometry: Geometry, planes: int, itemsize: int, threads: int, *, with_indices: bool) -> Plan:
    """Cut planes of this geometry into pieces of like size, for at most these threads."""
    element_bytes = _element_bytes(geometry, itemsize, with_indices=with_indices)
    threads = max(1, min(threads, SCRATCH_BYTES // element_bytes // THREAD_SIZE))
    most = min(PIECE_BYTES // itemsize, PIECE_SIZE, SCRATCH_BYTES // element_bytes // threads)
    spans = [_spans(axis, size) for axis, size in zip(geometry.axes, _piece_shape(geometry, most), strict=True)]
    pieces = tuple(
        _piece(*zip(*parts, strict=True), itemsize=itemsize, with_indices=with_indices) for parts in product(*spans)
    )
    if len(pieces) > 1:
        return Plan(pieces, 1, threads)
    together = max(1, most // max(1, pieces[0].work.size))
    share = -(-planes // threads)  # of one thread
    if threads == 2:
        share = max(share, min(together, planes * FIRST_PERCENT // 100))
    return Plan(pieces, max(1, -(-share // max(1, -(-share // together)))), threads)


def _element_bytes(geometry: Geometry, itemsize: int, *, with_indices: bool) -> int:
    """Of all buffers, for each position of a piece: of maxima and, with Indices, of where they lie."""
    maxima = 3 * itemsize
    if not with_indices:
        return maxima
    if not is_dense(geometry.axes):
        return maxima + 3 * 8  # positions of inputs and outputs
    bits = sum((axis.kernel - 1).bit_length() for axis in geometry.axes)
    number = np.min_scalar_type((1 << bits) - 1).itemsize
    strided = [axis for axis in geometry.axes if axis.stride > 1]  # when these are done, numbers become positions
    position = np.min_scalar_type(prod(geometry.input_spatial_shape)).itemsize * _left(strided)
    in_x = 4 * _left(geometry.axes)
    return math.ceil(maxima + 1 + 3 * max(number, position) + max(number, position, in_x))


def _left(axes: Sequence[Axis]) -> float:
    """How many windows there are, when these axes are done, for each input."""
    return prod(axis.output / max(1, axis.input) for axis in axes)


def _piece(
    inputs: tuple[slice, ...],
    outputs: tuple[slice, ...],
    axes: tuple[Axis, ...],
    *,
    itemsize: int,
    with_indices: bool,
) -> Piece:
    work = _work(axes, itemsize, with_indices=with_indices)
    return Piece((slice(None), *inputs), (slice(None), *outputs), work)


@lru_cache(maxsize=256)
def _work(axes: tuple[Axis, ...], itemsize: int, *, with_indices: bool) -> Work:
    return Work(
        axes=axes,
        layout=lay_out(axes, itemsize, with_indices=with_indices) if is_dense(axes) else None,
        has_empty=any(map(_empty_outputs, axes)),
    )


def _empty_outputs(axis: Axis) -> list[Any]:
    """Outputs of which all taps are padding: the window ends before the input, reaches over it, or begins behind it."""
    seen = seen_outputs(axis)
    over = np.arange(seen.start, min(seen.stop, max(seen.start, -(-axis.pad_begin // axis.stride))))
    over = over[first_taps(axis, over)[1]]
    return [
        *([slice(0, seen.start)] if seen.start else []),
        *([over] if over.size else []),
        *([slice(seen.stop, axis.output)] if seen.stop < axis.output else []),
    ]


def _piece_shape(geometry: Geometry, most: int) -> list[int]:
    """Outputs of a piece along each axis: few enough for ``most`` inputs, or for as few as do not read X too often."""
    axes, shape = geometry.axes, list(geometry.output_spatial_shape)
    numbers = range(len(shape))

    def inputs(number: int) -> int:
        axis = axes[number]
        return min(axis.input, (shape[number] - 1) * axis.stride + axis.extent)

    def read() -> int:
        return prod(inputs(i) * -(-axes[i].output // shape[i]) for i in numbers)

    while prod(map(inputs, numbers)) > most and any(size > 1 for size in shape):
        windows = [inputs(i) / axes[i].extent if shape[i] > 1 else 0 for i in numbers]
        # the outermost axis while it can be, so that rows stay whole; then where neighbours share least
        cut = next((i for i in numbers if windows[i] > WINDOWS), windows.index(max(windows)))
        before = shape[cut]
        shape[cut] = -(-before // 2)
        if read() > MOST_READ * prod(geometry.input_spatial_shape):
            shape[cut] = before
            break
    return shape


def _spans(axis: Axis, size: int) -> list[tuple[slice, slice, Axis]]:
    """Cut one axis into runs of ``size`` outputs: inputs, outputs, and the axis that they are by themselves."""
    if size >= axis.output:
        return [(slice(0, axis.input), slice(0, axis.output), axis)]
    spans = []
    for start in range(0, axis.output, size):
        stop = min(axis.output, start + size)
        origin = start * axis.stride - axis.pad_begin
        low = max(0, origin)
        high = max(low, min(axis.input, origin + (stop - start - 1) * axis.stride + axis.extent))
        part = replace(axis, input=high - low, pad_begin=low - origin, output=stop - start)
        spans.append((slice(low, high), slice(start, stop), part))
    return spans
