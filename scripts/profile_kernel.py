"""Where the time of a run goes, and how near to the floor it is: for the workloads of the benchmark.

By turns with ONNX Runtime, and each workload in a process of its own, as in the benchmark. Run in the environment that
the package is installed in, on a quiet machine::

    python scripts/profile_kernel.py                                  # all workloads on one thread: some minutes
    python scripts/profile_kernel.py --workload "resnet stem" --dtype float32 --threads 2
    python scripts/profile_kernel.py --model models/spp.onnx

The parts of a whole run, in ms: "kernel" is what our operator takes in a run, "outside" all else, which is ONNX
Runtime's and PyOp's: to copy X and the outputs, mostly. "PyOp" is a run of a PyOp that returns a result that is ready,
and stays in cache. "calls" are the lists of NumPy's calls in the kernel, done on one thread; "in cache" is what these
calls would take if every element took as long as one more takes in such a call on a few thousand neighbours, which stay
in cache. Below that no order of these calls gets. "passes" are elements of all calls for each of X. "by calls" is the
ratio if in the kernel nothing but NumPy's calls took time: ONNX Runtime's time / (outside + calls); the best ratio is
its time / (PyOp + in cache). With several threads, calls are divided by "shared": how many times as often as one thread
several run the kernel on arrays, each for itself, in the same interpreter: about what work that threads share out can
get. For float16 a process beside them is always at work then: so is a thread of ONNX Runtime in its runs, which looks for
more to do behind the Cast before our operator.

Of a whole model, with all MaxPool nodes ours and by turns with the built-in: "ready" is one whose nodes return results that
are ready; "by calls" what (ready + calls) are of the built-in's time.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache, partial
import json
import math
from statistics import median
import subprocess
import sys
import threading
from time import perf_counter
from typing import Any

import numpy as np

import maxpool_ort as mp
from maxpool_ort import bench
from maxpool_ort.bench_models import measure_model
from maxpool_ort.feed import find_feed
from maxpool_ort.kernel.program import Program
from maxpool_ort.peers import array_side, our_side, peer_side
from maxpool_ort.table import best_table, track
from maxpool_ort.workloads import Case, cases

RUNS = 15
SHARED_SECONDS = 0.2
IN_CACHE = 2048, 8192
"""Elements of calls that stay in the first or the second cache."""
HEADER = [
    "workload", "dtype", "outputs", "ONNX Runtime", "ours", "outside", "PyOp", "kernel", "calls", "in cache", "passes",
    "shared", "ratio", "by calls", "best ratio",
]  # fmt: skip
MODEL_HEADER = ["model", "nodes", "built-in", "all ours", "ready", "calls", "all ours of built-in", "by calls"]
Key = tuple[str, tuple[str, ...], str]
"""A function, the dtypes that it takes, and the one that it puts out."""


class Calls:
    """NumPy's calls in all programs: how long they take, one after the other, or what elements they put out."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.elements: defaultdict[Key, int] = defaultdict(int)
        self.functions: dict[Key, Callable[..., Any]] = {}

    def count(self, function: Callable[..., Any], *arguments: Any, out: np.ndarray) -> None:
        """Do a call, and note it."""
        key = (
            getattr(function, "__name__", "copy"),
            tuple(str(np.asarray(a).dtype) for a in arguments),
            str(out.dtype),
        )
        function(*arguments, out=out)
        self.elements[key] += out.size
        self.functions[key] = function

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
def watching(*, are_counted: bool = False) -> Iterator[Calls]:
    """Time NumPy's calls in all programs, or count their elements."""
    calls = Calls()
    real_run = Program.run

    def run(self: Program, y: np.ndarray, x: np.ndarray | None = None, *indices_and_origins: Any) -> None:
        kept = self.calls._calls  # noqa: SLF001 (the only list)
        inputs = None if x is not None else self.inputs.copy()
        do_copy: Callable[..., Any] = copy
        if are_counted:
            do_copy = partial(calls.count, copy)
            self.calls._calls = [(partial(calls.count, function), *rest) for function, *rest in kept]  # noqa: SLF001
        start = perf_counter()
        if inputs is not None:  # what was put in, again
            do_copy(inputs, out=self.inputs)
        real_run(self, y, x, *indices_and_origins)
        calls.seconds += perf_counter() - start
        self.calls._calls = kept  # noqa: SLF001

    Program.run = run
    try:
        yield calls
    finally:
        Program.run = real_run


