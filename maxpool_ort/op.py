"""Our operators in ONNX Runtime: the one importer of onnxruntime_extensions, and the one place for its PyOp's traps.

What is worked around here was read in ``pyop/pyfunc.cc`` and ``_ocos.py`` of microsoft/onnxruntime-extensions:

* An exception that leaves a body ends the process. The bodies catch everything, keep it as a ``Failure``, and put out
  an array of rank 1, which the guard behind the node refuses.
* Outputs travel as ``r.shape`` and ``r.flatten().tolist()``, a Python object for each element. ``_Output`` hands over
  the array itself there, and it is copied at once.
* Only the item size of what comes back is checked. The kernel's arrays are C-contiguous and of the declared dtypes.
* An op type has one number of outputs and, for each registration, one dtype: two op types, four dtypes each.
* Registering an op twice breaks all later sessions. What is registered is looked up in the library itself, which
  outlives a reload of this module.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
import threading
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
import onnxruntime
from onnxruntime_extensions import Opdef, PyOp, get_library_path, onnx_op

from maxpool_ort import wire
from maxpool_ort.errors import MaxPoolError
from maxpool_ort.kernel import Pooling
from maxpool_ort.schema import DOMAIN, HELPER_PREFIX, OP_TYPE, OP_TYPE_WITH_INDICES, MaxPoolAttributes

__all__ = ["Call", "define", "hand_over", "raising_failures", "record_calls", "register"]

Array = NDArray[Any]

_ELEMENT_TYPES: dict[np.dtype[Any], Any] = {
    np.dtype(np.float32): PyOp.dt_float,
    np.dtype(np.float64): PyOp.dt_double,
    np.dtype(np.int8): PyOp.dt_int8,
    np.dtype(np.uint8): PyOp.dt_uint8,
}
_REGISTERED = "maxpool_ort.registered"
"""Config entry by which SessionOptions remember that they have our operators: adding them twice is an error."""
_FAILED_SHAPE = (1,)
"""Shape of what a failed body puts out: no MaxPool has an output of rank 1."""


@dataclass(frozen=True)
class Call:
    """One execution of our operator: what it saw (float32 where a Cast stands before it) and the seconds it took."""

    node: str
    attributes: MaxPoolAttributes
    dtype: str
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    seconds: float


@dataclass(frozen=True)
class _Failure:
    thread: int
    error: BaseException


_failures: deque[_Failure] = deque(maxlen=256)
_recorders: list[list[Call]] = []


class _Output(np.ndarray[Any, Any]):
    """An array that hands itself over where PyOp asks for a list of Python objects."""

    def flatten(self, order: Any = "C") -> Any:  # noqa: ARG002 (NumPy's signature)
        return self

    def tolist(self) -> Any:
        return self.view(np.ndarray)


def _run(x: Array, node: str, attributes: str, *, with_indices: bool) -> tuple[Array, Array | None]:
    start = perf_counter()
    decoded, pooling = _prepared(attributes, x.shape, with_indices=with_indices)
    y, indices = pooling(x)
    if _recorders:
        call = Call(node, decoded, str(x.dtype), x.shape, y.shape, perf_counter() - start)
        for recorder in _recorders:
            recorder.append(call)
    return y, indices


@lru_cache(maxsize=1024)
def _prepared(attributes: str, shape: tuple[int, ...], *, with_indices: bool) -> tuple[MaxPoolAttributes, Pooling]:
    decoded = wire.decode(attributes)
    return decoded, Pooling(decoded.geometry(shape), shape, decoded.storage_order, with_indices=with_indices)


def _body(dtype: np.dtype[Any], *, with_indices: bool) -> Callable[..., Any]:
    def body(x: Array, **wired: str) -> Array | tuple[Array, Array]:
        try:
            y, indices = _run(x, wired[wire.NODE], wired[wire.ATTRIBUTES], with_indices=with_indices)
        except BaseException as error:  # noqa: BLE001 (what leaves here ends the process)
            _failures.append(_Failure(threading.get_ident(), _with_context(error, wired, x)))
            y, indices = np.zeros(_FAILED_SHAPE, dtype), np.zeros(_FAILED_SHAPE, np.int64)
        return hand_over(y) if indices is None or not with_indices else (hand_over(y), hand_over(indices))

    return body


def hand_over(array: Array) -> Array:
    """An array that PyOp copies at once, rather than as a list of its elements."""
    return array.view(_Output)


def _with_context(error: BaseException, wired: dict[str, str], x: Array) -> BaseException:
    """The error as the caller of ``run`` shall see it: at which node, with which attributes, for which X."""
    if not isinstance(error, Exception):
        return error  # KeyboardInterrupt, SystemExit: not about the node
    reason = str(error) if isinstance(error, MaxPoolError) else f"{type(error).__name__}: {error}"
    kind = type(error) if isinstance(error, MaxPoolError) else MaxPoolError
    with_context = kind(f"{wired[wire.NODE]}: {reason} (X: {x.dtype} {x.shape}; {wired[wire.ATTRIBUTES]})")
    with_context.__cause__ = error
    return with_context


def register_operators() -> None:
    """Register our operators with onnxruntime-extensions, unless they are already."""
    if any(op.op_type.startswith(f"{DOMAIN}::") for op in Opdef._odlist.values()):  # noqa: SLF001 (there is no other list)
        return
    for with_indices in (False, True):
        for dtype in _ELEMENT_TYPES:
            define(DOMAIN, dtype, _body(dtype, with_indices=with_indices), with_indices=with_indices)


def define(domain: str, dtype: np.dtype[Any], body: Callable[..., Any], *, with_indices: bool) -> None:
    """Define MaxPool of a domain for one dtype, once in a process: ``body(x, **wired)`` returns Y, or Y and Indices."""
    element_type = _ELEMENT_TYPES[dtype]
    onnx_op(
        op_type=f"{domain}::{OP_TYPE_WITH_INDICES if with_indices else OP_TYPE}",
        inputs=[element_type],
        outputs=[element_type, PyOp.dt_int64][: 1 + with_indices],
        attrs={wire.ATTRIBUTES: PyOp.dt_string, wire.NODE: PyOp.dt_string},
    )(body)


def register(session_options: onnxruntime.SessionOptions) -> None:
    """Let sessions made with these options run converted models; any number of times, for any number of sessions.

    Raises
    ------
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
    try:
        session_options.get_session_config_entry(_REGISTERED)
    except RuntimeError:  # no such entry
        session_options.register_custom_ops_library(get_library_path())
        session_options.add_session_config_entry(_REGISTERED, "1")


