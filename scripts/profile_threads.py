"""How far two threads get, and what holds them back: for the benchmark's inputs that are large enough for two.

Run in the environment that the package is installed in, on a quiet machine with two free processors and more::

    python scripts/profile_threads.py            # a minute or two
    python scripts/profile_threads.py --workload "vgg block" --dtype float32

"PyOp" is a whole run, in ms, of a PyOp that returns a result that is ready, which stays on one thread; "kernel" is
`max_pool` on arrays, on one thread. "threads" is how many times faster two are, "processes" how many times more two
processes do at once, which share memory and no interpreter: that is what the machine has to give, and what is between
the two is waiting for the interpreter's lock. "run" is how many times faster a whole run is with two threads, and "best
run" what that would be if the kernel got what the machine has to give. The two threads are kept on processors of their own:
some virtual machines wake both on the same one.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
import json
import multiprocessing
import os
from statistics import median
import sys
import threading
from time import perf_counter
from typing import Any

import maxpool_ort as mp
from maxpool_ort import bench
from maxpool_ort.kernel.trial import Trial
from maxpool_ort.peers import array_side, our_side
from maxpool_ort.table import best_table, track
from maxpool_ort.workloads import Case, cases

RUNS = 25
SECONDS = 0.5
LEAST_BYTES = 4_000_000
HEADER = ["workload", "dtype", "outputs", "PyOp", "kernel", "threads", "processes", "run", "best run"]


@contextmanager
def apart() -> Iterator[None]:
    """Keep this thread and our helping one on processors of their own, where there are two and the system can."""
    processors = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if len(processors) < 2:
        yield
        return
    first, second, *_ = sorted(processors)
    helpers = [thread for thread in threading.enumerate() if thread.name.startswith("maxpool_ort")]
    for thread in helpers:
        os.sched_setaffinity(thread.native_id or 0, {second})
    os.sched_setaffinity(0, {first})
    try:
        yield
    finally:
        os.sched_setaffinity(0, processors)


@contextmanager
def always_several() -> Iterator[None]:
    """Two threads, whether they pay or not."""
    took = Trial.took
    Trial.took = lambda self, _seconds, *, several: setattr(self, "several", True)  # noqa: ARG005 (its signature)
    try:
        yield
    finally:
        Trial.took = took


def milliseconds(run: Callable[[int], Any]) -> list[float]:
    """Medians with one thread and with two, by turns; the second run of each turn counts."""
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(RUNS):
        for threads, found in times.items():
            mp.set_num_threads(threads)
            run(threads)
            start = perf_counter()
            run(threads)
            found.append((perf_counter() - start) * 1e3)
    return [median(found) for found in times.values()]


def count(case: Case, ready: Any, counts: Any) -> None:
    """In a process of its own: how often the operator runs, while others do the same."""
    mp.set_num_threads(1)
    run, number = array_side(case, case.x()), 0
    for _ in range(5):
        run()
    ready.wait()
    end = perf_counter() + SECONDS
    while perf_counter() < end:
        run()
        number += 1
    counts.put(number)


def runs_at_once(case: Case, processes: int) -> int:
    """How often all of them run the operator in the same time."""
    spawn = multiprocessing.get_context("spawn")
    ready, counts = spawn.Barrier(processes), spawn.SimpleQueue()
    started = [spawn.Process(target=count, args=(case, ready, counts)) for _ in range(processes)]
    for process in started:
        process.start()
    total = sum(counts.get() for _ in started)
    for process in started:
        process.join()
    return total


def profile(case: Case) -> list[str]:
    """The row of one workload."""
    border = bench.measure(replace(case, peer="border")).peer_ms or 0
    x = case.x()
    pool = array_side(case, x)
    sides = {n: our_side(replace(case, threads=n), x) for n in (1, 2)}
    mp.set_num_threads(2)
    pool()  # which starts the helping thread
    with apart(), always_several():
        alone, both = milliseconds(lambda _: pool())
        whole_alone, whole_both = milliseconds(lambda threads: sides[threads]())
    at_once = runs_at_once(case, 2) / runs_at_once(case, 1)
    ratios = [alone / both, at_once, whole_alone / whole_both, (border + alone) / (border + alone / at_once)]
    return [case.workload.name, case.dtype, case.outputs, *(f"{each:.2f}" for each in (border, alone, *ratios))]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", action="append", default=[], help="one workload; repeat for more (default: all)")
    parser.add_argument("--dtype", action="append", default=[], help="one dtype; repeat for more")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    options = parser.parse_args()
    before = mp.get_num_threads()
    chosen = cases(
        workloads=options.workload, dtypes=options.dtype or ["float32", "float64"], threads=[1], peers=["border"]
    )
    large = [case for case in chosen if case.x().nbytes >= LEAST_BYTES]
    rows = [profile(case) for case in track(large, "threads")]
    mp.set_num_threads(before)
    print(
        json.dumps({"machine": bench.machine(), "header": HEADER, "rows": rows}, indent=1)
        if options.json
        else best_table(HEADER, rows)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
