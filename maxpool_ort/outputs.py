"""Memory of large outputs, which the next run gets again: PyOp copies an output at once, and needs it no more.

A run that has no use for it gives it up, so that none lies idle beside its own outputs.

What the C library is given back it may give back to the system, which then fills it with zeros, page by page, for the
next run: up to a quarter of the time of one.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["allocator"]

LEAST_BYTES, MOST_BYTES = 1024 * 1024, 32 * 1024 * 1024
"""Of what is kept: smaller outputs the C library keeps by itself."""

MOST_UNUSED = 1024 * 1024
"""Bytes that a larger output has left."""

_kept: dict[int, NDArray[np.uint8]] = {}
"""For Y, 0, and Indices, 1. Each use of it is a single call, which no other thread can interrupt."""


class _Memory:
    """What an array and its views are in; kept once they are all gone."""

    def __init__(self, number: int, memory: NDArray[np.uint8]) -> None:
        self._number, self._memory = number, memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        _kept[self._number] = self._memory


def allocator(*, with_indices: bool) -> Callable[[tuple[int, ...], Any], NDArray[Any]]:
    """As np.empty, for the outputs of one run: first Y, then Indices."""
    memories = {number: _kept.pop(number, None) for number in (0, 1)}
    if not with_indices:
        del memories[1]

    def empty(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        number, needed = min(memories), prod(shape) * np.dtype(dtype).itemsize
        memory = memories.pop(number)
        if memory is not None and not needed <= memory.size <= needed + MOST_UNUSED:
            memory = None
        if not LEAST_BYTES <= needed <= MOST_BYTES:
            return np.empty(shape, dtype)
        if memory is None:
            memory = np.empty(needed, np.uint8)
        made: NDArray[Any] = np.asarray(_Memory(number, memory))[:needed].view(dtype).reshape(shape)
        return made

    return empty
