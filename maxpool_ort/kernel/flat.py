"""The passes over a piece that is laid out as one flat array, as a list of NumPy calls on buffers that stay.

A thread makes a program for blocks of one shape once and runs it on each: making the views takes longer than many of
the calls.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from math import prod
import sys
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxpool_ort.kernel.plan import Layout
from maxpool_ort.kernel.positions import grid
from maxpool_ort.kernel.scratch import scratch
from maxpool_ort.kernel.sortable import lowest

__all__ = ["Program", "greater_or_first_nan", "program_for"]

Array = NDArray[Any]
State = tuple[Any, ...]
"""Maxima, or maxima and their positions, each flat and of the same size."""

_BOOL = np.dtype(np.bool_)
_local = threading.local()


class _Source:
    """A flat input that is not there before the program runs: a slice of it is kept as a slice."""

    def __getitem__(self, key: slice) -> slice:
        return key


class Program:
    """Maxima of the windows of a block, and their positions in X if they are wanted.

    Parameters
    ----------
    layout, planes, dtype
        The block.
    strides
        Elements of X from one to the next along each axis of the block; None if positions are not wanted.
    is_copied
        Whether the input is put into ``inputs``; if not, ``run`` is given an array of this layout.
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
        layout: Layout,
        planes: int,
        dtype: np.dtype[Any],
        strides: tuple[int, ...] | None,
        is_copied: bool,
        greater: Callable[..., Any],
    ) -> None:
        self._calls: list[tuple[Callable[..., object], tuple[Any, ...], Any, bool]] = []
        self._greater = greater
        self._lowest = lowest(dtype) if layout.has_gaps else None
        self._buffer = scratch("source", (layout.margin + planes * prod(layout.sizes),), dtype)
        state: State = (_Source(),)
        if is_copied:
            self.inputs = _inputs(self._buffer, layout, planes)
            state = (self._buffer,)
        if strides is not None:
            state = (*state, _first_positions(layout, planes, strides))
        self._dtypes = (dtype, state[-1].dtype) if strides is not None else (dtype,)
        self._turn = 0
        maxima, *positions = self._plan(layout, planes, state)
        self._kept, self._kept_dtype = _narrowed(maxima, layout.kept)
        self._positions = positions[0][layout.kept] if positions else None

    def run(self, y: Array, x: Array | None = None) -> Array | None:
        """Fill y, of any memory layout; return positions, which stay until the next run, if they are wanted."""
        for function, arguments, out, is_open in self._calls:
            if is_open:
                arguments = tuple([x[a] if isinstance(a, slice) else a for a in arguments])
            function(*arguments, out=out)
        np.copyto(y.view(self._kept_dtype), self._kept, casting="unsafe")
        return self._positions

    def clear(self) -> None:
        """Before ``inputs`` are put in, if others have used the buffer: fill the gaps."""
        owner = _local.__dict__
        if self._lowest is not None and owner.get("owner") is not self:
            self._buffer.fill(self._lowest)
        owner["owner"] = self

    def _plan(self, layout: Layout, planes: int, state: State) -> State:
        size = valid = self._buffer.size
        for along in layout.passes:
            for shift in along.shifts:
                valid -= shift
                made = self._next(size)
                self._combine(
                    [array[0:valid] for array in state],
                    [array[shift : shift + valid] for array in state],
                    [array[0:valid] for array in made],
                )
                state = made
            if along.keep is not None:
                rows, kept = size // along.row, len(range(along.row)[along.keep])
                made = self._next(rows * kept)
                for array, out in zip(state, made, strict=True):
                    source, dtype = _narrowed(array[: rows * along.row].reshape(rows, along.row), (slice(None), along.keep))
                    self._add(_copy, source, out=out.reshape(rows, kept).view(dtype))
                state, size, valid = made, rows * kept, rows * kept
        shape = (planes, *layout.outputs)
        return tuple(array[: prod(shape)].reshape(shape) for array in state)

    def _next(self, size: int) -> State:
        """Two buffers by turns: what is made, and what it is made of."""
        self._turn ^= 1
        return tuple(scratch(f"{self._turn} {i}", (size,), dtype) for i, dtype in enumerate(self._dtypes))

    def _add(self, function: Callable[..., object], *arguments: Any, out: Any) -> None:
        self._calls.append((function, arguments, out, any(isinstance(argument, slice) for argument in arguments)))

    def _combine(self, earlier: list[Any], later: list[Any], out: list[Array]) -> None:
        """The greater of two; with positions, the later one where it is greater.

        Its position is greater then too. So the position is the maximum of the earlier one and of the later one times
        whether the later is greater: no masked copy, which would take ten times as long.
        """
        if len(out) == 2:
            is_greater = scratch("is greater", out[0].shape, _BOOL)
            replacing = scratch("replacing", out[1].shape, out[1].dtype)
            self._add(self._greater, later[0], earlier[0], out=is_greater)
            self._add(_copy, is_greater, out=replacing)
            self._add(np.multiply, replacing, later[1], out=replacing)
            self._add(np.maximum, earlier[1], replacing, out=out[1])
        self._add(np.maximum, earlier[0], later[0], out=out[0])


def greater_or_first_nan(later: Array, earlier: Array, out: Array) -> None:
    """np.greater in an order where NaN is the greatest and all NaN are equal."""
    np.logical_or(later > earlier, np.isnan(later) & ~np.isnan(earlier), out=out)


def program_for(*arguments: Any) -> Program:
    """A program of this thread."""
    try:
        programs = _local.programs
    except AttributeError:
        programs = _local.programs = lru_cache(maxsize=32)(Program)
    return programs(*arguments)


def _copy(array: Array, out: Array) -> None:
    np.copyto(out, array, casting="unsafe")


def _narrowed(array: Array, key: tuple[slice, ...]) -> tuple[Array, np.dtype[Any]]:
    """Part of a contiguous array, as a dtype to cast to; the bytes then are those of the part.

    To take every second, fourth or eighth element out of a row is to cast integers that are as many times wider, of
    which the low bytes come first: NumPy does that 2 to 6 times faster.
    """
    step, width = key[-1].step or 1, array.itemsize * (key[-1].step or 1)
    narrow = np.dtype(f"u{array.itemsize}")
    if step == 1 or width > 8 or step & (step - 1) or array.shape[-1] % step or sys.byteorder != "little":
        return array[key].view(narrow), narrow
    count = len(range(array.shape[-1])[key[-1]])
    return array.view(f"u{width}")[(*key[:-1], slice(0, count))], narrow


def _inputs(buffer: Array, layout: Layout, planes: int) -> Array:
    """The view of a layout in which the inputs are."""
    array = buffer[layout.margin :].reshape(planes, *layout.sizes)
    return array[(slice(None), *map(slice, layout.inputs))]


def _first_positions(layout: Layout, planes: int, strides: tuple[int, ...]) -> Array:
    positions = grid([np.arange(count) for count in (planes, *layout.inputs)], strides)
    dtype = np.min_scalar_type(positions.max())
    if not layout.has_gaps and positions.flat[-1] == positions.size - 1:
        return _arange(1 << (positions.size - 1).bit_length(), dtype)[: positions.size]
    buffer = np.zeros(layout.margin + planes * prod(layout.sizes), dtype)
    _inputs(buffer, layout, planes)[...] = positions
    return buffer


@lru_cache(maxsize=4)
def _arange(size: int, dtype: np.dtype[Any]) -> Array:
    return np.arange(size, dtype=dtype)
