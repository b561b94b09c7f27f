"""The benchmark: whole runs of a session against those of others, in one process and by turns.

A time counts only after both sides gave the same. Each side runs twice at its turn and the second run is timed, so that
neither meets the caches that the other has left.

With more than one thread, turns begin when the threads of the turn before have come to rest: those of ONNX Runtime look
for work for some 50 milliseconds, and take a processor meanwhile. Then a side runs until its own threads are at work,
which some virtual machines take as long for, and several runs are timed.

Each workload is measured in a process of its own, as an application has that runs one model. After hundreds of other
runs all take longer, ours more than ONNX Runtime's: perhaps since X and the outputs lie in memory of the C library.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import metadata
from itertools import cycle, groupby, islice, product
import math
import multiprocessing
import os
from pathlib import Path
import platform
import signal
from statistics import median
import threading
from time import perf_counter, sleep
import tracemalloc
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from maxpool_ort.errors import MaxPoolError
from maxpool_ort.kernel import get_num_threads, set_num_threads
from maxpool_ort.peers import CannotError, Side, array_side, our_side, peer_side
from maxpool_ort.workloads import Case, make_workload

__all__ = ["PAIRS", "REST_SECONDS", "Growth", "Result", "apart", "by_turns", "growth", "machine", "measure"]

Array = NDArray[Any]
T = TypeVar("T")

PAIRS = 15
FEWER_PAIRS = 3
SLOW_SECONDS = 0.5
"""A peer that takes longer is run in fewer pairs."""
REST_SECONDS = 0.1
SETTLE_SECONDS = 0.6
"""Of runs with several threads before all turns: until it is found out whether they pay."""
WARM_SECONDS = 0.1
AT_ONCE = 3
"""Runs of a turn with several threads that are timed."""


@dataclass(frozen=True)
class Result:
    """Medians in milliseconds; None, and a reason, where the peer cannot do it or gives something else."""

    workload: str
    dtype: str
    outputs: str
    threads: int
    peer: str
    ours_ms: float | None = None
    peer_ms: float | None = None
    pairs: int = 0
    reason: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times longer the peer takes."""
        return None if self.ours_ms is None or self.peer_ms is None else self.peer_ms / self.ours_ms


def apart(function: Callable[[Case], T], chosen: Sequence[Case]) -> Iterator[T]:
    """What a function of a module returns for each case; each workload, and number of threads, has a new process.

    Raises
    ------
    MaxPoolError
        If a process is ended from outside.
    """
    spawn = multiprocessing.get_context("spawn")
    for (threads, workload), group in groupby(chosen, key=lambda case: (case.threads, case.workload)):
        with ProcessPoolExecutor(1, spawn) as executor:
            process = executor.submit(os.getpid).result()
            try:
                for case in group:
                    yield executor.submit(function, case).result()
            except BrokenProcessPool as error:
                raise MaxPoolError(
                    f"{workload.name} (threads: {threads}) was not measured: its process was killed, for want of memory"
                    " perhaps; measure less at once with --workload, --dtype and --peer"
                ) from error
            except BaseException:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGTERM)  # rather than wait for it
                raise


def measure(case: Case, pairs: int = PAIRS) -> Result:
    """Compare one peer with us."""
    result = Result(case.workload.name, case.dtype, case.outputs, case.threads, case.peer)
    before = get_num_threads()
    set_num_threads(case.threads)
    try:
        x = case.x()
        try:
            theirs = peer_side(case, x)
            expected = theirs()
        except CannotError as error:
            return replace(result, reason=str(error))
        ours = array_side(case, x) if case.peer == "torch" else our_side(case, x)
        difference = _difference(ours(), expected, math.prod(case.workload.shape[2:]) if case.peer == "torch" else 0)
        if difference:
            return replace(result, reason=difference)
        ours_ms, peer_ms = by_turns([ours, theirs], pairs, case.threads)
        return replace(result, ours_ms=median(ours_ms), peer_ms=median(peer_ms), pairs=len(ours_ms))
    finally:
        set_num_threads(before)


