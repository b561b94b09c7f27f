"""Failures and signals during a run: each caller gets its own error, and the process and the session live on."""

from concurrent.futures import ThreadPoolExecutor
import signal
import threading

import numpy as np
import onnx
from onnx.parser import parse_model
import onnxruntime
import pytest
from subprocesses import printed

import maxpool_ort as mp
from maxpool_ort import failures, op

OPTIONS = onnxruntime.SessionOptions()
OPTIONS.log_severity_level = 4
mp.register(OPTIONS)
DYNAMIC = mp.make_maxpool_model(kernel_shape=[3], input_shape=["N", "C", "L"], name="pool1")
STATIC = mp.make_maxpool_model(kernel_shape=[3], input_shape=[1, 1, 6], name="pool1", with_indices=True)


def plain(model: onnx.ModelProto, **arguments: str) -> onnxruntime.InferenceSession:
    """A session of onnxruntime's own on the converted model."""
    return onnxruntime.InferenceSession(mp.convert_model(model, **arguments).model.SerializeToString(), OPTIONS)


def ramp(length: int, channels: int = 1) -> np.ndarray:
    """X of this length, too short for the window of 3 if it is 1."""
    return np.arange(length * channels, dtype=np.float32).reshape(1, channels, length)


def test_a_plain_session_tells_where_to_find_the_error(caplog: pytest.LogCaptureFixture) -> None:
    """The exception of onnxruntime leads to the real one, which is logged; the next run is right."""
    session = plain(DYNAMIC)
    for channels in (1, 2):
        with pytest.raises(Exception, match="maxpool_ort/Y/guard") as raised:
            session.run(None, {"X": ramp(1, channels)})
        failure = mp.failure_of(raised.value)
        assert isinstance(failure, mp.InvalidShapeError)
        assert isinstance(failure.__cause__, mp.InvalidShapeError)
        assert "MaxPool 'pool1': output size of spatial axis D1 must be >= 0, got -1" in str(failure)
        assert f"(X: float32 (1, {channels}, 1); kernel_shape=3;" in str(failure)
        assert mp.failure_of(str(raised.value)) is failure
        assert f"a run failed: {failure}" in caplog.text
    assert session.run(None, {"X": ramp(6)})[0].ravel().tolist() == [2, 3, 4, 5]
    assert mp.failure_of(ValueError("Input shape:{1,1,1,2}")) is None


def test_ours_raises_and_does_not_log(caplog: pytest.LogCaptureFixture) -> None:
    """What is raised need not be logged; and nothing of it is kept."""
    session = mp.InferenceSession(DYNAMIC)
    with pytest.raises(mp.InvalidShapeError, match="MaxPool 'pool1'"):
        session.run(None, {"X": ramp(1)})
    assert not caplog.records
    assert not [f for f in failures._failures.values() if f.thread == threading.get_ident()]  # noqa: SLF001


