"""Memory of large outputs, which the next run gets again: PyOp copies an output at once, and needs it no more.

A run that has no use for it gives it up, so that none lies idle beside its own outputs.

What the C library is given back it may give back to the system, which then fills it with zeros, page by page, for the
next run: up to a quarter of the time of one.
"""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["allocator"]

LEAST_BYTES, MOST_BYTES = 1024 * 1024, 32 * 1024 * 1024
"""Of what is kept: smaller outputs the C library keeps by itself."""

MOST_UNUSED = 1024 * 1024
"""Bytes that a larger output has left."""


class _Memory(NamedTuple):
    """An array of bytes, and what it tells of itself, which takes longer to ask for than all else here."""

    array: NDArray[np.uint8]
    interface: dict[str, Any]


_kept: dict[int, _Memory] = {}
"""For Y, 0, and Indices, 1. Each use of it is a single call, which no other thread can interrupt."""


class _Lent:
    """What an array and its views are in; kept once they are all gone."""

    def __init__(self, number: int, memory: _Memory) -> None:
        self._number, self._memory = number, memory
        self.__array_interface__ = memory.interface

    def __del__(self) -> None:
        _kept[self._number] = self._memory


def allocator(*, with_indices: bool) -> Callable[[tuple[int, ...], Any], NDArray[Any]]:
    """As np.empty, for the outputs of one run: first Y, then Indices."""
    memories = [(number, _kept.pop(number, None)) for number in (1, 0)]  # of which the last is taken first
    if not with_indices:
        del memories[0]
    return partial(_empty, memories)


def _empty(memories: list[tuple[int, _Memory | None]], shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    needed = prod(shape) * np.dtype(dtype).itemsize
    number, memory = memories.pop()
    if memory is not None and not needed <= memory.array.size <= needed + MOST_UNUSED:
        memory = None
    if not LEAST_BYTES <= needed <= MOST_BYTES:
        return np.empty(shape, dtype)
    if memory is None:
        array = np.empty(needed, np.uint8)
        memory = _Memory(array, array.__array_interface__)
    made: NDArray[Any] = np.ndarray(shape, dtype, np.asarray(_Lent(number, memory)))
    return made
