"""Buffers that a thread keeps from call to call: fresh memory costs more than the work that is done in it."""

from math import prod
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["KEPT_BYTES", "scratch"]

KEPT_BYTES = 3 * 1024 * 1024
"""Size of a buffer; what is never written takes no memory. Who needs a larger one gets one of their own."""

_kept = threading.local()


def scratch(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An uninitialized C-contiguous array, in the same memory as any other of this name in this thread."""
    if prod(shape) * dtype.itemsize > KEPT_BYTES:
        return np.empty(shape, dtype)
    buffer = _kept.__dict__.get(name)
    if buffer is None:
        buffer = _kept.__dict__[name] = np.empty(KEPT_BYTES, np.uint8)
    return np.ndarray(shape, dtype, buffer)
