"""How windows grow: the passes that lead from a block of X to its outputs, worked out once for a geometry.

A maximum is separable, one pass per spatial axis. In a pass, maxima of 2, 4, 8, ... taps each come from the maxima
before and the same moved on, so k taps cost ceil(log2 k) steps, or one more, rather than k - 1.

Each step runs over the block as one run of elements: the windows of all positions at stride 1, at full speed however
short the rows are; those that cross the ends of rows, planes of rows and so on are mended after it.

No pads are laid out. A window grows from its anchor, a tap of it that lies in the input: first forward to its last tap,
then back to its first. In a step forward, what it would join may lie behind the input: it ends there, and stays as it
is. In a step back, what it would join may begin before the input: then it joins the one that begins at the first
position where a tap of it can be, which reaches far enough.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from maxpool_ort.geometry import Axis

__all__ = ["Layout", "Mend", "Pass", "first_taps", "is_dense", "lay_out", "seen_outputs"]

WASTE = 8
"""How many times more operations on elements the passes may take than those of tap after tap, which cost more each."""
MOST_POSITIONS = 4
"""How many times more positions than inputs a block may be laid out with."""
FEW_COPIED, FEW_JOINED = 3, 8
"""Windows of a row that are mended one by one: a loop over all rows costs less than one in each row."""


@dataclass(frozen=True)
class Mend:
    """Windows near an end of an axis, and those from before a step of which each is the maximum, as positions."""

    windows: range
    earlier: range
    """One for each, or one for all."""
    is_joined: bool
    """Whether the other one is that which grew from the same position; or they stay as they were."""


@dataclass(frozen=True)
class Pass:
    """How windows grow along one axis of a block (plane, D1, ..., Dr), from single positions to whole ones."""

    number: int
    """Of the axis; 1 for D1."""
    is_along_rows: bool
    size: int
    """Positions along it."""
    dilation: int
    steps: tuple[int, ...]
    """How far on in the axis lies what each window joins; in steps back, negative."""
    anchors: range
    """Positions from which the windows of the outputs grow."""
    is_clipped: bool
    """Whether the window of the last output ends behind the input."""

    @property
    def taps(self) -> int:
        """Of a whole window, but its anchor."""
        return sum(map(abs, self.steps)) // self.dilation

    def joins(self) -> Iterator[tuple[range, range]]:
        """For each of these taps: the windows of outputs, by number, that have it in the block, and where it lies."""
        back, forward = (sum(max(0, sign * step) for step in self.steps) for sign in (-1, 1))
        stride = self.anchors.step
        for distance in [*range(-back, 0, self.dilation), *range(self.dilation, forward + 1, self.dilation)]:
            positions = range(self.anchors.start + distance, self.anchors.stop + distance, stride)
            windows = range(
                max(0, -(positions.start // stride)), min(len(positions), -((positions.start - self.size) // stride))
            )
            if windows:
                yield windows, positions[windows.start : windows.stop]

    def mends(self, step: int) -> Iterator[Mend]:
        """The windows for which there is no whole one to join in a step."""
        distance, dilation = min(self.size, abs(step)), self.dilation
        is_few = self.is_along_rows and distance <= (FEW_COPIED if step > 0 else FEW_JOINED)
        if step > 0:
            if self.is_clipped:
                windows = range(self.size - distance, self.size)
                for part in [windows[i : i + 1] for i in range(distance)] if is_few else [windows]:
                    yield Mend(part, part, is_joined=False)
        elif is_few or distance > dilation**2:
            for first in range(distance if is_few else dilation):
                start = first % dilation
                yield Mend(
                    range(distance)[first :: distance if is_few else dilation], range(start, start + 1), is_joined=True
                )
        else:
            for start in range(0, distance, dilation):
                windows = range(start, min(distance, start + dilation))
                yield Mend(windows, range(len(windows)), is_joined=True)


@dataclass(frozen=True, eq=False)
class Layout:
    """A block as one array."""

    inputs: tuple[int, ...]
    sizes: tuple[int, ...]
    """Positions along each spatial axis: inputs, and what is behind them where outputs have their anchors."""
    passes: tuple[Pass, ...]
    pitch: int
    """Of rows that are copied before the pass along them: short outputs are taken faster from whole strides."""
    outputs: tuple[slice, ...]
    """Those of a block of Y that this leads to: not those that see padding only, before or behind the input."""

    @property
    def has_gaps(self) -> bool:
        """Whether not all that the first pass works on are inputs."""
        return self.sizes != self.inputs or (self.passes[0].is_along_rows and self.pitch != self.sizes[-1])


def lay_out(axes: Sequence[Axis], itemsize: int, *, with_indices: bool) -> Layout:
    """Plan the passes over a block of elements of so many bytes."""
    passes = [_pass(number, axis, is_along_rows=number == len(axes)) for number, axis in enumerate(axes, start=1)]
    ordered = [along for along in passes if along.steps or along.anchors != range(along.size) or along.is_along_rows]
    if with_indices:
        ordered.reverse()  # of equals, the first in row-major order stays
    else:
        ordered.sort(key=lambda along: along.anchors.step == 1)  # first those that leave less to do
    rows, stride = passes[-1], axes[-1].stride
    return Layout(
        inputs=tuple(axis.input for axis in axes),
        sizes=tuple(along.size for along in passes),
        passes=tuple(ordered),
        pitch=-(-rows.size // stride) * stride if len(rows.anchors) > 1 and itemsize * stride <= 8 else rows.size,
        outputs=(slice(None), *map(seen_outputs, axes)),
    )


def _pass(number: int, axis: Axis, *, is_along_rows: bool) -> Pass:
    back, anchors = _anchors(axis)
    size = _positions(axis)
    return Pass(
        number=number,
        is_along_rows=is_along_rows,
        size=size,
        dilation=axis.dilation,
        steps=_steps(axis),
        anchors=anchors,
        is_clipped=anchors[-1] + (axis.kernel - 1 - back) * axis.dilation >= size,
    )


def _steps(axis: Axis) -> tuple[int, ...]:
    """First those forward, to all that lies behind the anchor; those back are negative."""
    forward = axis.kernel - _anchors(axis)[0]
    taps = *_shifts(forward), *(-shift for shift in _shifts(axis.kernel, forward))
    return tuple(tap * axis.dilation for tap in taps)


def _anchors(axis: Axis) -> tuple[int, range]:
    """For outputs that see some of the input: the tap that is each one's anchor, and where these are."""
    outputs = seen_outputs(axis)
    start = outputs.start * axis.stride - axis.pad_begin
    tap = max(0, -(start // axis.dilation))
    first = start + tap * axis.dilation
    return tap, range(first, first + (outputs.stop - outputs.start - 1) * axis.stride + 1, axis.stride)


def _positions(axis: Axis) -> int:
    """How many there have to be along an axis: inputs and anchors."""
    return max(axis.input, _anchors(axis)[1].stop)


def seen_outputs(axis: Axis) -> slice:
    """Outputs but those, the first and the last, whose windows end before the input or begin behind it."""
    before = min(axis.output, max(0, -((axis.extent - 1 - axis.pad_begin) // axis.stride)))
    behind = min(axis.output, max(before, -(-(axis.input + axis.pad_begin) // axis.stride)))
    return slice(before, behind)


def is_dense(axes: Sequence[Axis]) -> bool:
    """Whether these passes pay: not where most of what they do would be for positions without an output."""
    inputs = [axis.input for axis in axes]
    if any(axis.stop == axis.start for axis in map(seen_outputs, axes)):
        return False
    size = prod(map(_positions, axes))
    steps = sum(len(_steps(axis)) for axis in axes) * size
    by_taps = sum(len(axis.taps) * prod([*inputs[:i], *(a.output for a in axes[i:])]) for i, axis in enumerate(axes))
    is_numbered = sum((axis.kernel - 1).bit_length() for axis in axes) <= 64  # else no integers hold a tap's number
    return is_numbered and 0 < steps <= WASTE * by_taps and size <= MOST_POSITIONS * prod(inputs)


def _shifts(kernel: int, width: int = 1) -> list[int]:
    """Taps between the two windows of which larger ones are made, from one width to another; the last may overlap.

    >>> _shifts(1), _shifts(4), _shifts(13), _shifts(13, 7)
    ([], [1, 2], [1, 2, 4, 5], [6])
    """
    shifts = []
    while width < kernel:
        shifts.append(min(width, kernel - width))
        width += shifts[-1]
    return shifts


def first_taps(axis: Axis, outputs: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Input position of the first tap of these outputs that is no padding (0 if all are), and whether all are."""
    origin = outputs * axis.stride - axis.pad_begin
    tap = np.maximum(0, -(origin // axis.dilation))  # a ceiling: the first tap at a position >= 0
    position = origin + tap * axis.dilation
    is_empty = (tap >= axis.kernel) | (position >= axis.input)
    return np.where(is_empty, 0, position), is_empty
