"""What a thread keeps from call to call: fresh memory, and to make views of it, costs more than most of the work."""

from collections.abc import Callable, Hashable
from math import prod
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Workspace", "workspace"]

MOST_BYTES = 4 * 1024 * 1024
"""A larger buffer is not kept: a piece is that large only if a single window is."""
MOST_PROGRAMS = 32

_local = threading.local()


class Workspace:
    """Buffers by name, and what works in them.

    Attributes
    ----------
    owner
        Who has used the buffer named source last.
    """

    def __init__(self) -> None:
        self.owner: object = None
        self._buffers: dict[str, NDArray[np.uint8]] = {}
        self._programs: dict[Hashable, Any] = {}
        self._is_kept = True

    def array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """An uninitialized C-contiguous array, in the same memory as any other of this name."""
        size = prod(shape) * dtype.itemsize
        if size > MOST_BYTES:
            self._is_kept = False
            return np.empty(shape, dtype)
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < size:
            if buffer is not None:
                self._programs.clear()  # they would keep the smaller one
            buffer = self._buffers[name] = np.empty(size, np.uint8)
        made: NDArray[Any] = np.ndarray(shape, dtype, buffer)
        return made

    def program(self, make: Callable[..., Any], *arguments: Hashable) -> Any:
        """What ``make`` returns for these arguments; made again if it was not kept."""
        made = self._programs.get(arguments)
        if made is None:
            self._is_kept = True
            made = make(self, *arguments)
            if self._is_kept:
                if len(self._programs) == MOST_PROGRAMS:
                    del self._programs[next(iter(self._programs))]
                self._programs[arguments] = made
        return made


def workspace() -> Workspace:
    """That of this thread."""
    try:
        kept: Workspace = _local.workspace
    except AttributeError:
        kept = _local.workspace = Workspace()
    return kept
