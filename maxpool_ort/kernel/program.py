"""The passes over a block of one shape, as calls of NumPy: which windows join which, and where the maxima are."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxpool_ort.kernel.calls import Y_AS_INTEGERS, Block, Calls, Key, X, Y, copy, narrowed, part
from maxpool_ort.kernel.passes import FEW_COPIED, Layout, Pass, Step
from maxpool_ort.kernel.places import Places
from maxpool_ort.kernel.sortable import lowest
from maxpool_ort.kernel.workspace import Workspace

__all__ = ["Program", "greater_or_first_nan"]

Array = NDArray[Any]

LONG_RUN = 2800
"""Elements: where runs of neighbours are shorter, NumPy copies arrays of several runs before it works on them."""


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
    origins
        Of what dtype these are that ``run`` is given; None likewise.
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
    """

    inputs: Array

    def __init__(
        self,
        workspace: Workspace,
        layout: Layout,
        planes: int,
        dtype: np.dtype[Any],
        strides: tuple[int, ...] | None,
        origins: np.dtype[Any] | None,
        is_copied: bool,
        is_one_run: bool,
        greater: Callable[..., Any],
    ) -> None:
        self.calls = Calls(workspace)
        self._workspace = workspace
        self._dtype = self._y_dtype = dtype
        self._puts_out = False
        """Whether the last step fills Y."""
        self._shape: tuple[int, ...] = (planes, *layout.sizes)
        self._kept: Block = (slice(None), *(slice(0, size) for size in layout.sizes))
        """Which windows go on, along each axis."""
        self._maxima: Array | int = X
        """Of the windows so far, or what is given that has them."""
        if is_copied:
            self._shape = (planes, *layout.sizes[:-1], layout.pitch)
            self._source = workspace.array("source", self._shape, dtype)
            self._maxima = self._source
            inside = (slice(None), *(slice(0, size) for size in layout.inputs))
            self.inputs = self._source[inside]
        places = None
        if strides is not None:
            places = Places(self.calls, self._shape, strides, layout.passes, greater)
        self._places = places
        for number, along in enumerate(layout.passes, start=1):
            rest = layout.passes[number:]
            self._kept = (*self._kept[: along.number], _slice(along.anchors), *self._kept[along.number + 1 :])
            if self._is_direct(along):
                self._pass_directly(along)
                continue
            self._pass(along, can_put_out=is_one_run and not rest)
            if not rest:
                self._put_out()
            elif along.anchors.step > 1:
                self._take(layout.pitch if any(each.is_along_rows for each in rest) else None)
            if places is not None and not places.are_positions and all(each.anchors.step == 1 for each in rest):
                if not (rest or self._is_whole()):
                    places.take(self._kept)
                    self._kept = (slice(None),) * len(self._shape)
                places.locate()
        if places is not None and origins is not None:
            places.put_out(self._kept, origins)

    def run(self, y: Array, x: Array | None = None, indices: Array | None = None, origins: Array | None = None) -> None:
        """Fill y, and indices if positions are wanted: ``origins`` is that of the first of each plane."""
        as_run = y.reshape(-1) if self._puts_out else None
        as_integers = None if self._puts_out else y.view(self._y_dtype)
        self.calls.do([x, None if x is None else x.reshape(-1), y, as_run, as_integers, indices, origins])

    def clear(self) -> None:
        """Before ``inputs`` are put in, if others have used the buffer: fill what lies behind them."""
        if self._source.size != self.inputs.size and self._workspace.owner is not self:
            self._source.fill(lowest(self._dtype))
        self._workspace.owner = self

    def _pass(self, along: Pass, *, can_put_out: bool) -> None:
        """Let windows grow along an axis, at all positions; those of the outputs go on."""
        if self._places is not None:
            self._places.begin_pass(along)
        is_padded = self._places is None and along.can_be_padded  # else the lowest would need a place
        for number, step in enumerate(along.steps, start=1):
            if is_padded and number == 2:
                self._pad(along)
            self._puts_out = can_put_out and self._is_whole() and number == len(along.steps)
            maxima = Y if self._puts_out else self.calls.next("maxima", self._shape, self._dtype)
            self._step(along, step, maxima, is_mended=number > 2 or not is_padded)

    def _pad(self, along: Pass) -> None:
        """Fill the last windows of two taps with the lowest."""
        start, stop = along.size - along.dilation, self._shape[along.number]
        together = 1 if along.is_along_rows and stop - start <= FEW_COPIED else stop - start
        for first in range(start, stop, together):
            keys = self._keys(along, range(first, first + together))
            self.calls.add(copy, lowest(self._dtype), out=part(self._maxima, keys[0]))

    def _is_whole(self) -> bool:
        """Whether all windows go on."""
        return all(part.indices(size) == (0, size, 1) for part, size in zip(self._kept, self._shape, strict=True))

    def _is_direct(self, along: Pass) -> bool:
        """Whether tap by tap, at the positions of the outputs only, is faster: where runs of neighbours are long."""
        if self._places is not None or along.is_along_rows or along.anchors.step == 1:
            return False
        is_less = 0 < along.taps <= len(along.steps) * along.anchors.step
        return is_less and prod(self._shape[along.number + 1 :]) >= LONG_RUN

    def _pass_directly(self, along: Pass) -> None:
        """Let windows grow tap by tap from their anchors, those of the outputs only."""
        before, source, count = (slice(None),) * along.number, self._maxima, len(along.anchors)
        self._shape = (*self._shape[: along.number], count, *self._shape[along.number + 1 :])
        self._kept = (*self._kept[: along.number], slice(0, count), *self._kept[along.number + 1 :])
        self._maxima = maxima = self.calls.next("maxima", self._shape, self._dtype)
        anchors = part(source, (*before, _slice(along.anchors)))
        joins = sorted(along.joins(), key=lambda join: -len(join[0]))
        are_all_joined = bool(joins) and len(joins[0][0]) == count
        if not are_all_joined:
            self.calls.add(copy, anchors, out=maxima)
        for number, (windows, taps) in enumerate(joins):
            out = part(maxima, (*before, _slice(windows)))
            earlier = anchors if are_all_joined and number == 0 else out
            self.calls.add(np.maximum, earlier, part(source, (*before, _slice(taps))), out=out)

    def _step(self, along: Pass, step: Step, maxima: Array | int, *, is_mended: bool) -> None:
        """Let each window join another one, or two others."""
        if self._places is not None:
            self._places.begin_step(step)
        size, inner = prod(self._shape), prod(self._shape[along.number + 1 :])
        before, behind = step.back * inner, step.ahead * inner
        if before + behind < size:
            joined = slice(0, size - before - behind), slice(before + behind, size)
            self._join(maxima, slice(before, size - behind), joined, (0, step.back + step.ahead))
        if before and not is_mended:
            first = slice(0, before)
            self.calls.add(copy, part(self._maxima, first), out=part(maxima, first))
        for mend in along.mends(step) if is_mended else ():
            starts = np.subtract(mend.windows, step.back)
            if mend.later is None:
                windows, earlier = self._keys(along, mend.windows, mend.earlier)
                self.calls.add(copy, part(self._maxima, earlier), out=part(maxima, windows))
                if self._places is not None:
                    self._places.stay(windows, earlier, np.subtract(mend.earlier, starts))
            else:
                windows, earlier, later = self._keys(along, mend.windows, mend.earlier, mend.later)
                offsets = np.subtract(mend.earlier, starts), np.subtract(mend.later, starts)
                self._join(maxima, windows, (earlier, later), offsets)
        self._maxima = maxima
        if self._places is not None:
            self._places.end_step(step)

    def _join(self, maxima: Array | int, windows: Key, joined: tuple[Key, Key], offsets: tuple[Any, Any]) -> None:
        """Make these windows of two each, which begin so far behind the beginnings of these windows."""
        earlier, later = (part(self._maxima, key) for key in joined)
        self.calls.add(np.maximum, earlier, later, out=part(maxima, windows))
        if self._places is not None:
            self._places.join(windows, joined, (earlier, later), offsets)

    def _keys(self, along: Pass, *parts: range) -> list[Key]:
        """Of positions along an axis; of single ones in rows as of one run, which takes less time than a block."""
        if along.is_along_rows and len(parts[0]) == 1:
            return [slice(part.start, None, self._shape[-1]) for part in parts]
        return [(slice(None),) * along.number + (_slice(part),) for part in parts]

    def _take(self, pitch: int | None) -> None:
        """Leave what does not go on, in rows of a pitch if there is one."""
        if self._places is not None:
            self._places.take(self._kept)
        counts = tuple(len(range(size)[part]) for part, size in zip(self._kept, self._shape, strict=True))
        kept: Block = tuple(slice(0, count) for count in counts)
        self._shape = counts if pitch is None else (*counts[:-1], pitch)
        maxima = self.calls.next("maxima", self._shape, self._dtype)
        if isinstance(self._maxima, int):
            self.calls.add(copy, part(self._maxima, self._kept), out=maxima[kept])
        else:
            source, dtype = narrowed(self._maxima, self._kept)
            self.calls.add(copy, source, out=maxima[kept].view(dtype))
        self._maxima, self._kept = maxima, kept

    def _put_out(self) -> None:
        """Fill Y, unless the last step does."""
        if not isinstance(self._maxima, int):
            source, self._y_dtype = narrowed(self._maxima, self._kept)
            self.calls.add(copy, source, out=part(Y_AS_INTEGERS, ()))
        elif self._maxima == X:
            self.calls.add(copy, part(X, self._kept), out=part(Y, ()))


def greater_or_first_nan(later: Array, earlier: Array, out: Array) -> None:
    """np.greater in an order where NaN is the greatest and all NaN are equal."""
    np.logical_or(later > earlier, np.isnan(later) & ~np.isnan(earlier), out=out)


def _slice(part: range) -> slice:
    return slice(part.start, part.stop, part.step)
