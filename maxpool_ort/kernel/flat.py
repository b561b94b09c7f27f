"""The passes over a piece that is laid out as one flat array, as a list of NumPy calls on buffers that stay.

A thread makes a program for blocks of one shape once and runs it on each: making the views takes longer than many of
the calls.

With Indices, a pass says for each window whether its later half has the greater maximum. A position is then the maximum
of the earlier half's and of the later half's times 0 or 1, as the later one is greater: no masked copy is needed, which
would take ten times as long. Along rows, the first pass, positions are counted from each window's start: that takes 8
bits for all but the longest windows. Then they become positions in X.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import cycle
from math import prod
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxpool_ort.kernel.plan import Layout
from maxpool_ort.kernel.positions import grid
from maxpool_ort.kernel.sortable import lowest
from maxpool_ort.kernel.workspace import Workspace

__all__ = ["Program", "greater_or_first_nan"]

Array = NDArray[Any]

_BOOL, _UINT8 = np.dtype(np.bool_), np.dtype(np.uint8)


class _Source:
    """A flat input that is not there before the program runs: a slice of it stays a slice."""

    def __getitem__(self, key: slice) -> slice:
        return key


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
        Whether the input is put into ``inputs``; if not, ``run`` is given an array of this layout.
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
        greater: Callable[..., Any],
    ) -> None:
        self._calls: list[tuple[Callable[..., object], tuple[Any, ...], Any]] = []
        self._turns: dict[str, Iterator[str]] = defaultdict(lambda: cycle("01"))
        self._greater = greater
        self._lowest = lowest(dtype) if layout.has_gaps else None
        self._workspace = workspace
        self._dtype = dtype
        self._size = layout.margin + planes * prod(layout.sizes)
        values: Any = _Source()
        if is_copied:
            self._source = values = workspace.array("source", (self._size,), dtype)
            inside = (slice(None), *map(slice, layout.inputs))
            self.inputs = values[layout.margin :].reshape(planes, *layout.sizes)[inside]
        self.origin = layout.pad_begin
        self._plan(layout, planes, values, None if strides is None else _window_starts(layout, planes, strides))

    def run(self, y: Array, x: Array | None = None) -> None:
        """Fill y, of any memory layout."""
        for function, arguments, out in self._calls:
            if x is not None and isinstance(arguments[0], slice):
                function(*[x[argument] for argument in arguments], out=out)
            else:
                function(*arguments, out=out)
        np.copyto(y.view(self._kept_dtype), self._kept, casting="unsafe")

    def clear(self) -> None:
        """Before ``inputs`` are put in, if others have used the buffer: fill the gaps."""
        if self._lowest is not None and self._workspace.owner is not self:
            self._source.fill(self._lowest)
        self._workspace.owner = self

    def _plan(self, layout: Layout, planes: int, values: Any, starts: Array | None) -> None:
        valid = self._size
        whole = valid // layout.sizes[-1] * layout.sizes[-1]  # without the margin of the first row
        positions = None if starts is None else starts.reshape(-1)
        for along in layout.passes:
            offsets = None
            valid = valid if along.is_along_rows else min(valid, whole)
            for shift in along.shifts:
                valid -= shift
                earlier, later = slice(0, valid), slice(shift, shift + valid)
                if positions is not None:
                    is_greater = self._workspace.array("is greater", (valid,), _BOOL)
                    self._add(self._greater, values[later], values[earlier], out=is_greater)
                    if along.is_along_rows:
                        offsets = self._plan_offsets(offsets, is_greater, shift, sum(along.shifts))
                    else:
                        positions = self._plan_positions(positions, is_greater, shift)
                maxima = self._next("values", self._size, self._dtype)
                self._add(np.maximum, values[earlier], values[later], out=maxima[earlier])
                values = maxima
            if along.is_along_rows and offsets is not None and starts is not None:
                positions = self._plan_starts(offsets, starts, along.keep)
            if along.keep is not None and along is not layout.passes[-1]:
                values = self._plan_keep("values", values, layout.sizes[-1], along.keep)
                valid = values.size
        self._kept, self._kept_dtype = _outputs(values, planes, layout)
        if positions is not None:
            self.positions = positions[: planes * prod(layout.outputs)].reshape(planes, *layout.outputs)[layout.kept]

    def _plan_offsets(self, offsets: Array | None, is_greater: Array, shift: int, largest: int) -> Array:
        """Offset of each maximum from the start of its window."""
        dtype = np.min_scalar_type(largest)
        valid = is_greater.size
        chosen = self._plan_integers(is_greater, dtype)
        out = self._next("offsets", self._size, dtype)
        if offsets is None:
            self._add(np.multiply, chosen, dtype.type(shift), out=out[:valid])
        else:
            moved = self._workspace.array("moved", (valid,), dtype)
            self._add(np.add, offsets[shift : shift + valid], dtype.type(shift), out=moved)
            self._add(np.multiply, moved, chosen, out=moved)
            self._add(np.maximum, offsets[:valid], moved, out=out[:valid])
        return out

    def _plan_positions(self, positions: Array, is_greater: Array, shift: int) -> Array:
        valid = is_greater.size
        chosen = self._plan_integers(is_greater, positions.dtype)
        out = self._next("positions", positions.size, positions.dtype)
        self._add(np.multiply, chosen, positions[shift : shift + valid], out=chosen)
        self._add(np.maximum, positions[:valid], chosen, out=out[:valid])
        return out

    def _plan_integers(self, is_true: Array, dtype: np.dtype[Any]) -> Array:
        """0 and 1, in place if they are bytes."""
        if dtype == _UINT8:
            return is_true.view(dtype)
        integers = self._workspace.array("integers", is_true.shape, dtype)
        self._add(_copy, is_true, out=integers)
        return integers

    def _plan_starts(self, offsets: Array, starts: Array, keep: slice | None) -> Array:
        """Offsets from the start of a window to positions."""
        if keep is not None:
            offsets = self._plan_keep("offsets", offsets, starts.shape[-1], keep)
            starts = np.ascontiguousarray(starts[:, keep])
        positions = self._next("positions", starts.size, starts.dtype)
        self._add(_copy, offsets[: starts.size], out=positions)
        self._add(np.add, positions, starts.reshape(-1), out=positions)
        return positions

    def _plan_keep(self, kind: str, array: Array, row: int, keep: slice) -> Array:
        """Some positions of each row, in an array of their own."""
        source, dtype = _narrowed(array[: array.size // row * row].reshape(-1, row), (slice(None), keep))
        out = self._next(kind, source.size, array.dtype)
        self._add(_copy, source, out=out.reshape(source.shape).view(dtype))
        return out

    def _next(self, kind: str, size: int, dtype: np.dtype[Any]) -> Array:
        """Two buffers by turns: what is made, and what it is made of."""
        return self._workspace.array(f"{kind} {next(self._turns[kind])}", (size,), dtype)

    def _add(self, function: Callable[..., object], *arguments: Any, out: Any) -> None:
        self._calls.append((function, arguments, out))


def greater_or_first_nan(later: Array, earlier: Array, out: Array) -> None:
    """np.greater in an order where NaN is the greatest and all NaN are equal."""
    np.logical_or(later > earlier, np.isnan(later) & ~np.isnan(earlier), out=out)


def _copy(array: Array, out: Array) -> None:
    np.copyto(out, array, casting="unsafe")


def _narrowed(array: Array, key: tuple[slice, ...]) -> tuple[Array, np.dtype[Any]]:
    """Part of a contiguous array, and integers of the size of its elements: it is cast to these.

    Every second, fourth or eighth element of a row is the low bytes of an integer that is as many times wider: NumPy
    casts 2 to 6 times faster than it copies elements that are not neighbours.
    """
    step, narrow = key[-1].step or 1, np.dtype(f"u{array.itemsize}")
    width = array.itemsize * step
    if step == 1 or width not in (2, 4, 8) or array.shape[-1] % step or sys.byteorder != "little":
        return array[key].view(narrow), narrow
    kept = (*key[:-1], slice(0, len(range(array.shape[-1])[key[-1]])))
    return array.view(f"u{width}")[kept], narrow


def _outputs(values: Array, planes: int, layout: Layout) -> tuple[Array, np.dtype[Any]]:
    """Where the maxima are that are outputs."""
    shape, kept, keep = layout.outputs, layout.kept, layout.passes[-1].keep
    if keep is not None:  # rows were the only axis to reduce: what the stride leaves out is still there
        count = kept[-1].stop
        shape, kept = layout.sizes, (*kept[:-1], slice(0, (count - 1) * keep.step + 1, keep.step))
    return _narrowed(values[: planes * prod(shape)].reshape(planes, *shape), kept)


def _window_starts(layout: Layout, planes: int, strides: tuple[int, ...]) -> Array:
    """Position in its plane of the start of each window along rows, counted so that the first is 0.

    Of all rows, of the margin too.

    In rows of gaps they are 0: positions of what may replace a gap must not be less.
    """
    *sizes, row = layout.sizes
    of_rows = np.zeros(layout.margin // row + planes * prod(sizes), np.int64)
    inside = (slice(None), *map(slice, layout.inputs[:-1]))
    of_rows[layout.margin // row :].reshape(planes, *sizes)[inside] = grid(
        [np.arange(count) for count in layout.inputs[:-1]], strides[:-1]
    )
    dtype = np.min_scalar_type(int(of_rows.max()) + row + layout.row_extent)
    return of_rows.astype(dtype)[:, np.newaxis] + np.arange(row, dtype=dtype)
