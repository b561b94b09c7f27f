"""Where the time of a run goes, and how near to the floor it is: for the workloads of the benchmark.

Run in the environment that the package is installed in, on a quiet machine::

    python scripts/profile_kernel.py                                  # all workloads on one thread: some minutes
    python scripts/profile_kernel.py --workload "resnet stem" --dtype float32 --threads 2
    python scripts/profile_kernel.py --model models/spp.onnx

The parts of a whole run, in ms: "PyOp" is one of a PyOp that returns a result that is ready; "kernel" is what our operator
takes in such a run; "calls" are NumPy's calls in it, on one thread, timed one by one where they stand; "in cache" is what
these calls would take if every element took as long as one more takes in such a call on a few thousand neighbours, which
stay in cache. Below that no order of these calls gets. "passes" are elements of all calls for each of X. "by calls" is the
ratio if nothing but PyOp and NumPy's calls took time, and threads shared these without any loss: ONNX Runtime's time /
(PyOp + calls / threads); the best ratio is its time / (PyOp + in cache / threads).

Of a whole model, with all MaxPool nodes ours and by turns with the built-in: "ready" is one whose nodes return results that
are ready; "by calls" what (ready + calls) are of the built-in's time.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
import json
import math
from statistics import median
import sys
from time import perf_counter
from typing import Any

import numpy as np

import maxpool_ort as mp
from maxpool_ort import bench
from maxpool_ort.bench_models import measure_model
from maxpool_ort.feed import find_feed
from maxpool_ort.kernel.program import Program
from maxpool_ort.peers import Side, our_side
from maxpool_ort.table import best_table, track
from maxpool_ort.workloads import Case, cases

RUNS = 15
IN_CACHE = 2048, 8192
"""Elements of calls that stay in the first or the second cache."""
HEADER = [
    "workload", "dtype", "outputs", "ONNX Runtime", "ours", "PyOp", "kernel", "calls", "in cache", "passes", "ratio",
    "by calls", "best ratio",
]  # fmt: skip
MODEL_HEADER = ["model", "nodes", "built-in", "all ours", "ready", "calls", "all ours of built-in", "by calls"]
Key = tuple[str, tuple[str, ...], str]
"""A function, the dtypes that it takes, and the one that it puts out."""


class Calls:
    """Seconds and elements of NumPy's calls, by what they are."""

    def __init__(self) -> None:
        self.seconds: defaultdict[Key, float] = defaultdict(float)
        self.elements: defaultdict[Key, int] = defaultdict(int)
        self.functions: dict[Key, Callable[..., Any]] = {}

    def timed(self, function: Callable[..., Any], *arguments: Any, out: np.ndarray) -> None:
        """Do a call, and note it."""
        dtypes = tuple(str(np.asarray(each).dtype) for each in arguments)
        key = (getattr(function, "__name__", "copy"), dtypes, str(out.dtype))
        start = perf_counter()
        function(*arguments, out=out)
        self.seconds[key] += perf_counter() - start
        self.elements[key] += out.size
        self.functions[key] = function

    def total(self) -> float:
        """Seconds of all."""
        return sum(self.seconds.values())

    def in_cache(self) -> float:
        """Seconds that all these elements would take in cache."""
        return sum(count * seconds_in_cache(self.functions[key], key) for key, count in self.elements.items())


@lru_cache(maxsize=1000)
def seconds_in_cache(function: Callable[..., Any], key: Key) -> float:
    """Of one element more of a call on neighbours that stay in cache: what the call itself takes is left out."""
    _, dtypes, kind = key

    def best(count: int) -> float:
        arguments, out = [np.ones(count, dtype) for dtype in dtypes], np.empty(count, kind)
        times = []
        for _ in range(300):
            start = perf_counter()
            for _ in range(10):
                function(*arguments, out=out)
            times.append((perf_counter() - start) / 10)
        return min(times)

    few, many = IN_CACHE
    return max(0.0, best(many) - best(few)) / (many - few)


def copy(array: np.ndarray, out: np.ndarray) -> None:
    """What the kernel does to put in its input and to take out its outputs."""
    np.copyto(out, array, casting="unsafe")