@contextmanager
def record_calls() -> Iterator[list[Call]]:
    """Collect what our operators do, in all sessions and threads, while the context is open.

    >>> with record_calls() as calls:
    ...     pass
    >>> calls
    []
    """
    calls: list[Call] = []
    _recorders.append(calls)
    try:
        yield calls
    finally:
        _recorders[:] = [recorder for recorder in _recorders if recorder is not calls]


@contextmanager
def raising_failures() -> Iterator[None]:
    """Raise what failed in one of our operators during a run, in place of what ONNX Runtime made of it."""
    if _failures:
        _take_failure(in_any_thread=False)  # what a session that is not ours has left
    try:
        yield
    except Exception as error:
        # Parallel execution runs nodes in threads of its own; then the guard's name tells that a node of ours failed.
        failure = _take_failure(in_any_thread=HELPER_PREFIX in str(error))
        if failure is None:
            raise
        raise failure from failure.__cause__
    failure = _take_failure(in_any_thread=False) if _failures else None
    if failure is not None:
        raise failure


def _take_failure(*, in_any_thread: bool) -> BaseException | None:
    """Remove and return the latest failure, of this thread or else of any; and all others of this thread."""
    mine = [failure for failure in _failures if failure.thread == threading.get_ident()]
    for failure in mine:
        _failures.remove(failure)
    if mine:
        return mine[-1].error
    return _failures.pop().error if in_any_thread and _failures else None
