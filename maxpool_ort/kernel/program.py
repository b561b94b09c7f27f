"""The passes over a block, as a list of NumPy calls on buffers that stay.

A thread makes a program for blocks of one shape once and runs it on each: making the views takes longer than many of
the calls.

With Indices, a step says for each window whether the later of the two that it joins has the greater maximum. A position
is then the maximum of the earlier one's and of the later one's times 0 or 1, as the later one is greater: no masked
copy is needed, which would take ten times as long. Along rows, the first pass, positions are counted from each window's
start: that takes 8 bits for all but the longest windows. Then they become positions in X.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import cycle
from math import prod
import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxpool_ort.kernel.passes import Layout, Pass
from maxpool_ort.kernel.positions import grid
from maxpool_ort.kernel.sortable import lowest
from maxpool_ort.kernel.workspace import Workspace

__all__ = ["Program", "greater_or_first_nan"]

Array = NDArray[Any]
Block = tuple[slice, ...]
Key = slice | Block
"""Of a block; a slice by itself is of all its elements as one run."""

_BOOL, _UINT8 = np.dtype(np.bool_), np.dtype(np.uint8)

_X, _X_AS_RUN, _Y, _Y_AS_RUN, _Y_AS_INTEGERS = range(5)
"""What is not there before a program runs: X and Y; a run is all elements in one row."""


class _Given(NamedTuple):
    """Part of one of these."""

    number: int
    key: Key


class _Made(NamedTuple):
    """What a step makes: the maxima of these windows, and their offsets or positions if they are wanted."""

    maxima: Array | int
    indices: Array | None
    windows: Key


class Program:
    """Maxima of the windows of a block, and their positions in X if they are wanted.

    Parameters
    ----------
    workspace
        Where the buffers are.
    layout, planes, dtype
        The block.
    strides
        Elements of X from one to the next along each spatial axis; None if positions are not wanted.
    is_copied
        Whether the input is put into ``inputs``; if not, ``run`` is given it, C-contiguous.
    is_one_run
        Whether the Y that ``run`` is given is C-contiguous.
    greater
        np.greater, or another function that says whether a later tap replaces an earlier one.

    Attributes
    ----------
    inputs
        Where to put the input, if it is copied.
    positions
        After a run, if they are wanted: where in its plane each maximum is; ``origin`` is where the first input is.
    """

    inputs: Array
    positions: Array
    origin: int

    def __init__(
        self,
        workspace: Workspace,
        layout: Layout,
        planes: int,
        dtype: np.dtype[Any],
        strides: tuple[int, ...] | None,
        is_copied: bool,
        is_one_run: bool,
        greater: Callable[..., Any],
    ) -> None:
        self._calls: list[tuple[Callable[..., object], tuple[Any, ...], Any, bool]] = []
        self._turns: dict[str, Iterator[str]] = defaultdict(lambda: cycle("01"))
        self._workspace = workspace
        self._dtype = self._y_dtype = dtype
        self._with_positions, self._greater = strides is not None, greater
        self._puts_out = False
        """Whether the last step fills Y."""
        self._shape: tuple[int, ...] = (planes, *layout.sizes)
        self._kept: Block = (slice(None), *(slice(0, size) for size in layout.sizes))
        """Which windows go on, along each axis."""
        self._maxima: Array | int = _X
        """Of the windows so far, or what is given that has them."""
        self._index: Array | None = None
        """Along rows: how far behind their windows' starts the maxima lie, None for 0. Then: where in X they lie."""
        self._index_dtype = np.dtype(np.uint8)
        if is_copied:
            self._shape = (planes, *layout.sizes[:-1], layout.pitch)
            self._source = workspace.array("source", self._shape, dtype)
            self._maxima = self._source
            inside = (slice(None), *(slice(0, size) for size in layout.inputs))
            self.inputs = self._source[inside]
        for number, along in enumerate(layout.passes, start=1):
            rest = layout.passes[number:]
            self._pass(along, can_put_out=is_one_run and not rest)
            is_taken = bool(rest) and along.anchors.step > 1
            if is_taken:
                self._take(layout.pitch if any(each.is_along_rows for each in rest) else None)
            if strides is not None and along.is_along_rows:
                self._leave_rows(along, strides, is_taken=is_taken)
        self._put_out()

    def run(self, y: Array, x: Array | None = None) -> None:
        """Fill y."""
        given: list[Any] = [x, None if x is None else x.reshape(-1), y, None, None]
        if self._puts_out:
            given[_Y_AS_RUN] = y.reshape(-1)
        else:
            given[_Y_AS_INTEGERS] = y.view(self._y_dtype)
        for function, arguments, out, has_given in self._calls:
            if has_given:
                parts = [given[each.number][each.key] if type(each) is _Given else each for each in (*arguments, out)]
                function(*parts[:-1], out=parts[-1])
            else:
                function(*arguments, out=out)

    def clear(self) -> None:
        """Before ``inputs`` are put in, if others have used the buffer: fill what lies behind them."""
        if self._source.size != self.inputs.size and self._workspace.owner is not self:
            self._source.fill(lowest(self._dtype))
        self._workspace.owner = self

    def _pass(self, along: Pass, *, can_put_out: bool) -> None:
        """Let windows grow along an axis, at all positions; those of the outputs go on."""
        self._kept = (*self._kept[: along.number], _slice(along.anchors), *self._kept[along.number + 1 :])
        is_whole = all(part.indices(size) == (0, size, 1) for part, size in zip(self._kept, self._shape, strict=True))
        if along.is_along_rows:
            self._index_dtype = _integers_to(sum(map(abs, along.steps)))
        for number, step in enumerate(along.steps, start=1):
            self._puts_out = can_put_out and is_whole and number == len(along.steps)
            self._step(along, step, _Y if self._puts_out else self._next("maxima", self._dtype))

    def _step(self, along: Pass, step: int, maxima: Array | int) -> None:
        """Let each window join another one."""
        index = self._next("index", self._index_dtype) if self._with_positions else None
        size, distance = prod(self._shape), abs(step) * prod(self._shape[along.number + 1 :])
        if distance < size:
            earlier, later = slice(0, size - distance), slice(distance, size)
            self._join(along, step, _Made(maxima, index, earlier if step > 0 else later), earlier, later)
        for mend in along.mends(step):
            windows, first = self._keys(along, mend.windows, mend.earlier)
            made = _Made(maxima, index, windows)
            if mend.is_joined:
                lag = abs(step) - np.subtract(mend.windows, mend.earlier)
                self._join(along, step, made, first, windows, lag if along.is_along_rows and lag.any() else None)
            else:
                self._stay(made, windows)
        self._maxima, self._index = maxima, index

    def _keys(self, along: Pass, *parts: range) -> list[Key]:
        """Of positions along an axis; of single ones in rows as of one run, which takes less time than a block."""
        if along.is_along_rows and len(parts[0]) == 1:
            return [slice(part.start, None, self._shape[-1]) for part in parts]
        return [(slice(None),) * along.number + (_slice(part),) for part in parts]

    def _stay(self, made: _Made, windows: Key) -> None:
        self._add(_copy, _part(self._maxima, windows), out=_part(made.maxima, windows))
        if made.indices is not None:
            index = np.uint8(0) if self._index is None else _part(self._index, windows)
            self._add(_copy, index, out=_part(made.indices, windows))

    def _join(
        self, along: Pass, step: int, made: _Made, earlier: Key, later: Key, lag: NDArray[np.intp] | None = None
    ) -> None:
        """Maxima of two windows each, and where they lie.

        ``lag``: how much less than ``step`` the later windows lie behind the earlier ones.
        """
        first, second = _part(self._maxima, earlier), _part(self._maxima, later)
        self._add(np.maximum, first, second, out=_part(made.maxima, made.windows))
        if made.indices is None:
            return
        out = _part(made.indices, made.windows)
        is_greater = self._workspace.array("is greater", out.shape, _BOOL)
        self._add(self._greater, second, first, out=is_greater)
        chosen = self._integers(is_greater, out.dtype)
        if self._index is None and lag is None:
            self._add(np.multiply, chosen, out.dtype.type(abs(step)), out=out)
            return
        of_earlier, of_later = (
            out.dtype.type(0) if self._index is None else _part(self._index, key) for key in (earlier, later)
        )
        moved = chosen
        if along.is_along_rows:
            moved = self._workspace.array("moved", out.shape, out.dtype)
            self._add(np.add, of_later, out.dtype.type(abs(step)), out=moved)
            self._add(np.multiply, moved, chosen, out=moved)
        else:
            self._add(np.multiply, of_later, chosen, out=moved)
        if lag is not None:
            self._add(np.add, of_earlier, lag.astype(out.dtype), out=chosen)
            of_earlier = chosen
        self._add(np.maximum, of_earlier, moved, out=out)

    def _integers(self, is_true: Array, dtype: np.dtype[Any]) -> Array:
        """0 and 1, in place if they are bytes."""
        if dtype == _UINT8:
            return is_true.view(dtype)
        integers = self._workspace.array("integers", is_true.shape, dtype)
        self._add(_copy, is_true, out=integers)
        return integers

    def _put_out(self) -> None:
        """Leave positions, and fill Y unless the last step does."""
        if self._index is not None:
            self.positions = self._index[self._kept]
        if not isinstance(self._maxima, int):
            source, self._y_dtype = _narrowed(self._maxima, self._kept)
            self._add(_copy, source, out=_part(_Y_AS_INTEGERS, ()))
        elif self._maxima == _X:
            self._add(_copy, _part(_X, self._kept), out=_part(_Y, ()))

    def _take(self, pitch: int | None) -> None:
        """Leave what does not go on, in rows of a pitch if there is one."""
        counts = tuple(len(range(size)[part]) for part, size in zip(self._kept, self._shape, strict=True))
        kept: Block = tuple(slice(0, count) for count in counts)
        self._shape = counts if pitch is None else (*counts[:-1], pitch)
        maxima = self._next("maxima", self._dtype)
        if isinstance(self._maxima, int):
            self._add(_copy, _part(self._maxima, self._kept), out=maxima[kept])
        else:
            source, dtype = _narrowed(self._maxima, self._kept)
            self._add(_copy, source, out=maxima[kept].view(dtype))
        if self._index is not None:
            source, dtype = _narrowed(self._index, self._kept)
            self._index = self._next("index", self._index_dtype)
            self._add(_copy, source, out=self._index[kept].view(dtype))
        self._maxima, self._kept = maxima, kept

    def _leave_rows(self, along: Pass, strides: tuple[int, ...], *, is_taken: bool) -> None:
        """From offsets behind the starts of windows to positions, all counted from the start of the first window."""
        self.origin = -sum(step for step in along.steps if step < 0)
        columns = np.array(along.anchors) if is_taken else np.arange(self._shape[-1])
        starts: Array = grid([*map(np.arange, self._shape[1:-1]), columns], strides)
        starts = starts.astype(_integers_to(int(starts.max()) + sum(map(abs, along.steps))))
        self._index_dtype = starts.dtype
        if self._index is None:
            self._index = np.broadcast_to(starts, self._shape)
        else:
            positions = self._next("index", self._index_dtype)
            self._add(_copy, self._index, out=positions)
            self._add(np.add, positions, starts, out=positions)
            self._index = positions

    def _next(self, kind: str, dtype: np.dtype[Any]) -> Array:
        """Two buffers by turns: what is made, and what it is made of."""
        return self._workspace.array(f"{kind} {next(self._turns[kind])}", self._shape, dtype)

    def _add(self, function: Callable[..., object], *arguments: Any, out: Any) -> None:
        self._calls.append((function, arguments, out, any(isinstance(each, _Given) for each in (*arguments, out))))


