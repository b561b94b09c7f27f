"""What a thread keeps from call to call: fresh memory, and to make views of it, costs more than most of the work."""

from collections.abc import Callable, Hashable
from math import prod
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Workspace", "thread_workspace"]

MOST_BYTES = 4 * 1024 * 1024
"""A larger buffer is not kept: a piece is that large only if a single window is."""
MOST_PROGRAMS = 32

_local = threading.local()


class Workspace:
    """Buffers by name, and what works in them: ``with thread_workspace() as space``.

    Attributes
    ----------
    owner
        Who has used the buffer named source last.
    is_busy
        Whether it is in use.
    """

    def __init__(self) -> None:
        self.owner: object = None
        self.is_busy = False
        self._buffers: dict[str, NDArray[np.uint8]] = {}
        self._large: dict[str, NDArray[np.uint8]] = {}
        """Those that are not kept, while what they are for is made."""
        self._programs: dict[Hashable, Any] = {}
        self._is_kept = True

    def __enter__(self) -> "Workspace":  # noqa: PYI034 (Self is newer than Python 3.10)
        self.is_busy = True
        return self

    def __exit__(self, *_: object) -> None:
        self._large.clear()
        self.is_busy = False

    def array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """An uninitialized C-contiguous array, in the same memory as any other of this name."""
        size = prod(shape) * dtype.itemsize
        if size > MOST_BYTES:
            self._is_kept = False
            if name not in self._large or self._large[name].size < size:
                self._large[name] = np.empty(size, np.uint8)
            large: NDArray[Any] = np.ndarray(shape, dtype, self._large[name])
            return large
        if name in self._buffers and self._buffers[name].size < size:
            self._programs.clear()  # they would keep the smaller one, and so would the owner
            self.owner = None
            del self._buffers[name]
        if name not in self._buffers:
            self._buffers[name] = np.empty(size, np.uint8)
        made: NDArray[Any] = np.ndarray(shape, dtype, self._buffers[name])
        return made

    def program(self, make: Callable[..., Any], *arguments: Hashable) -> Any:
        """What ``make`` returns for these arguments; made again if it was not kept."""
        made = self._programs.get(arguments)
        if made is None:
            self._is_kept = True
            self._large.clear()
            made = make(self, *arguments)
            if self._is_kept:
                if len(self._programs) == MOST_PROGRAMS:
                    del self._programs[next(iter(self._programs))]
                self._programs[arguments] = made
        return made


def thread_workspace() -> Workspace:
    """That of this thread; a new one if that is in use: by what a signal or a finalizer has interrupted."""
    try:
        kept: Workspace = _local.workspace
    except AttributeError:
        kept = _local.workspace = Workspace()
    return Workspace() if kept.is_busy else kept
