"""Where the maxima of windows lie, while the windows grow.

A step says for each window whether the later of the two that it joins has the greater maximum. Where the maximum lies
is then the maximum of the earlier one's place and of the later one's times 0 or 1, as the later one is greater: no
masked copy is needed, which would take ten times as long.

A place is first the number of a tap, counted from the start of its window: in elements of X where that takes no more
bytes than bits for each axis do, which are 8 in all for all but large windows. Once all that is left to do is at
stride 1, or done, places become positions in X.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxpool_ort.kernel.calls import INDICES, ORIGINS, Block, Calls, Key, copy, narrowed, part
from maxpool_ort.kernel.passes import Pass, Step
from maxpool_ort.kernel.positions import grid

__all__ = ["Places"]

Array = NDArray[Any]

_BOOL, _UINT8 = np.dtype(np.bool_), np.dtype(np.uint8)


class _Field(NamedTuple):
    """What one tap more along an axis is in numbers of taps, and in elements of X."""

    along: Pass
    unit: int
    weight: int

    def number(self, distance: Any) -> Any:
        """Of a tap at a distance along the axis."""
        return distance // self.along.dilation * self.unit


class Places:
    """Of the maxima of the windows of a block.

    Parameters
    ----------
    calls
        Where to note what has to be done.
    shape
        Of the block: (planes, D1, ..., Dr).
    strides
        Elements of X from one to the next along each spatial axis.
    passes
        All that there are to be.
    greater
        np.greater, or another function that says whether a later tap replaces an earlier one.

    Attributes
    ----------
    are_positions
        Whether places are positions, behind the first of a plane, rather than numbers of taps.
    """

    def __init__(
        self,
        calls: Calls,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        passes: Sequence[Pass],
        greater: Callable[..., Any],
    ) -> None:
        self.are_positions = False
        self._calls, self._shape, self._strides, self._greater = calls, shape, strides, greater
        self._places = self._made = np.empty(0, np.uint8)
        """Of the windows so far, and of those that a step makes."""
        self._are_zero = True
        self._adds_last_tap = False
        """Whether a step adds one tap to each window, in the first axis of which taps are numbered."""
        self._reach = 0
        """How far behind the beginning of a window its last tap lies, along that axis."""
        self._dtype = _UINT8
        last = sum((size - 1) * stride for size, stride in zip(shape[1:], strides, strict=True))
        self._position_dtype = np.min_scalar_type(last)
        bits = sum(along.taps.bit_length() for along in passes)
        reach = sum(along.taps * along.dilation * strides[along.number - 1] for along in passes)
        self._are_elements = reach < 1 << min(63, 8 * np.min_scalar_type((1 << bits) - 1).itemsize)
        """Whether numbers are of elements of X."""
        self._fields: list[_Field] = []
        self._anchors = [np.arange(size) for size in shape[1:]]
        """Where the windows grow from, along each axis."""

    def begin_pass(self, along: Pass) -> None:
        """Number taps along an axis."""
        if self.are_positions or not along.steps:
            return
        weight = along.dilation * self._strides[along.number - 1]
        unit = weight if self._are_elements else 1 << sum(field.along.taps.bit_length() for field in self._fields)
        self._fields.append(_Field(along, unit, weight))
        self._dtype = np.min_scalar_type(sum(field.along.taps * field.unit for field in self._fields))
        if not self._are_zero and self._places.dtype != self._dtype:
            places, self._places = self._places, self._next()
            self._calls.add(copy, places, out=self._places)  # else NumPy 1 adds small numbers in the smaller type

    def begin_step(self, step: Step) -> None:
        """Windows join others."""
        self._made = self._next()
        added = step.back + step.ahead
        is_first_axis = len(self._fields) == 1 and not self.are_positions
        self._adds_last_tap = is_first_axis and added == self._fields[0].along.dilation

    def join(self, windows: Key, joined: tuple[Key, Key], maxima: tuple[Any, Any], offsets: tuple[Any, Any]) -> None:
        """These windows are made of two each, the earlier and the later ones, of these maxima.

        ``offsets``: how far behind the beginnings of the windows these begin; integers, or one for each along the axis.
        """
        out = part(self._made, windows)
        moved = out if self._are_zero else self._calls.buffer("moved", out.shape, out.dtype)
        if self._adds_last_tap:  # which is the greatest of the later window where that is the greater
            self._choose(maxima, moved)
            number = self._numbers(offsets[1] + self._reach)
            if number.ndim or number != 1:
                self._calls.add(np.multiply, moved, number, out=moved)
        elif self.are_positions:
            self._choose(maxima, moved)
            self._calls.add(np.multiply, part(self._places, joined[1]), moved, out=moved)
        else:
            chosen = self._calls.buffer("chosen", out.shape, out.dtype)
            self._choose(maxima, chosen)
            self._calls.add(np.add, part(self._places, joined[1]), self._numbers(offsets[1]), out=moved)
            self._calls.add(np.multiply, moved, chosen, out=moved)
        if self._are_zero:
            return
        earlier = part(self._places, joined[0])
        if not self.are_positions and (number := self._numbers(offsets[0])).any():
            counted = self._calls.buffer("chosen", out.shape, out.dtype)
            self._calls.add(np.add, earlier, number, out=counted)
            earlier = counted
        self._calls.add(np.maximum, earlier, moved, out=out)

    def _choose(self, maxima: tuple[Any, Any], out: Array) -> None:
        """Put 1 where the later one is greater, else 0."""
        is_greater = out.view(_BOOL) if out.itemsize == 1 else self._calls.buffer("is greater", out.shape, _BOOL)
        self._calls.add(self._greater, *reversed(maxima), out=is_greater)
        if out.itemsize > 1:
            self._calls.add(copy, is_greater, out=out)

    def _numbers(self, offset: Any) -> Any:
        """Of the taps that lie so far behind the beginning of a window."""
        field = self._fields[-1]
        numbers = field.number(np.asarray(offset)).astype(self._dtype)
        if (numbers == numbers.flat[0]).all():
            return numbers.flat[0]
        return numbers.reshape(-1, *[1] * (len(self._shape) - 1 - field.along.number))

    def stay(self, windows: Key, earlier: Key, offset: Any) -> None:
        """These windows are what the earlier ones were, which begin so far behind them."""
        places = self._dtype.type(0) if self._are_zero else part(self._places, earlier)
        first = self._dtype.type(0) if self.are_positions else self._numbers(offset)
        if first.any():
            self._calls.add(np.add, places, first, out=part(self._made, windows))
        else:
            self._calls.add(copy, places, out=part(self._made, windows))

    def end_step(self, step: Step) -> None:
        """All have joined."""
        self._places, self._are_zero = self._made, False
        self._reach += step.back + step.ahead

    def take(self, kept: Block) -> None:
        """Leave all but these."""
        self._anchors = [anchors[part] for anchors, part in zip(self._anchors, kept[1:], strict=True)]
        self._shape = (self._shape[0], *map(len, self._anchors))
        if not self._are_zero:
            source, dtype = narrowed(self._places, kept)
            self._places = self._next()
            self._calls.add(copy, source, out=self._places.view(dtype))

    def locate(self) -> None:
        """From numbers of taps to positions: modulo what their type holds, since windows may begin before X."""
        numbers, self._dtype, self.are_positions = self._places, self._position_dtype, True
        back = sum(field.along.back * self._strides[field.along.number - 1] for field in self._fields)
        starts = grid(self._anchors, self._strides, self._dtype)
        np.subtract(starts, _wrapped(back, self._dtype), out=starts)
        if self._are_zero:
            self._places, self._are_zero = np.broadcast_to(starts, self._shape), False
            return
        self._places = positions = self._next()
        self._calls.add(copy, numbers, out=positions)
        if not self._are_elements:
            self._weigh(numbers, positions)
        self._calls.add(np.add, positions, starts, out=positions)

    def _weigh(self, numbers: Array, positions: Array) -> None:
        """From bits for each axis to elements of X: each axis with those after it, less what they have counted for."""
        before = 0
        for field in self._fields:
            counted, weight = positions, _wrapped(field.weight - before, self._dtype)
            if field.unit > 1:
                shift = numbers.dtype.type(field.unit.bit_length() - 1)
                shifted = self._calls.buffer("moved", numbers.shape, numbers.dtype)
                counted = self._calls.buffer("chosen", numbers.shape, self._dtype)
                self._calls.add(np.right_shift, numbers, shift, out=shifted)
                self._calls.add(copy, shifted, out=counted)
            if weight != 1:
                self._calls.add(np.multiply, counted, weight, out=counted)
            if field.unit > 1:
                self._calls.add(np.add, positions, counted, out=positions)
            before = field.weight << field.along.taps.bit_length()

    def put_out(self, kept: Block, origins: np.dtype[Any]) -> None:
        """Fill INDICES with the positions of these windows, behind ORIGINS, which are of this dtype."""
        positions = self._places[kept]
        wide = self._calls.buffer("chosen", positions.shape, origins)
        self._calls.add(copy, positions, out=wide)
        self._calls.add(np.add, wide, part(ORIGINS, ()), out=wide)
        self._calls.add(copy, wide, out=part(INDICES, ()))

    def _next(self) -> Array:
        return self._calls.next("places", self._shape, self._dtype)


def _wrapped(number: int, dtype: np.dtype[Any]) -> Any:
    """Modulo what the type holds."""
    return np.uint64(number % 2**64).astype(dtype)
