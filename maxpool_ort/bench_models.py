"""Whole models: ONNX Runtime's own MaxPool, all of them ours, those that are recommended, and none that takes time.

The last has all of them in Python too, and their results are ready: no operator in Python makes a model faster.

Each session is in a process of its own, as it is where it is used: threads of ONNX Runtime look for work for some 50
milliseconds after a run, on the processors that another session's threads would run on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice, permutations
import multiprocessing
from multiprocessing.connection import Connection
import os
from pathlib import Path
import signal
from statistics import median
from time import perf_counter, sleep
from typing import Any

from maxpool_ort import op
from maxpool_ort.bench import REST_SECONDS
from maxpool_ort.compare import difference
from maxpool_ort.decide import Select
from maxpool_ort.feed import find_feed
from maxpool_ort.session import InferenceSession

__all__ = ["ModelResult", "measure_model"]

_WAYS: tuple[tuple[Select, bool], ...] = (((), False), ("all", False), ("recommended", False), ("all", True))
"""Which nodes are ours, and whether their results are ready."""


@dataclass(frozen=True)
class ModelResult:
    """Medians of whole runs in milliseconds, and how many nodes are ours; a reason where nothing is compared."""

    model: str
    nodes: int
    recommended: int
    built_in_ms: float | None = None
    all_ms: float | None = None
    recommended_ms: float | None = None
    ready_ms: float | None = None
    """All ours, with results that are ready."""
    pairs: int = 0
    reason: str = ""


def measure_model(path: str | os.PathLike[str], pairs: int) -> ModelResult:
    """Time a model file with default options, on its sample or on random data.

    Raises
    ------
    OSError
        If the file cannot be read.
    MaxPoolError
        If it is no model, or one with an invalid MaxPool node.
    """
    InferenceSession(path)  # what is wrong with it is said here
    spawn = multiprocessing.get_context("spawn")
    ends, processes = [], []
    for select, is_ready in _WAYS:
        end, other = spawn.Pipe()
        ends.append(end)
        processes.append(spawn.Process(target=_serve, args=(path, select, is_ready, other), daemon=True))
        processes[-1].start()
        other.close()
    try:
        return _by_turns(ends, ModelResult(Path(path).stem, 0, 0), pairs)
    finally:
        for end, process in zip(ends, processes, strict=True):
            end.close()
            process.join()


def _serve(path: str | os.PathLike[str], select: Select, is_ready: bool, end: Connection) -> None:
    """Tell which outputs a session gives and how many nodes are ours; then, whenever asked, how long a run takes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who has asked; this one ends when the other end closes
    if is_ready:
        _keep_results()
    session = InferenceSession(path, select=select)
    feed = find_feed(path, session.get_inputs(), [], 0).arrays
    outputs = session.run(None, feed)
    end.send(([output.name for output in session.get_outputs()], outputs, len(session.converted)))
    try:
        while end.recv():
            session.run(None, feed)
            start = perf_counter()
            session.run(None, feed)
            end.send((perf_counter() - start) * 1e3)
    except (EOFError, OSError):  # the other end is closed
        pass


def _keep_results() -> None:
    """Let each node in Python, of this process, work once, and then return what it has."""
    work, results = op._run, {}  # noqa: SLF001 (what a node does)

    def run(x: Any, node: str, attributes: str, *, with_indices: bool) -> Any:
        if node not in results:
            results[node] = work(x, node, attributes, with_indices=with_indices)
        return results[node]

    op._run = run  # noqa: SLF001


def _by_turns(ends: Sequence[Any], result: ModelResult, pairs: int) -> ModelResult:
    (names, theirs, _), *ours = (end.recv() for end in ends)
    result = replace(result, nodes=ours[0][2], recommended=ours[1][2])
    for _, outputs, _ in ours:
        for name, other, mine in zip(names, theirs, outputs, strict=True):
            if difference(name, other, mine, is_exact=False):
                return replace(result, reason=f"output {name!r} differs")
    times: list[list[float]] = [[] for _ in ends]
    for order in islice(
        cycle(permutations(range(len(ends)))), pairs
    ):  # what each finds in the caches is of any of them
        for number in order:
            sleep(REST_SECONDS)
            ends[number].send(True)
            times[number].append(ends[number].recv())
    built_in, every, recommended, ready = map(median, times)
    return replace(result, built_in_ms=built_in, all_ms=every, recommended_ms=recommended, ready_ms=ready, pairs=pairs)