@pytest.mark.parametrize("error", [MemoryError("none left"), KeyboardInterrupt(), ZeroDivisionError("a bug")], ids=repr)
def test_guard_all(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where sizes prove all, and memory runs out all the same: with all nodes guarded, a plain session raises."""
    done = mp.convert_model(STATIC, guard="all")
    assert [node.is_guarded for node in done.converted] == [True]
    assert mp.restore_model(done.model) == STATIC
    session = plain(STATIC, guard="all")

    def fail(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(op, "_prepared", fail)
        with pytest.raises(Exception, match=r"maxpool_ort/(Y|Indices)/guard") as raised:
            session.run(None, {"X": ramp(6)})
    failure = mp.failure_of(raised.value)
    assert failure is error or failure.__cause__ is error
    assert session.run(None, {"X": ramp(6)})[0].ravel().tolist() == [2, 3, 4, 5]
    with pytest.raises(mp.MaxPoolError, match="guard must be one of needed, all, got 'none'"):
        mp.convert_model(STATIC, guard="none")


TWO = parse_model("""
    <ir_version: 8, opset_import: ["": 13]>
    main (float[N, C, L] X, float[N, C, M] W) => (float[N, C, l] Y, float[N, C, m] V) {
        [left] Y = MaxPool <kernel_shape = [3]> (X)
        [right] V = MaxPool <kernel_shape = [3]> (W)
    }
""")


@pytest.mark.parametrize("kind", ["ours", "plain"])
@pytest.mark.parametrize("mode", list(onnxruntime.ExecutionMode.__members__.values()), ids=str)
def test_each_caller_gets_its_own_error(kind: str, mode: onnxruntime.ExecutionMode) -> None:
    """Many threads on one session, some of whose runs fail: each is told of its own X, and right ones are right."""
    options = onnxruntime.SessionOptions()
    options.execution_mode = mode
    options.inter_op_num_threads = 3
    options.log_severity_level = 4
    mp.register(options)
    if kind == "ours":
        session = mp.InferenceSession(TWO, options)
    else:
        model = mp.convert_model(TWO, guard="all").model
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)

    def call(number: int) -> None:
        fails = number % 3
        x, w = ramp(1 if fails == 1 else 6, number + 1), ramp(1 if fails == 2 else 6, number + 1)
        for _ in range(5):
            if not fails:
                y, v = session.run(None, {"X": x, "W": w})
                np.testing.assert_array_equal(y, mp.max_pool(x, [3]))
                np.testing.assert_array_equal(v, mp.max_pool(w, [3]))
                continue
            with pytest.raises(Exception, match=r"MaxPool|guard") as raised:
                session.run(None, {"X": x, "W": w})
            failure = raised.value if kind == "ours" else mp.failure_of(raised.value)
            name = {1: "left", 2: "right"}[fails]
            assert isinstance(failure, mp.InvalidShapeError)
            assert str(failure).startswith(f"MaxPool {name!r}: ")
            assert f"(X: float32 (1, {number + 1}, 1);" in str(failure)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(call, range(48)))


SIGNALS = """
    import os, random, signal, sys, threading
    import numpy as np, onnxruntime, maxpool_ort as mp
    from onnx import helper
    DEPTH = 30
    nodes = [mp.make_maxpool_node([3], inputs=[f"t{i}"], outputs=[f"t{i + 1}"], name=f"pool{i}") for i in range(DEPTH)]
    graph = helper.make_graph(
        nodes, "chain", [helper.make_tensor_value_info("t0", 1, [2, 8, 4096])],
        [helper.make_tensor_value_info(f"t{DEPTH}", 1, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = mp.InferenceSession(model)
    x = np.random.default_rng(0).standard_normal((2, 8, 4096)).astype(np.float32)
    (expected,) = session.run(None, {"t0": x})
    def send(number):
        os.kill(os.getpid(), number)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what it runs in the background ignore it
"""


def test_ctrl_c_at_any_moment() -> None:
    """200 times SIGINT at a random moment of a run: a KeyboardInterrupt each time, no abort, and right results after."""
    code = (
        SIGNALS
        + """
    rng, interrupted, cut_short = random.Random(0), 0, 0
    for _ in range(200):
        with mp.record_calls() as calls:
            timer = threading.Timer(rng.uniform(0, 0.01), send, [signal.SIGINT])
            try:
                timer.start()
                while True:
                    session.run(None, {"t0": x})
            except KeyboardInterrupt:
                interrupted += 1
                cut_short += len(calls) % DEPTH != 0
            timer.join()
    (y,) = session.run(None, {"t0": x})
    print(interrupted, cut_short > 100, bool((y == expected).all()), signal.getsignal(signal.SIGINT).__name__)
    """
    )
    assert printed(code) == "200 True True default_int_handler"


def test_other_signals() -> None:
    """A handler runs during a run, which goes on if it returns; what it raises comes out of run."""
    code = (
        SIGNALS
        + """
    seen = []
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    for _ in range(20):
        timer = threading.Timer(0.003, send, [signal.SIGTERM])
        timer.start()
        while not (len(seen) and timer.finished.is_set()):
            (y,) = session.run(None, {"t0": x})
            assert (y == expected).all()
        timer.join()
        seen.clear()
    def leave(number, frame):
        raise SystemExit(7)
    signal.signal(signal.SIGTERM, leave)
    timer = threading.Timer(0.003, send, [signal.SIGTERM])
    try:
        timer.start()
        while True:
            session.run(None, {"t0": x})
    except SystemExit as exit_:
        print("exit", exit_.code)
    print(bool((session.run(None, {"t0": x})[0] == expected).all()))
    """
    )
    assert printed(code).splitlines() == ["exit 7", "True"]


def test_terminate() -> None:
    """RunOptions.terminate, set from another thread or before, ends a run; options and session stay usable."""
    code = (
        SIGNALS
        + """
    options = onnxruntime.RunOptions()
    onnxruntime.set_default_logger_severity(4)
    def stop():
        options.terminate = True
    timer = threading.Timer(0.003, stop)
    timer.start()
    try:
        while True:
            session.run(None, {"t0": x}, options)
    except Exception as error:
        print(type(error).__name__, "terminate flag" in str(error), options.terminate)
    timer.join()
    options.terminate = False
    print(bool((session.run(None, {"t0": x}, options)[0] == expected).all()))
    """
    )
    assert printed(code).splitlines() == ["Fail True True", "True"]


def test_handlers_are_given_back() -> None:
    """After a run all handlers are what they were, or what a handler has set during it."""
    session = mp.InferenceSession(STATIC)
    before = signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGINT)
    real = op._prepared  # noqa: SLF001

    def handler(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def prepared(*args: object, **kwargs: object) -> object:
        signal.raise_signal(signal.SIGUSR1)
        return real(*args, **kwargs)

    try:
        signal.signal(signal.SIGUSR1, handler)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(op, "_prepared", prepared)
            assert session.run(None, {"X": ramp(6)})[0].ravel().tolist() == [2, 3, 4, 5]
        assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) == before[1]
    finally:
        signal.signal(signal.SIGUSR1, before[0])
