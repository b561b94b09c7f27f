"""Pieces of work on several threads, of which there are none before the first large input.

Not ``concurrent.futures``: it takes twice as long to hand over a piece, and as long as a small one takes to do.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
import operator
import os
from queue import SimpleQueue
import sys
import threading
from typing import Any

from maxpool_ort.errors import MaxPoolError

__all__ = ["get_num_threads", "run_all", "set_num_threads"]

VARIABLE = "MAXPOOL_ORT_NUM_THREADS"

_lock = threading.Lock()
_chosen: int | None = None
_started = 0
_jobs: SimpleQueue[tuple[Callable[[], None], SimpleQueue[None]]] = SimpleQueue()


def set_num_threads(n: int) -> None:
    """Let each MaxPool use at most n threads, the one that calls it among them.

    Raises
    ------
    MaxPoolError
        If n is not an integer >= 1.

    Examples
    --------
    >>> before = get_num_threads()
    >>> set_num_threads(1)
    >>> get_num_threads()
    1
    >>> set_num_threads(before)
    """
    global _chosen  # noqa: PLW0603 (one setting for the process)
    _chosen = _count(n, "the number of threads")


def get_num_threads() -> int:
    """How many threads a MaxPool uses at most.

    What ``set_num_threads`` was given; else the environment variable ``MAXPOOL_ORT_NUM_THREADS``; else the number of
    processors that this process may run on.

    Raises
    ------
    MaxPoolError
        If the environment variable is not an integer >= 1.

    Examples
    --------
    >>> get_num_threads() >= 1
    True
    """
    if _chosen is not None:
        return _chosen
    text = os.environ.get(VARIABLE)
    if text:
        return _count(int(text) if text.isdecimal() else text, f"the environment variable {VARIABLE}")
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _count(value: Any, what: str) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        count = 0
    if count < 1:
        raise MaxPoolError(f"{what} must be an integer >= 1, got {value!r}")
    return count


def run_all(function: Callable[..., None], items: Sequence[tuple[Any, ...]], threads: int) -> None:
    """Call the function with each item, on this thread and ``threads - 1`` others; raise the first error, if any."""
    if min(threads, len(items)) == 1:
        for item in items:
            function(*item)
        return
    queue = deque(items)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            while queue:
                with suppress(IndexError):  # another thread has taken the last
                    item = queue.popleft()
                    function(*item)
        except BaseException as error:  # noqa: BLE001 (raised below, in the thread that called)
            errors.append(error)
            queue.clear()

    helpers = _start(min(threads, len(items)) - 1)
    done: SimpleQueue[None] = SimpleQueue()
    for _ in range(helpers):
        _jobs.put((work, done))
    work()
    for _ in range(helpers):
        done.get()
    if errors:
        raise errors[0]


def _start(count: int) -> int:
    """Have this many helping threads, of which those stay that were started before; return how many there are."""
    global _started  # noqa: PLW0603 (one for the process)
    if sys.is_finalizing():
        return 0
    with _lock, suppress(RuntimeError):  # no more threads are to be had
        while _started < count:
            threading.Thread(target=_help, name=f"maxpool_ort {_started}", daemon=True).start()
            _started += 1
    return min(count, _started)


def _help() -> None:
    jobs = _jobs
    while True:
        work, done = jobs.get()
        work()
        done.put(None)
        del work, done  # what they refer to


def _forget() -> None:
    """In a child process: its parent's threads are not there."""
    global _lock, _jobs, _started
    _lock, _jobs, _started = threading.Lock(), SimpleQueue(), 0


os.register_at_fork(after_in_child=_forget)
