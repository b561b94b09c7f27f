"""How windows grow: the passes that lead from a block of X to its outputs, worked out once for a geometry.

A maximum is separable, one pass per spatial axis. In a pass, maxima of 2, 4, 8, ... taps each come from the maxima
before and the same moved on, so k taps cost ceil(log2 k) steps rather than k - 1.

Each step runs over the block as one run of elements: the windows of all positions at stride 1, at full speed however
short the rows are; those that cross the ends of rows, planes of rows and so on are mended after it.

No pads are laid out. A window grows from its anchor, a tap of it that lies in the input: forward to at least half of
its taps, then in one step to both sides; or, where there is less than half behind the anchors, forward to what there
is, and then back in several steps. If what a window would join begins before the input, it joins the one that begins at
the first position where a tap of it can be, which reaches far enough. If that begins behind the input, the window stays
as it is. Or, if many in a row would, they first grow as if the row went on, and in the step to both sides those that
end behind the input join the last one that ends in it. Windows of three, with a tap on both sides, need none of this
where no places are wanted: see ``can_be_padded``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxpool_ort.geometry import Axis

__all__ = ["Layout", "Mend", "Pass", "Step", "first_taps", "is_dense", "lay_out", "seen_outputs"]

WASTE = 8
"""How many times more operations on elements the passes may take than those of tap after tap, which cost more each."""
MOST_POSITIONS = 4
"""How many times more positions than inputs a block may be laid out with."""
FEW_COPIED, FEW_JOINED = 3, 8
"""Windows of a row that are mended one by one: a loop over all rows costs less than one in each row."""


class Step(NamedTuple):
    """Each window becomes the maximum of two: of the one so far back, and of the one so far ahead."""

    back: int
    ahead: int
    last: int | None = None
    """The last one that ends in the input, if others are to join it in place of those that end behind it."""


class Mend(NamedTuple):
    """Windows near an end of an axis, and those from before a step of which each is the maximum, as positions."""

    windows: range
    earlier: range
    """One for each, or one for all."""
    later: range | None
    """Likewise; None if the windows are as the earlier ones were."""


@dataclass(frozen=True)
class Pass:
    """How windows grow along one axis of a block (plane, D1, ..., Dr), from single positions to whole ones."""

    number: int
    """Of the axis; 1 for D1."""
    is_along_rows: bool
    size: int
    """Positions along it."""
    dilation: int
    steps: tuple[Step, ...]
    anchors: range
    """Positions from which the windows of the outputs grow."""
    is_clipped: bool
    """Whether windows stay as they are when what they would join begins behind the input."""

    @property
    def back(self) -> int:
        """How far before its anchor a whole window begins."""
        return sum(step.back for step in self.steps)

    @property
    def taps(self) -> int:
        """Of a whole window, but its anchor."""
        return sum(step.back + step.ahead for step in self.steps) // self.dilation

    @property
    def can_be_padded(self) -> bool:
        """Whether windows grow by one tap ahead, and then by one back.

        Before that, those of the last positions are of no use any more: filled with the lowest, they are padding,
        behind a row and before the next one.
        """
        return self.steps[:2] == (Step(0, self.dilation), Step(self.dilation, 0)) and self.size >= 2 * self.dilation

    def joins(self) -> Iterator[tuple[range, range]]:
        """For each of these taps: the windows of outputs, by number, that have it in the block, and where it lies."""
        forward, stride = self.taps * self.dilation - self.back, self.anchors.step
        for distance in [*range(-self.back, 0, self.dilation), *range(self.dilation, forward + 1, self.dilation)]:
            positions = _moved(self.anchors, distance)
            windows = range(
                max(0, -(positions.start // stride)), min(len(positions), -((positions.start - self.size) // stride))
            )
            if windows:
                yield windows, positions[windows.start : windows.stop]

    def mends(self, step: Step) -> Iterator[Mend]:
        """The windows for which there are not two whole ones to join in a step."""
        for windows, first in self._by_residues(min(self.size, step.back)):
            later = _moved(windows, step.ahead)
            yield Mend(windows, first, None if later == first else later)
        if step.last is not None:
            start = step.last - step.ahead + 1
            for numbers, residues in self._by_residues(self.anchors.stop - start):
                windows = _moved(numbers, start)
                yield Mend(windows, _moved(windows, -step.back), _moved(residues, step.last - self.dilation + 1))
        elif self.is_clipped and step.ahead:
            count = min(self.size, step.ahead)
            together = 1 if self.is_along_rows and count <= FEW_COPIED else count
            for start in range(self.size - count, self.size, together):
                windows = range(start, start + together)
                yield Mend(windows, _moved(windows, -step.back), None)

    def _by_residues(self, count: int) -> Iterator[tuple[range, range]]:
        """The numbers below count, by those that are mended together, and their residues modulo the dilation."""
        dilation = self.dilation
        is_few = self.is_along_rows and count <= FEW_JOINED
        if is_few or count > dilation**2:
            for first in range(count if is_few else dilation):
                residue = first % dilation
                yield range(first, count, count if is_few else dilation), range(residue, residue + 1)
        else:
            for start in range(0, count, dilation):
                numbers = range(start, min(count, start + dilation))
                yield numbers, range(len(numbers))


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
    steps = _steps(axis, is_along_rows=is_along_rows)
    return Pass(
        number=number,
        is_along_rows=is_along_rows,
        size=size,
        dilation=axis.dilation,
        steps=steps,
        anchors=anchors,
        is_clipped=anchors[-1] + (axis.kernel - 1 - back) * axis.dilation >= size
        and all(step.last is None for step in steps),
    )


def _steps(axis: Axis, *, is_along_rows: bool) -> tuple[Step, ...]:
    """First those forward, then those that join windows that begin before."""
    back, anchors = _anchors(axis)
    dilation, size = axis.dilation, _positions(axis)
    width = forward = axis.kernel - back
    is_inside = size >= axis.extent  # each window is, at one end at least
    if is_inside and axis.kernel == 5 and 0 < back < 4:  # by way of windows of three, whose ends can be padding
        return Step(0, dilation), Step(dilation, 0), Step((back - 1) * dilation, (3 - back) * dilation)
    if is_inside:
        width = min(forward, 1 << ((axis.kernel + 1) // 2 - 1).bit_length())
    ahead, last = (forward - width) * dilation, size - 1 - (width - 1) * dilation
    distances = [shift * dilation for shift in _shifts(axis.kernel, width)]
    is_many = is_inside and is_along_rows and width > FEW_JOINED
    is_cut = is_many and anchors[-1] + ahead - min(distances) <= last  # of the two that join, it is the later one
    return (
        *(Step(0, shift * dilation) for shift in _shifts(width)),
        *(Step(distance - ahead, ahead, last if is_cut else None) for distance in distances),
    )


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
    steps = sum(len(_steps(axis, is_along_rows=False)) for axis in axes) * size
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


def _moved(positions: range, distance: int) -> range:
    return range(positions.start + distance, positions.stop + distance, positions.step)


def first_taps(axis: Axis, outputs: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Input position of the first tap of these outputs that is no padding (0 if all are), and whether all are."""
    origin = outputs * axis.stride - axis.pad_begin
    tap = np.maximum(0, -(origin // axis.dilation))  # a ceiling: the first tap at a position >= 0
    position = origin + tap * axis.dilation
    is_empty = (tap >= axis.kernel) | (position >= axis.input)
    return np.where(is_empty, 0, position), is_empty