def greater_or_first_nan(later: Array, earlier: Array, out: Array) -> None:
    """np.greater in an order where NaN is the greatest and all NaN are equal."""
    np.logical_or(later > earlier, np.isnan(later) & ~np.isnan(earlier), out=out)


def _integers_to(largest: int) -> np.dtype[Any]:
    """The smallest that hold up to this many, never uint64: with int64 it makes float64."""
    dtype = np.min_scalar_type(largest)
    return dtype if dtype.itemsize < 8 else np.dtype(np.int64)


def _copy(array: Array, out: Array) -> None:
    np.copyto(out, array, casting="unsafe")


def _slice(part: range) -> slice:
    return slice(part.start, part.stop, part.step)


def _part(of: Array | int, key: Key) -> Any:
    is_run = isinstance(key, slice)
    if isinstance(of, int):
        return _Given(of + is_run, key)
    return of.reshape(-1)[key] if is_run else of[key]


def _narrowed(array: Array, key: Block) -> tuple[Array, np.dtype[Any]]:
    """Part of a contiguous array, and integers of the size of its elements: it is cast to these.

    Every second, fourth or eighth element of a row is the low bytes of an integer that is as many times wider: NumPy
    casts 2 to 6 times faster than it copies elements that are not neighbours.
    """
    kept, narrow = key[-1], np.dtype(f"u{array.itemsize}")
    step = kept.step or 1
    width = array.itemsize * step
    if step == 1 or kept.start or width not in (2, 4, 8) or array.shape[-1] % step or sys.byteorder != "little":
        return array[key].view(narrow), narrow
    wide: Array = array.view(f"u{width}")
    in_wide = (*key[:-1], slice(0, -(-kept.stop // step)))
    return wide[in_wide], narrow
