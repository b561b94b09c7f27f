"""What failed in our operators, and how it gets to the caller of ``run``, on whatever thread the operator ran.

An exception must not leave an operator. It is kept here under a number, and the operator puts out an array with one
axis too many, as long as the number says. The guard behind the node refuses it, and ONNX Runtime's exception tells its
shape: so each caller finds its own error.

An output that has its place already, since the caller of ``run_with_iobinding`` bound one, must have that shape, or the
process ends: there a failed operator puts out zeros, and the run is stopped.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
import logging
import re
import threading
from time import perf_counter_ns
from typing import Any

from numpy.typing import NDArray
import onnxruntime

from maxpool_ort import wire
from maxpool_ort.errors import MaxPoolError, MemoryLimitError
from maxpool_ort.interrupts import Deferred
from maxpool_ort.schema import HELPER_PREFIX

__all__ = ["failed_shape", "failure_of", "raising_failures", "telling_failures", "with_context"]

Array = NDArray[Any]

_MOST_FAILURES = 1000
"""That are kept at one time, each under a number from 2 on."""


@dataclass(frozen=True)
class _Failure:
    thread: int
    error: BaseException
    when: int = field(default_factory=perf_counter_ns)


_failures: dict[int, _Failure] = {}
_numbers = count()
_log = logging.getLogger("maxpool_ort")
_current = threading.local()
"""``run``: the run of a session of ours that this thread is in, if it is in one."""


def failed_shape(error: BaseException, x: Array, wired: dict[str, str]) -> tuple[int, ...]:
    """Keep an error, and return a shape to put out: one that no Y has, told by the guard that refuses it."""
    number = 2 + next(_numbers) % _MOST_FAILURES
    in_context = with_context(error, wired, x)
    _failures.pop(number, None)
    _failures[number] = _Failure(threading.get_ident(), in_context)
    run = getattr(_current, "run", None)
    if run is None:
        _log.error("a run failed: %s", in_context)
    else:
        run.stop()
        # What takes more memory than there is has no place anywhere.
        if run.has_places and not isinstance(error, MemoryLimitError):
            with suppress(MaxPoolError):  # the shape itself is what failed: a guard is there
                return wire.decode(wired[wire.ATTRIBUTES]).output_shape(x.shape)
    rank = wired[wire.ATTRIBUTES].partition(";")[0].count(",") + 3  # kernel_shape=k1,...,kr, if nothing is damaged
    return (*[1] * rank, number)


def with_context(error: BaseException, wired: dict[str, str], x: Array) -> BaseException:
    """The error as the caller of ``run`` shall see it: at which node, with which attributes, for which X."""
    if not isinstance(error, Exception):
        return error  # KeyboardInterrupt, SystemExit: not about the node
    reason = str(error) if isinstance(error, MaxPoolError) else f"{type(error).__name__}: {error}"
    kind = type(error) if isinstance(error, MaxPoolError) else MaxPoolError
    in_context = kind(f"{wired[wire.NODE]}: {reason} (X: {x.dtype} {x.shape}; {wired[wire.ATTRIBUTES]})")
    in_context.__cause__ = error
    return in_context


_TOLD = re.compile(re.escape(HELPER_PREFIX) + r".*Input shape:\{(?:1,)+(\d+)\}", re.DOTALL)
"""How the exception of a guard tells which failure it is about."""


def failure_of(error: BaseException | str) -> BaseException | None:
    """What failed in one of our operators, for an exception that a plain session's run raised, or for its text.

    None if it is about something else, or a thousand failures ago. ``maxpool_ort.InferenceSession`` raises the failure
    itself; where it cannot, in ``run_async``, the callback's text is one for which this gives it.

    >>> failure_of(ValueError("something else")) is None
    True
    """
    if isinstance(error, _Told):
        return error.failure
    told = _TOLD.search(str(error))
    failure = _failures.get(int(told.group(1))) if told else None
    return failure.error if failure else None


class _Told(str):
    """What ``run_async`` tells of a failure of ours, and that."""

    __slots__ = ("failure",)
    failure: BaseException


def telling_failures(callback: Callable[[Any, Any, str], Any]) -> Callable[[Any, Any, str], None]:
    """Let a callback of ``run_async`` be told what failed in one of our operators, and not what came of it."""
    start = perf_counter_ns()

    def tell(results: Any, user_data: Any, error: str) -> None:
        thread = threading.get_ident()  # that of the run, which begins after all that the thread did before
        failure = _first(thread, start) or failure_of(error)
        _forget(thread)
        if failure is not None:
            results, error = [], _Told(str(failure) or repr(failure))
            error.failure = failure
        callback(results, user_data, error)

    return tell


@contextmanager
def raising_failures(run_options: onnxruntime.RunOptions, *, has_places: bool = False) -> Iterator[None]:
    """Raise what failed in one of our operators during a run, or a signal's handler, in place of what came of it.

    ``has_places``: whether outputs may have their places before the run.
    """
    thread = threading.get_ident()
    _forget(thread)  # what a session that is not ours has left
    run = _Run(run_options, has_places=has_places)
    outer = getattr(_current, "run", None)
    _current.run = run
    try:
        with Deferred(run.stop):
            try:
                yield
            except Exception as error:
                failure = _first(thread) or failure_of(error)
                if failure is None:
                    raise
                raise failure from failure.__cause__
            failure = _first(thread)
            if failure is not None:
                raise failure
    finally:
        _current.run = outer
        if run.is_stopped:
            run_options.terminate = False
        _forget(thread)


class _Run:
    """A run of a session of ours, which can be stopped at its next node."""

    def __init__(self, options: onnxruntime.RunOptions, *, has_places: bool) -> None:
        self.options = options
        self.has_places = has_places
        self.is_stopped = False

    def stop(self) -> None:
        if not self.options.terminate:
            self.is_stopped = self.options.terminate = True


def _first(thread: int, start: int = 0) -> BaseException | None:
    """The first failure on a thread from a time on: where nodes have no guards, others may have followed from it."""
    failures = list(_failures.values())
    return next((failure.error for failure in failures if failure.thread == thread and failure.when >= start), None)


def _forget(thread: int) -> None:
    """Drop what failed on a thread."""
    for number, failure in list(_failures.items()):
        if failure.thread == thread:
            _failures.pop(number, None)
