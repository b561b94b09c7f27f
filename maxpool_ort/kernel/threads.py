"""Pieces of work on several threads, of which there are none before the first large input."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
import operator
import os
import threading
from typing import Any

from maxpool_ort.errors import MaxPoolError

__all__ = ["get_num_threads", "run_all", "set_num_threads"]

VARIABLE = "MAXPOOL_ORT_NUM_THREADS"

_lock = threading.Lock()
_chosen: int | None = None
_executor: tuple[int, ThreadPoolExecutor] | None = None


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
    """
    if _chosen is not None:
        return _chosen
    text = os.environ.get(VARIABLE)
    if text:
        return _count(text, f"the environment variable {VARIABLE}")
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _count(value: Any, what: str) -> int:
    try:
        count = int(value) if isinstance(value, str) else operator.index(value)
    except (TypeError, ValueError):
        count = 0
    if count < 1:
        raise MaxPoolError(f"{what} must be an integer >= 1, got {value!r}")
    return count


def run_all(function: Callable[..., None], items: Sequence[tuple[Any, ...]], threads: int) -> None:
    """Call the function with each item, on this thread and ``threads - 1`` others; raise the first error, if any."""
    threads = min(threads, len(items))
    if threads < 2:
        for item in items:
            function(*item)
        return
    queue = deque(items)

    def work() -> None:
        with suppress(IndexError):
            while True:
                item = queue.popleft()
                function(*item)

    helpers = []
    try:
        with suppress(RuntimeError):  # the interpreter is ending: this thread does it all
            executor = _get_executor(threads - 1)
            helpers = [executor.submit(work) for _ in range(threads - 1)]
        work()
    finally:
        queue.clear()  # after an error
        wait(helpers)
    for helper in helpers:
        helper.result()


def _get_executor(workers: int) -> ThreadPoolExecutor:
    global _executor  # noqa: PLW0603 (one for the process)
    with _lock:
        if _executor is None or _executor[0] != workers:
            if _executor is not None:
                _executor[1].shutdown(wait=False)
            _executor = workers, ThreadPoolExecutor(workers, thread_name_prefix="maxpool_ort")
        return _executor[1]


def _forget() -> None:
    """In a child process: its parent's threads are not there."""
    global _lock, _executor
    _lock, _executor = threading.Lock(), None


os.register_at_fork(after_in_child=_forget)
