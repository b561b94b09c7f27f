"""How much memory outputs may take: a slip in an attribute can ask for more than there is."""

from collections.abc import Sequence
from contextlib import suppress
from math import prod
import operator
import os
from pathlib import Path

from maxpool_ort.errors import MaxPoolError, MemoryLimitError

__all__ = ["check_memory", "get_memory_limit", "set_memory_limit"]

VARIABLE = "MAXPOOL_ORT_MEMORY_LIMIT"
_CGROUP = Path("/sys/fs/cgroup/memory.max")
_UNKNOWN = 64 * 2**30
"""Where the system does not tell how much memory it has."""

_limit: int | None = None


def set_memory_limit(n: int) -> None:
    """Refuse each MaxPool whose outputs take more than n bytes.

    Raises
    ------
    MaxPoolError
        If n is not an integer >= 0.

    Examples
    --------
    >>> before = get_memory_limit()
    >>> set_memory_limit(2**30)
    >>> get_memory_limit()
    1073741824
    >>> set_memory_limit(before)
    """
    global _limit  # noqa: PLW0603 (one setting for the process)
    _limit = _bytes(n, "the memory limit")


def get_memory_limit() -> int:
    """How many bytes the outputs of a MaxPool may take.

    What ``set_memory_limit`` was given; else the environment variable ``MAXPOOL_ORT_MEMORY_LIMIT``; else all the memory
    that this machine, or this container, has.

    Raises
    ------
    MaxPoolError
        If the environment variable is not an integer >= 0.

    Examples
    --------
    >>> get_memory_limit() > 0
    True
    """
    global _limit  # noqa: PLW0603
    if _limit is None:
        text = os.environ.get(VARIABLE)
        value = int(text) if text and text.isdecimal() else text
        _limit = _bytes(value, f"the environment variable {VARIABLE}") if text else _all()
    return _limit


def _bytes(value: object, what: str) -> int:
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # it may be anything
    except TypeError:
        number = -1
    if number < 0:
        raise MaxPoolError(f"{what} must be an integer >= 0, of bytes, got {value!r}")
    return number


def _all() -> int:
    try:
        limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, ValueError, OSError):
        limits = [_UNKNOWN]
    with suppress(OSError, ValueError):  # there is none, or it says "max"
        limits.append(int(_CGROUP.read_text(encoding="ascii")))
    return min(limits)


def _size(count: int) -> str:
    """Bytes for a message.

    >>> _size(3 * 2**29), _size(2**30 - 1), _size(2**5000)
    ('1.5 GiB', '1,073,741,823 bytes', 'more than 2**80 bytes')
    """
    if count > 2**80:  # it may be too large for a float
        return "more than 2**80 bytes"
    return f"{count / 2**30:,.1f} GiB" if count >= 2**30 else f"{count:,} bytes"


def check_memory(output_shape: Sequence[int], itemsize: int, *, with_indices: bool) -> None:
    """Refuse outputs that take more than the limit, before anything is allocated.

    Raises
    ------
    MemoryLimitError
        With the sizes.
    """
    needed = prod(output_shape) * (itemsize + 8 * with_indices)
    if needed > get_memory_limit():
        raise MemoryLimitError(
            f"outputs of shape {tuple(output_shape)} take {_size(needed)}, and the limit is "
            f"{_size(get_memory_limit())}; use smaller pads or larger strides, or raise the limit with "
            f"maxpool_ort.set_memory_limit or {VARIABLE}"
        )
    if prod(max(1, size) for size in output_shape) * max(itemsize, 8 * with_indices) >= 2**63:
        raise MemoryLimitError(
            f"outputs of shape {tuple(output_shape)} are empty, and NumPy has none whose other sizes are that large; "
            "use smaller pads or larger strides"
        )
