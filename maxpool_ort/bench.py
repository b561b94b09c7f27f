"""The benchmark: whole runs of a session against those of others, in one process and by turns.

A time counts only after both sides gave the same. Each side runs twice at its turn and the second run is timed, so that
neither meets the caches that the other has left. With more than one thread, turns begin when the threads of the turn
before have come to rest: those of ONNX Runtime look for work for some 50 milliseconds, and take a processor meanwhile.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib import metadata
import math
import os
from pathlib import Path
import platform
import signal
from statistics import median
import threading
from time import perf_counter, sleep
import tracemalloc
from typing import Any

import numpy as np
from numpy.typing import NDArray
import onnx
import onnxruntime

from maxpool_ort import wire
from maxpool_ort.array import DTYPES, max_pool
from maxpool_ort.convert import convert_model
from maxpool_ort.geometry import Axis
from maxpool_ort.kernel import get_num_threads, set_num_threads
from maxpool_ort.kernel.sortable import lowest
from maxpool_ort.model import make_maxpool_model
from maxpool_ort.op import define, hand_over, register
from maxpool_ort.schema import DOMAIN, MaxPoolAttributes
from maxpool_ort.session import InferenceSession

__all__ = [
    "DATA",
    "DTYPE_NAMES",
    "PEERS",
    "WORKLOADS",
    "Case",
    "Growth",
    "Result",
    "cases",
    "growth",
    "machine",
    "measure",
]

Array = NDArray[Any]
Side = Callable[[], Sequence[Array]]
"""One run: its outputs."""

PAIRS = 15
FEWER_PAIRS = 3
SLOW_SECONDS = 0.5
"""A peer that takes longer is run in fewer pairs."""
DATA = ("random", "smooth")
"""Numbers that have nothing to do with one another; or these added up along each axis, cut off at 0 as by a ReLU."""
PEERS = ("onnxruntime", "border", "textbook", "torch", "reference")
DTYPE_NAMES = ("float32", "float64", "float16", "int8", "uint8")
REST_SECONDS = 0.1
_PYOPS = ("border", "textbook")
_ready: Sequence[Array] = ()
"""What the operator called border returns."""


@dataclass(frozen=True)
class Workload:
    """A MaxPool as a network has it."""

    name: str
    shape: tuple[int, ...]
    attributes: MaxPoolAttributes


def _workload(name: str, shape: tuple[int, ...], kernel: int, **attributes: Any) -> Workload:
    """All axes alike: an integer stands for as many as there are entries in the attribute."""
    rank = len(shape) - 2
    entries: dict[str, Any] = {
        key: [value] * rank * (1 + (key == "pads")) if isinstance(value, int) else value
        for key, value in attributes.items()
    }
    return Workload(name, shape, MaxPoolAttributes(kernel_shape=[kernel] * rank, **entries))


WORKLOADS = (
    _workload("resnet stem", (1, 64, 112, 112), 3, strides=2, pads=1),
    _workload("vgg block", (1, 64, 224, 224), 2, strides=2),
    _workload("inception branch", (1, 256, 28, 28), 3, pads=1),
    _workload("spp 5", (1, 512, 20, 20), 5, pads=2),
    _workload("spp 13", (1, 512, 20, 20), 13, pads=6),
    _workload("dilated", (1, 64, 112, 112), 3, dilations=2),
    _workload("same upper odd", (1, 128, 57, 57), 3, strides=2, auto_pad="SAME_UPPER"),
    _workload("unet batch", (8, 32, 64, 64), 2, strides=2),
    _workload("wide window", (1, 8, 256, 256), 128, pads=[64, 64, 63, 63]),
    _workload("video", (1, 32, 32, 56, 56), 2, strides=2),
    _workload("audio", (8, 64, 16000), 3, strides=2),
    _workload("audio k64", (8, 8, 16000), 64),
    _workload("tiny", (1, 4, 8, 8), 2, strides=2),
)


@dataclass(frozen=True)
class Case:
    """What is compared with whom, on how many threads."""

    workload: Workload
    dtype: str
    with_indices: bool
    threads: int
    peer: str
    data: str = "random"

    @property
    def outputs(self) -> str:
        """Y or Y+Indices."""
        return "Y+Indices" if self.with_indices else "Y"


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


def cases(
    *,
    workloads: Sequence[str] = (),
    dtypes: Sequence[str] = (),
    outputs: Sequence[str] = (),
    threads: Sequence[int] = (),
    peers: Sequence[str] = (),
    data: str = "random",
) -> list[Case]:
    """All cases, or those that are named; peers that have no threads, at the smallest number of these only."""
    threads = sorted({min(count, os.cpu_count() or 1) for count in threads or (1, get_num_threads())})
    return [
        case
        for count in threads
        for workload in WORKLOADS
        for dtype in DTYPE_NAMES
        for with_indices in (False, True)
        for peer in PEERS
        if (case := Case(workload, dtype, with_indices, count, peer, data))
        and (not workloads or workload.name in workloads)
        and (not dtypes or dtype in dtypes)
        and (not outputs or case.outputs in outputs)
        and (not peers or peer in peers)
        and (peer not in {"textbook", "reference"} or count == threads[0])
        and (peer != "reference" or math.prod(workload.shape) < 1000)
    ]


def measure(case: Case, pairs: int = PAIRS) -> Result:
    """Compare one peer with us."""
    result = Result(case.workload.name, case.dtype, case.outputs, case.threads, case.peer)
    before = get_num_threads()
    set_num_threads(case.threads)
    try:
        x = _input(case)
        try:
            theirs = _torch_run(case, x) if case.peer == "torch" else _session_run(_peer_session(case), x)
            theirs = _uninterrupted(theirs) if case.peer == "textbook" else theirs
            expected = theirs()
        except _CannotError as error:
            return replace(result, reason=str(error))
        ours = _array_run(case, x) if case.peer == "torch" else _session_run(_our_session(case), x)
        difference = _difference(ours(), expected, math.prod(case.workload.shape[2:]) if case.peer == "torch" else 0)
        if difference:
            return replace(result, reason=difference)
        ours_ms, peer_ms, count = _by_turns(ours, theirs, pairs, REST_SECONDS if case.threads > 1 else 0)
        return replace(result, ours_ms=ours_ms, peer_ms=peer_ms, pairs=count)
    finally:
        set_num_threads(before)


class _CannotError(Exception):
    """The peer cannot do it; the text says why."""


def _by_turns(ours: Side, theirs: Side, pairs: int, rest_seconds: float) -> tuple[float, float, int]:
    """Median milliseconds of both, and of how many pairs."""
    start = perf_counter()
    theirs()
    is_slow = perf_counter() - start > SLOW_SECONDS
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(FEWER_PAIRS if is_slow else pairs):
        for side in (0, 1) if number % 2 else (1, 0):
            run = (ours, theirs)[side]
            sleep(rest_seconds)
            if not (is_slow and side):
                run()
            start = perf_counter()
            run()
            times[side].append((perf_counter() - start) * 1e3)
    return median(times[0]), median(times[1]), len(times[0])


def _input(case: Case) -> Array:
    rng, dtype = np.random.default_rng(0), np.dtype(case.dtype)
    if case.data == "smooth":
        x: Array = rng.standard_normal(case.workload.shape)
        for axis in range(2, x.ndim):
            x = x.cumsum(axis)
        x = x.clip(0) * 127 / x.max()
        return x.astype(dtype)
    if dtype.kind == "f":
        return (rng.standard_normal(case.workload.shape) * 50).astype(dtype)
    return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, case.workload.shape, dtype, endpoint=True)


def _attributes(case: Case) -> dict[str, Any]:
    """The attributes that are not at their defaults."""
    a = case.workload.attributes
    given = {"pads": a.pads} if a.auto_pad == "NOTSET" else {"auto_pad": a.auto_pad}
    return {"kernel_shape": a.kernel_shape, "strides": a.strides, "dilations": a.dilations, **given}


def _model(case: Case) -> onnx.ModelProto:
    return make_maxpool_model(
        input_shape=case.workload.shape, dtype=case.dtype, with_indices=case.with_indices, **_attributes(case)
    )


def _options(case: Case) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = case.threads
    return options


def _our_session(case: Case) -> InferenceSession:
    return InferenceSession(_model(case), _options(case))


def _session_run(session: Any, x: Array) -> Side:
    return partial(session.run, None, {"X": x})


def _uninterrupted(run: Side) -> Side:
    """A run during which Ctrl-C waits: in the body of a textbook operator it would end the process."""

    def side() -> Sequence[Array]:
        if threading.current_thread() is not threading.main_thread():
            return run()
        pending: list[int] = []
        before = signal.signal(signal.SIGINT, lambda number, _: pending.append(number))
        try:
            made = run()
        finally:
            signal.signal(signal.SIGINT, before)
        if pending:
            raise KeyboardInterrupt
        return made

    return side


def _array_run(case: Case, x: Array) -> Side:
    pool: Callable[[], Any] = partial(max_pool, x, return_indices=case.with_indices, **_attributes(case))
    return pool if case.with_indices else lambda: [pool()]


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


def _peer_session(case: Case) -> Any:
    model = _model(case)
    if case.peer == "reference":
        from onnx.reference import ReferenceEvaluator  # noqa: PLC0415 (slow to import)

        return ReferenceEvaluator(model)
    options = _options(case)
    if case.peer in _PYOPS:
        _prepare_pyop(case)
        register(options)
        model = convert_model(model).model
        for item in (*model.graph.node, *model.opset_import):
            item.domain = item.domain.replace(DOMAIN, case.peer)
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def _prepare_pyop(case: Case) -> None:
    global _ready  # noqa: PLW0603 (an operator has no other way to know)
    if case.peer == "border":
        y, *indices = _array_run(case, _input(case))()
        y = y.astype(np.float32) if case.dtype == "float16" else y  # Casts stand around the operator
        _ready = list(map(hand_over, (y, *indices)))
    elif math.prod(case.workload.attributes.kernel_shape) > 1000:
        raise _CannotError("takes minutes, and for Indices more memory than there is")
    _define_pyops()


@lru_cache(maxsize=1)
def _define_pyops() -> None:
    """MaxPool as a tutorial on PyOp would have it; and one that returns what is ready, which is all that PyOp costs."""
    for dtype in DTYPES:
        if dtype != np.float16:
            for with_indices in (False, True):
                define("textbook", dtype, partial(_textbook, with_indices=with_indices), with_indices=with_indices)
                define("border", dtype, partial(_border, with_indices=with_indices), with_indices=with_indices)


def _border(_: Array, *, with_indices: bool, **__: str) -> Any:
    return tuple(_ready) if with_indices else _ready[0]


def _textbook(x: Array, *, with_indices: bool, **wired: str) -> Any:
    axes = wire.decode(wired[wire.ATTRIBUTES]).geometry(x.shape).axes
    pads = [(0, 0), (0, 0), *((axis.pad_begin, max(0, _overhang(axis))) for axis in axes)]
    windows = _windows(np.pad(x, pads, constant_values=lowest(x.dtype)), axes)
    if not with_indices:
        return windows.max(axis=tuple(range(-len(axes), 0)))
    taps = windows.reshape(*windows.shape[: -len(axes)], -1)
    positions = _windows(np.pad(np.arange(x.size).reshape(x.shape), pads), axes).reshape(taps.shape)
    best = taps.argmax(axis=-1)[..., np.newaxis]
    return np.take_along_axis(taps, best, -1)[..., 0], np.take_along_axis(positions, best, -1)[..., 0]


def _overhang(axis: Axis) -> int:
    """Positions of the last window behind the input."""
    return (axis.output - 1) * axis.stride - axis.pad_begin + axis.extent - axis.input


def _windows(x: Array, axes: Sequence[Axis]) -> Array:
    spatial = tuple(range(2, x.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(x, [axis.extent for axis in axes], axis=spatial)
    starts = (slice(0, (axis.output - 1) * axis.stride + 1, axis.stride) for axis in axes)
    taps = (slice(None, None, axis.dilation) for axis in axes)
    key = (slice(None), slice(None), *starts, *taps)
    view: Array = windows[key]
    return view


def _torch_run(case: Case, x: Array) -> Side:
    try:
        import torch  # noqa: PLC0415 (a peer that need not be there)
    except ImportError:
        raise _CannotError("not installed") from None
    attributes = case.workload.attributes
    axes = attributes.geometry(case.workload.shape).axes
    if any((a.input + 2 * a.pad_begin - a.extent) // a.stride + 1 != a.output for a in axes):
        raise _CannotError("has only pads that are the same at both ends")
    torch.set_num_threads(case.threads)
    run = partial(
        getattr(torch.nn.functional, f"max_pool{len(axes)}d"),
        torch.from_numpy(x),
        attributes.kernel_shape,
        stride=attributes.strides,
        padding=[axis.pad_begin for axis in axes],
        dilation=attributes.dilations,
        return_indices=case.with_indices,
    )
    try:
        run()
    except RuntimeError as error:
        raise _CannotError(str(error).strip().splitlines()[0]) from error
    return run if case.with_indices else lambda: [run()]


@dataclass(frozen=True)
class Growth:
    """Time of a whole run on one thread, float32, and the memory that ``max_pool`` takes beside X and its outputs."""

    what: str
    outputs: str
    ms: float
    ns_per_output: float
    scratch_mib: float


def growth(pairs: int = PAIRS) -> Iterator[Growth]:
    """Windows of 3 and of 128 an axis; N, C and the spatial size over three decades."""
    sizes = [
        ("window of 3", (1, 8, 256, 256), 3),
        ("window of 128", (1, 8, 256, 256), 128),
        *((f"N = {n}", (n, 8, 32, 32), 3) for n in (1, 10, 100, 1000)),
        *((f"C = {c}", (1, c, 32, 32), 3) for c in (8, 80, 800, 8000)),
        *((f"size {size} x {size}", (1, 8, size, size), 3) for size in (32, 101, 320, 1012)),
    ]
    before = get_num_threads()
    set_num_threads(1)
    try:
        for what, shape, kernel in sizes:
            workload = _workload(what, shape, kernel, auto_pad="SAME_UPPER")
            for with_indices in (False, True):
                case = Case(workload, "float32", with_indices, 1, "")
                x = _input(case)
                run = _session_run(_our_session(case), x)
                run()
                times = []
                for _ in range(pairs):
                    start = perf_counter()
                    run()
                    times.append(perf_counter() - start)
                seconds = median(times)
                mib = _scratch_mib(_array_run(case, x))
                yield Growth(what, case.outputs, seconds * 1e3, seconds * 1e9 / x.size, mib)
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
