"""Whole models: ONNX Runtime's own MaxPool, all of them ours, and those that are recommended, by turns."""

from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice, permutations
import os
from pathlib import Path
from statistics import median
from time import perf_counter

from maxpool_ort.compare import difference
from maxpool_ort.decide import Select
from maxpool_ort.feed import find_feed
from maxpool_ort.session import InferenceSession

__all__ = ["ModelResult", "measure_model"]

_SELECTS: tuple[Select, ...] = ((), "all", "recommended")


@dataclass(frozen=True)
class ModelResult:
    """Medians of whole runs in milliseconds, and how many nodes are ours; a reason where nothing is compared."""

    model: str
    nodes: int
    recommended: int
    built_in_ms: float | None = None
    all_ms: float | None = None
    recommended_ms: float | None = None
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
    sessions = [InferenceSession(path, select=select) for select in _SELECTS]
    feed = find_feed(path, sessions[0].get_inputs(), [], 0).arrays
    counts = [len(session.converted) for session in sessions]
    result = ModelResult(Path(path).stem, counts[1], counts[2])
    runs = [partial(session.run, None, feed) for session in sessions]
    theirs, *ours = (run() for run in runs)
    for outputs in ours:
        for name, other, mine in zip((o.name for o in sessions[0].get_outputs()), theirs, outputs, strict=True):
            if difference(name, other, mine, is_exact=False):
                return replace(result, reason=f"output {name!r} differs")
    times: list[list[float]] = [[], [], []]
    for order in islice(cycle(permutations(range(3))), pairs):  # what each finds in the caches is of any of them
        for number in order:
            runs[number]()
            start = perf_counter()
            runs[number]()
            times[number].append((perf_counter() - start) * 1e3)
    built_in_ms, all_ms, recommended_ms = map(median, times)
    return replace(result, built_in_ms=built_in_ms, all_ms=all_ms, recommended_ms=recommended_ms, pairs=pairs)
