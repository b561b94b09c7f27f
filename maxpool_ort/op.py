"""Our operators in ONNX Runtime: the one importer of onnxruntime_extensions, and the one place for its PyOp's traps.

What is worked around here was read in ``pyop/pyfunc.cc`` and ``_ocos.py`` of microsoft/onnxruntime-extensions:

* An exception that leaves a body ends the process. The bodies catch everything; ``failures`` brings it to the caller.
* Outputs travel as ``r.shape`` and ``r.flatten().tolist()``, a Python object for each element. ``_Output`` hands over
  the array itself there, and it is copied at once.
* Only the item size of what comes back is checked. The kernel's arrays are C-contiguous and of the declared dtypes.
* An op type has one number of outputs and, for each registration, one dtype: two op types, four dtypes each.
* Importing it chooses, for all processes that are started from then on, protobuf's slow implementation in Python.
* Registering an op twice breaks all later sessions. What is registered is looked up in the library itself, which
  outlives a reload of this module.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
import logging
import os
import threading
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
import onnxruntime

from maxpool_ort import wire
from maxpool_ort.errors import MaxPoolError, MissingDependencyError
from maxpool_ort.failures import failed_shape
from maxpool_ort.interrupts import enter_body, leave_body
from maxpool_ort.kernel import Pooling
from maxpool_ort.limits import check_memory, get_memory_limit
from maxpool_ort.outputs import allocator
from maxpool_ort.schema import DOMAIN, OP_TYPE, OP_TYPE_WITH_INDICES, MaxPoolAttributes

_PROTOBUF = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"
_before = os.environ.get(_PROTOBUF)
try:
    from onnxruntime_extensions import Opdef, PyOp, get_library_path, onnx_op  # it sets what is put back below
except ImportError as error:
    _missing: ImportError | None = error
else:
    _missing = None
if _before is None:
    os.environ.pop(_PROTOBUF, None)
else:
    os.environ[_PROTOBUF] = _before

__all__ = ["Call", "define", "hand_over", "record_calls", "register"]

Array = NDArray[Any]

_ELEMENT_TYPES: dict[np.dtype[Any], str] = {
    np.dtype(np.float32): "dt_float",
    np.dtype(np.float64): "dt_double",
    np.dtype(np.int8): "dt_int8",
    np.dtype(np.uint8): "dt_uint8",
}
"""What PyOp calls them."""
_REGISTERED = "maxpool_ort.registered"
"""Config entry by which SessionOptions remember that they have our operators: adding them twice is an error."""


@dataclass(frozen=True)
class Call:
    """One execution of our operator: what it saw (float32 where a Cast stands before it) and the seconds it took."""

    node: str
    attributes: MaxPoolAttributes
    dtype: str
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    seconds: float
    with_indices: bool = False
    x: Array | None = None
    """What it was given, if that is recorded too."""


_log = logging.getLogger("maxpool_ort")
_registering = threading.RLock()
"""Operators that two threads register, or options that two add them to, would have them twice."""
_recorders: list[tuple[list[Call], bool]] = []


class _Output(np.ndarray[Any, Any]):
    """An array that hands itself over where PyOp asks for a list of Python objects."""

    def flatten(self, order: Any = "C") -> Any:  # noqa: ARG002 (NumPy's signature)
        return self

    def tolist(self) -> Any:
        return self.view(np.ndarray)


def _run(x: Array, node: str, attributes: str, *, with_indices: bool) -> tuple[Array, Array | None]:
    start = perf_counter()
    decoded, pooling = _prepared(attributes, x.shape, x.itemsize, get_memory_limit(), with_indices=with_indices)
    y, indices = pooling(x, allocator(with_indices=with_indices))
    if _recorders:
        call = Call(node, decoded, str(x.dtype), x.shape, y.shape, perf_counter() - start, with_indices)
        for calls, with_x in _recorders:
            calls.append(replace(call, x=x) if with_x else call)
    return y, indices


@lru_cache(maxsize=256)
def _prepared(
    attributes: str, shape: tuple[int, ...], itemsize: int, _limit: int, *, with_indices: bool
) -> tuple[MaxPoolAttributes, Pooling]:
    decoded = wire.decode(attributes)
    check_memory(decoded.output_shape(shape), itemsize, with_indices=with_indices)
    return decoded, Pooling(decoded.geometry(shape), shape, decoded.storage_order, with_indices=with_indices)


def _body(dtype: np.dtype[Any], *, with_indices: bool) -> Callable[..., Any]:
    def body(x: Array, **wired: str) -> Array | tuple[Array, Array]:
        y, indices, error = None, None, None
        try:
            try:
                enter_body()
                y, indices = _run(x, wired[wire.NODE], wired[wire.ATTRIBUTES], with_indices=with_indices)
                leave_body()
            except BaseException as caught:  # noqa: BLE001 (what leaves here ends the process)
                leave_body()
                error = caught
        except BaseException as caught:  # noqa: BLE001 (an interrupt, right there)
            error = caught
        if y is None or error is not None:
            shape = failed_shape(error or MaxPoolError("interrupted"), x, wired)
            y, indices = np.zeros(shape, dtype), np.zeros(shape, np.int64)
        return hand_over(y) if indices is None or not with_indices else (hand_over(y), hand_over(indices))

    return body


def hand_over(array: Array) -> Array:
    """An array that PyOp copies at once, rather than as a list of its elements."""
    return array.view(_Output) if _asks_for_tolist() else array


@lru_cache(maxsize=1)
def _asks_for_tolist() -> bool:
    """Whether this version of PyOp takes an output as ``flatten().tolist()``; said once if it does not."""
    y = np.ones((2, 3), np.float32).view(_Output)
    probe = Opdef("probe", lambda *_, **__: y)
    try:
        from onnxruntime_extensions._ocos import _on_pyop_invocation  # noqa: PLC0415 (it may be gone one day)

        Opdef._odlist[id(probe)] = probe  # noqa: SLF001 (there is no other way to have it called)
        probe.cast_attributes = lambda _: {}
        taken = _on_pyop_invocation(id(probe), [], {})[2]
    except Exception:  # noqa: BLE001 (whatever has changed)
        taken = None
    finally:
        Opdef._odlist.pop(id(probe), None)  # noqa: SLF001
    if type(taken) is np.ndarray and np.shares_memory(taken, y):
        return True
    _log.warning("this version of onnxruntime-extensions takes outputs another way: it will be right, and slow")
    return False


def register_operators() -> None:
    """Register our operators with onnxruntime-extensions, unless they are already."""
    if _missing is not None:
        raise MissingDependencyError(
            f"onnxruntime-extensions must be there to run in sessions, and cannot be imported: {_missing}; "
            "pip install onnxruntime-extensions"
        ) from _missing
    with _registering:
        if any(op.op_type.startswith(f"{DOMAIN}::") for op in list(Opdef._odlist.values())):  # noqa: SLF001 (the only list)
            return
        for with_indices in (False, True):
            for dtype in _ELEMENT_TYPES:
                define(DOMAIN, dtype, _body(dtype, with_indices=with_indices), with_indices=with_indices)


def define(domain: str, dtype: np.dtype[Any], body: Callable[..., Any], *, with_indices: bool) -> None:
    """Define MaxPool of a domain for one dtype, once in a process: ``body(x, **wired)`` returns Y, or Y and Indices."""
    element_type = getattr(PyOp, _ELEMENT_TYPES[dtype])
    onnx_op(
        op_type=f"{domain}::{OP_TYPE_WITH_INDICES if with_indices else OP_TYPE}",
        inputs=[element_type],
        outputs=[element_type, PyOp.dt_int64][: 1 + with_indices],
        attrs={wire.ATTRIBUTES: PyOp.dt_string, wire.NODE: PyOp.dt_string},
    )(body)


def register(session_options: onnxruntime.SessionOptions) -> None:
    """Let sessions made with these options run converted models; any number of times, for any number of sessions.

    It adds onnxruntime-extensions' library, which a session takes once: do not add it to the same options yourself.

    Raises
    ------
    MissingDependencyError
        If onnxruntime-extensions cannot be imported.
    TypeError
        If ``session_options`` is no ``onnxruntime.SessionOptions``.

    Examples
    --------
    >>> import onnxruntime
    >>> options = onnxruntime.SessionOptions()
    >>> register(options)
    """
    if not isinstance(session_options, onnxruntime.SessionOptions):
        raise TypeError(f"expected onnxruntime.SessionOptions, got {type(session_options).__name__}")
    register_operators()
    with _registering:
        try:
            session_options.get_session_config_entry(_REGISTERED)
        except RuntimeError:  # no such entry
            session_options.register_custom_ops_library(get_library_path())
            session_options.add_session_config_entry(_REGISTERED, "1")


@contextmanager
def record_calls(*, with_x: bool = False) -> Iterator[list[Call]]:
    """Collect what our operators do, in all sessions and threads, while the context is open; ``with_x``: and see.

    >>> with record_calls() as calls:
    ...     pass
    >>> calls
    []
    """
    calls: list[Call] = []
    _recorders.append((calls, with_x))
    try:
        yield calls
    finally:
        _recorders[:] = [recorder for recorder in _recorders if recorder[0] is not calls]