def by_turns(sides: Sequence[Side], pairs: int, threads: int, timed: Sequence[Side] = ()) -> list[list[float]]:
    """Milliseconds of each side, ours first; of its runs that are ``timed``, if these are others."""
    are_slow = [_seconds(side) > SLOW_SECONDS for side in sides]
    at_once = min(pairs, AT_ONCE) if threads > 1 and not any(are_slow) else 1
    turns = (FEWER_PAIRS if any(are_slow) else pairs) // at_once
    if threads > 1:
        _run_for(SETTLE_SECONDS, sides[0])
    found: list[list[float]] = [[] for _ in sides]
    for order in islice(cycle((range(len(sides)), range(len(sides))[::-1])), turns):
        for number in order:
            if threads > 1:
                sleep(REST_SECONDS)
            if not are_slow[number]:
                _run_for(WARM_SECONDS if threads > 1 else 0, sides[number])
            found[number] += [_seconds((timed or sides)[number]) * 1e3 for _ in range(at_once)]
    return found


def _seconds(run: Side) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


def _run_for(seconds: float, run: Side) -> None:
    """Again and again, once at least."""
    end = perf_counter() + seconds
    run()
    while perf_counter() < end:
        run()


def _difference(ours: Sequence[Array], theirs: Sequence[Any], plane: int) -> str:
    """Where the peer's outputs are not ours, if they are; ``plane`` is what its Indices lack from plane to plane."""
    for name, mine, other in zip(("Y", "Indices"), ours, map(np.asarray, theirs), strict=False):
        if mine.dtype != other.dtype or mine.shape != other.shape:
            return f"its {name} is {other.dtype} {other.shape}, ours {mine.dtype} {mine.shape}"
        if name == "Indices" and plane:
            count = math.prod(mine.shape[:2])
            other = (other.reshape(count, -1) + np.arange(count)[:, np.newaxis] * plane).reshape(mine.shape)  # noqa: PLW2901
        if not np.array_equal(mine, other, equal_nan=True):
            return f"its {name} differs in {np.count_nonzero(mine != other)} of {mine.size} elements"
    return ""


@dataclass(frozen=True)
class Growth:
    """Time of a whole run on one thread, float32, and the memory that ``max_pool`` takes beside X and its outputs."""

    what: str
    outputs: str
    ms: float
    ns_per_output: float
    scratch_mib: float


def growth(pairs: int = PAIRS) -> Iterator[Growth]:
    """Windows of 3 and of 128 an axis; N, C and the spatial size over three decades; each of these by turns."""
    series = [
        [(f"window of {kernel}", (1, 8, 256, 256), kernel) for kernel in (3, 128)],
        [(f"N = {n}", (n, 8, 32, 32), 3) for n in (1, 10, 100, 1000)],
        [(f"C = {c}", (1, c, 32, 32), 3) for c in (8, 80, 800, 8000)],
        [(f"size {size} x {size}", (1, 8, size, size), 3) for size in (32, 101, 320, 1012)],
    ]
    before = get_num_threads()
    set_num_threads(1)
    try:
        for sizes, with_indices in product(series, (False, True)):
            workloads = [make_workload(*size, auto_pad="SAME_UPPER") for size in sizes]
            chosen = [Case(workload, "float32", with_indices, 1, "") for workload in workloads]
            sides = [our_side(case, case.x()) for case in chosen]
            times = by_turns(sides, pairs, 1)
            for case, ms in zip(chosen, map(median, times), strict=True):
                mib = _scratch_mib(array_side(case, case.x()))
                elements = math.prod(case.workload.shape)  # of X and, since strides are 1, of Y
                yield Growth(case.workload.name, case.outputs, ms, ms * 1e6 / elements, mib)
    finally:
        set_num_threads(before)


def _scratch_mib(run: Side) -> float:
    """The most memory at one time in a new thread, without what is returned."""
    peak = 0.0

    def trace() -> None:
        nonlocal peak
        tracemalloc.start()
        kept = sum(array.nbytes for array in run())
        peak = (tracemalloc.get_traced_memory()[1] - kept) / 2**20
        tracemalloc.stop()

    thread = threading.Thread(target=trace)
    thread.start()
    thread.join()
    return peak


def machine() -> dict[str, str]:
    """What the figures hold for: processor and versions."""
    processor = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        processor = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    packages = ("numpy", "onnxruntime", "onnxruntime-extensions", "onnx", "torch")
    installed = {d.name.replace("_", "-"): d.version for d in metadata.distributions()}
    return {
        "processor": processor,
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        **{name: installed.get(name, "not installed") for name in packages},
    }
