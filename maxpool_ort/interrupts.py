"""Signals during a run: their handlers run at once, and what they raise waits for a place where it can do no harm.

An exception in the few lines of Python that PyOp runs around an operator's body ends the process, and a handler, such
as Python's own for Ctrl-C, may raise anywhere in the main thread. In a run of our session it raises inside a body, or
after the run, which is asked to stop at its next node.
"""

import _signal  # type: ignore[import-not-found]  # no stubs
from collections.abc import Callable
import signal
import threading
from types import FrameType
from typing import Any

__all__ = ["Deferred", "enter_body", "leave_body"]

Handler = Callable[[int, FrameType | None], Any]

_SIGNALS = [
    int(getattr(signal, name))
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGBREAK")
    if hasattr(signal, name)
]
"""Those for which programs have handlers in Python."""
# Those of the C module beneath: the ones in signal make enums of all they return, which takes longer than the work.
_get_handler: Callable[[int], Any] = _signal.getsignal
_set_handler: Callable[[int, Any], Any] = _signal.signal

_main = threading.main_thread()
_is_in_body = False
"""Whether the main thread is where an exception is caught."""


def enter_body() -> None:
    """From here on a handler may raise."""
    global _is_in_body  # noqa: PLW0603 (of the main thread, the only one that handlers run in)
    if threading.current_thread() is _main:
        _is_in_body = True


def leave_body() -> None:
    """From here on it may not."""
    global _is_in_body  # noqa: PLW0603
    if threading.current_thread() is _main:
        _is_in_body = False


class Deferred:
    """``with Deferred(stop)``: handlers in Python raise where it is safe, or else ``stop`` is called and raising waits.

    In other threads than the main one, where no handlers run, it does nothing.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._raised: list[BaseException] = []
        self._handlers: list[tuple[int, Handler, Handler]] = []

    def __enter__(self) -> None:
        if threading.current_thread() is _main:
            for number in _SIGNALS:
                handler = _get_handler(number)
                if callable(handler):
                    deferring = self._deferring(handler)
                    self._handlers.append((number, handler, deferring))
                    _set_handler(number, deferring)

    def __exit__(self, *_: object) -> None:
        for number, handler, deferring in self._handlers:
            if _get_handler(number) is deferring:  # else a handler has set another one
                _set_handler(number, handler)
        if self._raised:
            raise self._raised[0] from None

    def _deferring(self, handler: Handler) -> Handler:
        def handle(number: int, frame: FrameType | None) -> None:
            global _is_in_body  # noqa: PLW0603
            try:
                handler(number, frame)
            except BaseException as error:
                if _is_in_body:
                    _is_in_body = False  # at most once: the next one may strike where the first is being caught
                    raise
                self._raised.append(error)
                self._stop()

        return handle
