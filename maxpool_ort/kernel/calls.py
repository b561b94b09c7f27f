"""NumPy's calls on buffers that stay: noted once for blocks of one shape, then done for each of them.

To make the views takes longer than many of the calls.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import cycle
import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxpool_ort.kernel.workspace import Workspace

__all__ = ["INDICES", "ORIGINS", "Y_AS_INTEGERS", "Block", "Calls", "Key", "X", "Y", "copy", "narrowed", "part"]

Array = NDArray[Any]
Block = tuple[slice, ...]
Key = slice | Block
"""Of a block; a slice by itself is of all its elements as one run."""

X, _X_AS_RUN, Y, _Y_AS_RUN, Y_AS_INTEGERS, INDICES, ORIGINS = range(7)
"""What is not there before the calls are done; a run is all elements in one row."""


class _Given(NamedTuple):
    """Part of one of these."""

    number: int
    key: Key


class Calls:
    """A list of calls, and the buffers of a thread that they work on."""

    def __init__(self, workspace: Workspace) -> None:
        self.buffer = workspace.array
        self._calls: list[tuple[Callable[..., object], tuple[Any, ...], Any, bool]] = []
        self._turns: dict[str, Iterator[str]] = defaultdict(lambda: cycle("01"))

    def next(self, kind: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Two buffers by turns: what is made, and what it is made of."""
        return self.buffer(f"{kind} {next(self._turns[kind])}", shape, dtype)

    def add(self, function: Callable[..., object], *arguments: Any, out: Any) -> None:
        """Note a call: of arrays, scalars and parts of what will be given."""
        arrays = tuple(np.asarray(each) if isinstance(each, np.generic) else each for each in arguments)  # in less time
        self._calls.append((function, arrays, out, any(isinstance(each, _Given) for each in (*arguments, out))))

    def do(self, given: list[Any]) -> None:
        """Do them all; ``given``: X to ORIGINS."""
        for function, arguments, out, has_given in self._calls:
            if has_given:
                parts = [given[each.number][each.key] if type(each) is _Given else each for each in (*arguments, out)]
                function(*parts[:-1], out=parts[-1])
            elif function is copy:
                out[...] = arguments[0]  # the same, in less time
            else:
                function(*arguments, out=out)


def copy(array: Array, out: Array) -> None:
    """Fill out, of any dtype."""
    out[...] = array


def part(of: Array | int, key: Key) -> Any:
    """Of a buffer, or of what will be given."""
    is_run = isinstance(key, slice)
    if isinstance(of, int):
        return _Given(of + is_run, key)
    return of.reshape(-1)[key] if is_run else of[key]


def narrowed(array: Array, key: Block) -> tuple[Array, np.dtype[Any]]:
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
