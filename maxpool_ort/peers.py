"""Both sides of a comparison: sessions with our operator, and with those of others."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
import math
import signal
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray
import onnx
import onnxruntime

from maxpool_ort import wire
from maxpool_ort.array import DTYPES, max_pool
from maxpool_ort.convert import convert_model
from maxpool_ort.geometry import Axis
from maxpool_ort.kernel.sortable import lowest
from maxpool_ort.model import make_maxpool_model
from maxpool_ort.op import define, hand_over, register
from maxpool_ort.schema import DOMAIN
from maxpool_ort.session import InferenceSession
from maxpool_ort.workloads import Case

__all__ = ["CannotError", "Side", "array_side", "our_side", "peer_side"]

Array = NDArray[Any]
Side = Callable[[], Sequence[Array]]
"""One run: its outputs."""

_PYOPS = ("border", "textbook")
_ready: Sequence[Array] = ()
"""What the operator called border returns."""


class CannotError(Exception):
    """The peer cannot do it; the text says why."""


def our_side(case: Case, x: Array) -> Side:
    """A session with our operator."""
    return _session_run(InferenceSession(_model(case), _options(case)), x)


def array_side(case: Case, x: Array) -> Side:
    """max_pool, without a session."""
    pool: Callable[[], Any] = partial(max_pool, x, return_indices=case.with_indices, **case.attributes)
    return pool if case.with_indices else lambda: [pool()]


def peer_side(case: Case, x: Array) -> Side:
    """That of the peer.

    Raises
    ------
    CannotError
        If it cannot do this case.
    """
    if case.peer == "torch":
        return _torch_run(case, x)
    run = _session_run(_peer_session(case), x)
    return _uninterrupted(run) if case.peer == "textbook" else run


def _session_run(session: Any, x: Array) -> Side:
    return partial(session.run, None, {"X": x})


def _model(case: Case) -> onnx.ModelProto:
    return make_maxpool_model(
        input_shape=case.workload.shape, dtype=case.dtype, with_indices=case.with_indices, **case.attributes
    )


def _options(case: Case) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = case.threads
    return options


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
        y, *indices = array_side(case, case.x())()
        y = y.astype(np.float32) if case.dtype == "float16" else y  # Casts stand around the operator
        _ready = list(map(hand_over, (y, *indices)))
    elif math.prod(case.workload.attributes.kernel_shape) > 1000:
        raise CannotError("takes minutes, and for Indices more memory than there is")
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
        raise CannotError("not installed") from None
    attributes = case.workload.attributes
    axes = attributes.geometry(case.workload.shape).axes
    if any((a.input + 2 * a.pad_begin - a.extent) // a.stride + 1 != a.output for a in axes):
        raise CannotError("has only pads that are the same at both ends")
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
        raise CannotError(str(error).strip().splitlines()[0]) from error
    return run if case.with_indices else lambda: [run()]