def profile(case: Case) -> list[str]:
    """The row of one workload."""
    x = case.x()
    ours, *others = our_side(case, x), *(peer_side(replace(case, peer=peer), x) for peer in ("onnxruntime", "border"))
    kernel, outside, calls = [], [], []

    def recorded() -> Sequence[Any]:
        with mp.record_calls() as found:
            start = perf_counter()
            outputs = ours()
            whole = perf_counter() - start
        kernel.append(found[0].seconds * 1e3)
        outside.append(whole * 1e3 - kernel[-1])
        return outputs

    def alone() -> Sequence[Any]:
        mp.set_num_threads(1)
        with watching() as found:
            outputs = ours()
        mp.set_num_threads(case.threads)
        calls.append(found.seconds * 1e3)
        return outputs

    mp.set_num_threads(1)
    ours()  # which makes the programs
    with watching(are_counted=True) as counted:
        ours()
    mp.set_num_threads(case.threads)
    times = bench.by_turns([ours, *others, alone], RUNS, case.threads, [recorded, *others, alone])
    whole, theirs, border, _ = map(median, times)
    around, done, floor, shared = median(outside), median(calls), counted.in_cache() * 1e3, times_as_often(case, x)
    passes = sum(counted.elements.values()) / math.prod(case.workload.shape)
    figures = [theirs, whole, around, border, median(kernel), done, floor, passes, shared]
    ratios = [theirs / whole, theirs / (around + done / shared), theirs / (border + floor / shared)]
    row = [case.workload.name, case.dtype, case.outputs]
    return [*row, *(f"{figure:.3g}" for figure in figures), *(f"{ratio:.2f}" for ratio in ratios)]


def times_as_often(case: Case, x: np.ndarray) -> float:
    """As one thread, all of them run the kernel, each for itself."""
    mp.set_num_threads(1)
    run = array_side(case, x.astype(np.float32) if case.dtype == "float16" else x)

    def count(ready: threading.Barrier) -> int:
        run()
        ready.wait()
        start, number = perf_counter(), 0
        while perf_counter() < start + 2 * SHARED_SECONDS:
            run()
            number += perf_counter() > start + SHARED_SECONDS  # all are at work
        return number

    def total(threads: int) -> int:
        with ThreadPoolExecutor(threads) as executor:
            return sum(executor.map(count, [threading.Barrier(threads)] * threads))

    if case.threads == 1:
        return 1
    with always_at_work() if case.dtype == "float16" else nullcontext():
        return total(case.threads) / max(1, total(1))


@contextmanager
def always_at_work() -> Iterator[None]:
    """Have a process that never rests."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def profile_model(path: str) -> list[str]:
    """The row of a whole model."""
    found = measure_model(path, 2 * RUNS)
    session = mp.InferenceSession(path)
    feed = find_feed(path, session.get_inputs(), [], 0).arrays
    session.run(None, feed)
    watched = []
    for _ in range(RUNS):
        with watching() as calls:
            session.run(None, feed)
        watched.append(calls.seconds * 1e3)
    built_in, done = found.built_in_ms or 0, median(watched)
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
    rows = list(map(profile_model, options.model)) or [
        row for _, row in zip(track(chosen, "profile"), bench.apart(profile, chosen), strict=True)
    ]
    print(
        json.dumps({"machine": bench.machine(), "header": header, "rows": rows}, indent=1)
        if options.json
        else best_table(header, rows)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
