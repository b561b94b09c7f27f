"""What can be worked out once for a geometry: the pieces that planes are cut into, and how each is laid out.

A maximum is separable, one pass per spatial axis. In a pass, maxima of 2, 4, 8, ... taps each come from the maxima
before and the same moved on, so k taps cost ceil(log2 k) operations rather than k - 1. Each runs over the piece as one
flat array: the windows of all positions at stride 1, at full speed however short the rows are.

Windows must not run from the end of a row into the next. Where there are pads, the piece is therefore laid out with
gaps of lowest values: behind each row, each plane of rows and so on, as wide as the wider pad (the gap behind one row
is the one before the next), and a margin in front of all. If position 0 of the layout is the start of the margin, then
output o's window starts at position o * stride of its axis, and there its maximum ends up.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxpool_ort.geometry import Axis, Geometry

__all__ = ["Layout", "Pass", "Piece", "Plan", "Work", "clipped", "first_taps", "is_dense", "make_plan"]

PIECE_BYTES = 2 * 1024 * 1024
"""Input bytes of a piece at most: large enough that calls take little time beside their work."""
PIECE_SIZE = 512 * 1024
"""Elements of a piece at most."""
SCRATCH_BYTES = 14 * 1024 * 1024
"""Memory of all threads together."""
THREAD_SIZE = 192 * 1024
"""Elements that a piece of each of several threads must have: NumPy's calls on less are so short that threads spend
more time waiting for one another, to hold the interpreter's lock, than they save."""
WINDOWS = 8
"""Of an axis that is cut, a piece holds more than half as many extents of a window, where it can: what neighbouring
pieces both read is little then."""
MOST_READ = 8
"""How many times more inputs all pieces may have than X: windows that are larger than a piece make pieces larger."""
WASTE = 8
"""How many times more operations on elements the flat passes may take than those of tap after tap, which cost more
each."""
MOST_GAPS = 4
"""How many times more positions than inputs a piece may be laid out with."""


@dataclass(frozen=True)
class Pass:
    """One axis: distances between the two windows of which each operation takes the maximum, in elements."""

    shifts: tuple[int, ...]
    is_along_rows: bool
    keep: slice | None
    """The positions of each row that stay after the pass; None if all do."""


@dataclass(frozen=True, eq=False)
class Layout:
    """A piece as one flat array."""

    inputs: tuple[int, ...]
    sizes: tuple[int, ...]
    """Positions along each spatial axis: inputs, and the gap behind them."""
    margin: int
    pad_begin: int
    """Of rows."""
    passes: tuple[Pass, ...]
    """Innermost axis first, so that of equals the first in row-major order stays."""
    outputs: tuple[int, ...]
    """Positions along each axis after the passes."""
    kept: tuple[slice, ...]
    """Those of the outputs, in a block (plane, D1, ..., Dr)."""

    @property
    def has_gaps(self) -> bool:
        """Whether positions are anything but the inputs."""
        return self.margin > 0 or self.sizes != self.inputs

    @property
    def row_extent(self) -> int:
        """Largest offset in a row from the start of a window."""
        return sum(sum(along.shifts) for along in self.passes if along.is_along_rows)