@contextmanager
def watching() -> Iterator[Calls]:
    """Note NumPy's calls in all programs."""
    calls = Calls()
    real_run = Program.run

    def run(self: Program, y: np.ndarray, x: np.ndarray | None = None, *indices_and_origins: Any) -> None:
        if x is None:  # what was put in, again
            calls.timed(copy, self.inputs.copy(), out=self.inputs)
        untimed = self.calls._calls  # noqa: SLF001 (the only list)
        self.calls._calls = [(partial(calls.timed, function), *rest) for function, *rest in untimed]  # noqa: SLF001
        real_run(self, y, x, *indices_and_origins)
        self.calls._calls = untimed  # noqa: SLF001

    Program.run = run
    try:
        yield calls
    finally:
        Program.run = real_run


def profile(case: Case) -> list[str]:
    """The row of one workload."""
    theirs, border = (bench.measure(replace(case, peer=peer)) for peer in ("onnxruntime", "border"))
    run = our_side(case, case.x())
    mp.set_num_threads(case.threads)
    bench.run_for(bench.SETTLE_SECONDS, run)
    kernel = []
    for _ in range(RUNS):
        with mp.record_calls() as recorded:
            run()
        kernel += [call.seconds for call in recorded]
    mp.set_num_threads(1)
    calls = watch(run)
    done, floor = (seconds * 1e3 for seconds in (median(each.total() for each in calls), calls[-1].in_cache()))
    passes = sum(calls[-1].elements.values()) / math.prod(case.workload.shape)
    figures = [theirs.peer_ms, theirs.ours_ms, border.peer_ms, median(kernel) * 1e3, done, floor]
    bounds = [(theirs.peer_ms or 0) / (each / case.threads + (border.peer_ms or 0)) for each in (done, floor)]
    ratios = [theirs.ratio or 0, *bounds]
    row = [case.workload.name, case.dtype, case.outputs]
    return [*row, *("-" if f is None else f"{f:.3g}" for f in (*figures, passes)), *(f"{each:.2f}" for each in ratios)]


def watch(run: Side) -> list[Calls]:
    """What is called in each of some runs, the first left out: in it programs are made."""
    run()
    watched = []
    for _ in range(RUNS):
        with watching() as calls:
            run()
        watched.append(calls)
    return watched


def profile_model(path: str) -> list[str]:
    """The row of a whole model."""
    found = measure_model(path, 2 * RUNS)
    session = mp.InferenceSession(path)
    feed = find_feed(path, session.get_inputs(), [], 0).arrays
    calls = watch(partial(session.run, None, feed))
    built_in, done = found.built_in_ms or 0, median(each.total() * 1e3 for each in calls)
    figures = [built_in, found.all_ms or 0, found.ready_ms or 0, done]
    ratios = [figures[1] / built_in, (figures[2] + done) / built_in]
    return [found.model, str(found.nodes), *(f"{figure:.2f}" for figure in (*figures, *ratios))]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", action="append", default=[], help="one workload; repeat for more (default: all)")
    parser.add_argument("--dtype", action="append", default=[], help="one dtype; repeat for more")
    parser.add_argument("--outputs", action="append", default=[], choices=("Y", "Y+Indices"), help="these only")
    parser.add_argument("--model", action="append", default=[], help="these whole models, and no workloads")
    parser.add_argument("--threads", type=int, default=1, help="of ONNX Runtime and of our operator (default: 1)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    options = parser.parse_args()
    mp.set_num_threads(1)  # of whole models
    chosen = cases(
        workloads=options.workload,
        dtypes=options.dtype,
        outputs=options.outputs,
        threads=[options.threads],
        peers=["border"],
    )
    header = MODEL_HEADER if options.model else HEADER
    rows = list(map(profile_model, options.model)) or [profile(case) for case in track(chosen, "profile")]
    print(
        json.dumps({"machine": bench.machine(), "header": header, "rows": rows}, indent=1)
        if options.json
        else best_table(header, rows)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