@dataclass(frozen=True, eq=False)
class Work:
    """What leads from the inputs of a piece to its outputs; pieces of the same axes share it."""

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
    element_bytes = 3 * itemsize  # of all buffers
    if with_indices:
        positions, offsets = prod(geometry.input_spatial_shape), geometry.axes[-1].extent - 1
        element_bytes += 4 * np.min_scalar_type(positions).itemsize + 3 * np.min_scalar_type(offsets).itemsize + 1
    swollen = prod(axis.input + _gap(axis) for axis in geometry.axes) / max(1, prod(geometry.input_spatial_shape))
    element_bytes = int(element_bytes * min(swollen, MOST_GAPS))
    threads = max(1, min(threads, SCRATCH_BYTES // element_bytes // THREAD_SIZE))
    most = min(PIECE_BYTES // itemsize, PIECE_SIZE, SCRATCH_BYTES // element_bytes // threads)
    spans = [_spans(axis, size) for axis, size in zip(geometry.axes, _piece_shape(geometry, most), strict=True)]
    pieces = tuple(_piece(*zip(*parts, strict=True)) for parts in product(*spans))
    if len(pieces) > 1:
        return Plan(pieces, 1, threads)
    together = max(1, most // max(1, pieces[0].work.size))
    share = -(-planes // threads)  # of one thread
    return Plan(pieces, max(1, -(-share // max(1, -(-share // together)))), threads)


def _piece(inputs: tuple[slice, ...], outputs: tuple[slice, ...], axes: tuple[Axis, ...]) -> Piece:
    return Piece((slice(None), *inputs), (slice(None), *outputs), _work(axes))


@lru_cache(maxsize=256)
def _work(axes: tuple[Axis, ...]) -> Work:
    has_input = all(axis.input for axis in axes)
    return Work(
        axes=axes,
        layout=lay_out(axes) if has_input and is_dense(axes) else None,
        has_empty=any(map(_empty_outputs, axes)),
    )


def _empty_outputs(axis: Axis) -> list[Any]:
    """Outputs of which all taps are padding: the window ends before the input, reaches over it, or begins behind it."""
    before = clipped(axis)
    outside = min(before, max(0, -((axis.extent - 1 - axis.pad_begin) // axis.stride)))
    behind = min(axis.output, max(before, -(-(axis.input + axis.pad_begin) // axis.stride)))
    over = np.arange(outside, before)
    over = over[first_taps(axis, over)[1]]
    return [
        *([slice(0, outside)] if outside else []),
        *([over] if over.size else []),
        *([slice(behind, axis.output)] if behind < axis.output else []),
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


def is_dense(axes: Sequence[Axis]) -> bool:
    """Whether flat passes pay: not where most of what they lay out and do would be for positions without an output."""
    positions = prod(axis.input + _gap(axis) for axis in axes)
    flat = sum(len(_shifts(axis.kernel)) for axis in axes) * positions
    by_taps = sum(
        len(axis.taps) * prod([*(a.input for a in axes[:i]), *(a.output for a in axes[i:])])
        for i, axis in enumerate(axes)
    )
    return 0 < flat <= WASTE * by_taps and positions <= MOST_GAPS * prod(axis.input for axis in axes)


def _gap(axis: Axis) -> int:
    """Positions that have to lie behind the inputs: no window may leave them, and each output needs its own."""
    last = (axis.output - 1) * axis.stride
    return max(0, axis.pad_begin, last - axis.pad_begin + axis.extent - axis.input, last + 1 - axis.input)


def lay_out(axes: tuple[Axis, ...]) -> Layout:
    """Lay out a piece and plan the passes over it."""
    gaps = [_gap(axis) for axis in axes]
    sizes = [axis.input + gap for axis, gap in zip(axes, gaps, strict=True)]
    if gaps[-1] and axes[-1].output > 1:
        sizes[-1] += -sizes[-1] % axes[-1].stride  # rows of whole strides: faster to take the outputs from
    inner = [prod(sizes[i + 1 :]) for i in range(len(axes))]
    margin = sum(axis.pad_begin * elements for axis, elements in zip(axes, inner, strict=True))
    inputs = tuple(axis.input for axis in axes)
    layout = list(sizes)
    kept: list[slice] = []
    passes = []
    for i, axis in reversed(list(enumerate(axes))):
        keep = slice(0, (axis.output - 1) * axis.stride + 1, axis.stride)
        shifts = tuple(taps * axis.dilation * prod(layout[i + 1 :]) for taps in _shifts(axis.kernel))
        is_along_rows = i == len(axes) - 1
        drops = is_along_rows and axis.stride > 1
        if shifts:
            if drops and layout[i] % axis.stride == 0:
                keep = slice(0, layout[i], axis.stride)  # also what may be left after the outputs: rows stay one run
            passes.append(Pass(shifts, is_along_rows, keep if drops else None))
            if drops:
                layout[i], keep = len(range(layout[i])[keep]), slice(0, axis.output)
        kept.insert(0, keep)
    return Layout(inputs, tuple(sizes), margin, axes[-1].pad_begin, tuple(passes), tuple(layout), (slice(None), *kept))


def _shifts(kernel: int) -> list[int]:
    """Taps between the two windows that make a larger one; the two of the last may overlap.

    >>> _shifts(1), _shifts(4), _shifts(13)
    ([], [1, 2], [1, 2, 4, 5])
    """
    shifts, width = [], 1
    while width < kernel:
        shifts.append(min(width, kernel - width))
        width += shifts[-1]
    return shifts


def clipped(axis: Axis) -> int:
    """How many outputs, the first ones, have a window that begins before the input."""
    return min(axis.output, max(0, -(-axis.pad_begin // axis.stride)))


def first_taps(axis: Axis, outputs: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Input position of the first tap of these outputs that is no padding (0 if all are), and whether all are."""
    origin = outputs * axis.stride - axis.pad_begin
    tap = np.maximum(0, -(origin // axis.dilation))  # a ceiling: the first tap at a position >= 0
    position = origin + tap * axis.dilation
    is_empty = (tap >= axis.kernel) | (position >= axis.input)
    return np.where(is_empty, 0, position), is_empty
