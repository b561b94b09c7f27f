"""What ONNX Runtime offers around a run, with both kinds of session: bindings, asynchronous runs, options, profiles."""

import json
import os
from pathlib import Path
import threading
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.parser import parse_model
import onnxruntime
import pytest
from subprocesses import printed

import maxpool_ort as mp
from maxpool_ort import op

CPU = ["CPUExecutionProvider"]
ROOT = Path(__file__).parents[1]
OrtValue = onnxruntime.OrtValue
X = np.random.default_rng(0).standard_normal((2, 3, 6)).astype(np.float32)
Y, INDICES = mp.max_pool(X, [3], return_indices=True)
DYNAMIC = mp.make_maxpool_model(kernel_shape=[3], input_shape=["N", "C", "L"], with_indices=True, name="pool1")
BATCHES = mp.make_maxpool_model(kernel_shape=[3], input_shape=["N", 3, 6], with_indices=True, name="pool1")
STATIC = mp.make_maxpool_model(kernel_shape=[3], input_shape=[2, 3, 6], with_indices=True, name="pool1")
kinds = pytest.mark.parametrize("kind", ["ours", "plain"])


def quiet() -> onnxruntime.SessionOptions:
    """Options of a session that logs nothing: what fails is looked at here."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return options


def make(
    kind: str, model: onnx.ModelProto, options: onnxruntime.SessionOptions | None = None, **arguments: Any
) -> onnxruntime.InferenceSession:
    """A session of ours, or one of onnxruntime's own on the converted model."""
    options = options or quiet()
    if kind == "ours":
        return mp.InferenceSession(model, options, **arguments)
    mp.register(options)
    return onnxruntime.InferenceSession(mp.convert_model(model).model.SerializeToString(), options, **arguments)


def check(session: onnxruntime.InferenceSession) -> None:
    """Both outputs are right, and our operator made them."""
    with mp.record_calls() as calls:
        y, indices = session.run(None, {"X": X})
    assert len(calls) == 1
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(indices, INDICES)


def break_operator(patch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let our operator fail."""

    def fail(*_: object, **__: object) -> None:
        raise error

    patch.setattr(op, "_prepared", fail)


def real_error(kind: str, raised: BaseException) -> BaseException | None:
    """What failed in our operator: raised by a session of ours, and found for the exception of a plain one."""
    return raised if kind == "ours" else mp.failure_of(raised)


# --- places that the caller gives: IOBinding, OrtValues


@kinds
@pytest.mark.parametrize("model", [DYNAMIC, BATCHES, STATIC], ids=["dynamic", "batches", "static"])
@pytest.mark.parametrize("how", ["OrtValue", "buffer"])
def test_outputs_land_where_the_caller_says(kind: str, model: onnx.ModelProto, how: str) -> None:
    """Inputs and outputs are bound as OrtValues or as memory of the caller's own, which is what is written to."""
    session = make(kind, model)
    binding = session.io_binding()
    y, indices = np.zeros_like(Y), np.zeros_like(INDICES)
    if how == "OrtValue":
        binding.bind_ortvalue_input("X", OrtValue.ortvalue_from_numpy(X))
        values = [OrtValue.ortvalue_from_numpy(y), OrtValue.ortvalue_from_numpy(indices)]
        binding.bind_ortvalue_output("Y", values[0])
        binding.bind_ortvalue_output("Indices", values[1])
    else:
        binding.bind_input("X", "cpu", 0, np.float32, X.shape, X.ctypes.data)
        binding.bind_output("Y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
        binding.bind_output("Indices", "cpu", 0, np.int64, indices.shape, indices.ctypes.data)
    binding.synchronize_inputs()
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    got = [value.numpy() for value in values] if how == "OrtValue" else [y, indices]
    for outputs in (got, binding.copy_outputs_to_cpu(), [value.numpy() for value in binding.get_outputs()]):
        np.testing.assert_array_equal(outputs[0], Y)
        np.testing.assert_array_equal(outputs[1], INDICES)


# (id, model, shape of X, place of Y, text): the places are refused in onnxruntime's words, before the run or in it
_OTHER_SHAPE = r"has shape \{2,3,4\} but the computed|shape verification failed"
BAD_PLACES: list[tuple[str, onnx.ModelProto, tuple[int, ...], np.ndarray, str]] = [
    ("size", STATIC, (2, 3, 6), np.zeros((2, 3, 5), np.float32), "Got invalid dimensions for output: Y"),
    ("rank", STATIC, (2, 3, 6), np.zeros((6, 4), np.float32), "Invalid rank for output: Y"),
    ("dtype", STATIC, (2, 3, 6), np.zeros((2, 3, 4)), "Unexpected output data type"),
    ("dtype, dynamic", DYNAMIC, (2, 3, 6), np.zeros((2, 3, 4)), "Unexpected output data type"),
    ("size, dynamic", DYNAMIC, (2, 3, 7), np.zeros((2, 3, 4), np.float32), _OTHER_SHAPE),
    ("another batch", BATCHES, (1, 3, 6), np.zeros((2, 3, 4), np.float32), _OTHER_SHAPE),
    ("no place for so small an X", DYNAMIC, (2, 3, 1), np.zeros((2, 3, 4), np.float32), "pool1|maxpool_ort/Y/guard"),
]


@kinds
@pytest.mark.parametrize(
    ("model", "shape", "place", "text"), [row[1:] for row in BAD_PLACES], ids=[row[0] for row in BAD_PLACES]
)
def test_places_that_do_not_fit(
    kind: str, model: onnx.ModelProto, shape: tuple[int, ...], place: np.ndarray, text: str
) -> None:
    """A place of another shape or dtype is an exception, as it is with onnxruntime's own MaxPool; the session lives on."""
    session = make(kind, model)
    binding = session.io_binding()
    binding.bind_cpu_input("X", np.zeros(shape, np.float32))
    binding.bind_ortvalue_output("Y", OrtValue.ortvalue_from_numpy(place))
    binding.bind_output("Indices")
    with pytest.raises(Exception, match=text) as raised:
        session.run_with_iobinding(binding)
    assert isinstance(real_error(kind, raised.value), mp.MaxPoolError) == (shape[2] == 1)
    check(session)


# (id, graph): what ends as an output, or is taken out behind what does, has its place before a run
PLACED: list[tuple[str, str]] = [
    ("an output", "main (float[N, 1, 6] X) => (float[N, 1, 4] Y) { Y = MaxPool <kernel_shape = [3]> (X) }"),
    ("declared and not so", "main (float[N, 1, 6] X) => (float[2, 1, 4] Y) { Y = MaxPool <kernel_shape = [3]> (X) }"),
    ("not declared", "main (float[1, 1, 6] X) => (float[a, b, c] Y) { Y = MaxPool <kernel_shape = [3]> (X) }"),
    (
        "behind Identity",
        "main (float[N, 1, 6] X) => (float[N, 1, 4] Y) { Z = MaxPool <kernel_shape = [3]> (X)  Y = Identity (Z) }",
    ),
    (
        "behind two Transposes",
        "main (float[N, 1, 6] X) => (float[N, 1, 4] Y) { Z = MaxPool <kernel_shape = [3]> (X) "
        "T = Transpose <perm = [0, 2, 1]> (Z)  Y = Transpose <perm = [0, 2, 1]> (T) }",
    ),
    (
        "in a function",
        'main (float[N, 1, 6] X) => (float[N, 1, 4] Y) { Y = l.f (X) } <domain: "l", opset_import: ["": 13]> '
        "f (x) => (y) { y = MaxPool <kernel_shape = [3]> (x) }",
    ),
]
USED_TWICE = """
    import sys
    import numpy as np, onnxruntime, maxpool_ort as mp
    from onnx.parser import parse_model
    onnxruntime.set_default_logger_severity(4)
    model = parse_model('<ir_version: 8, opset_import: ["": 13, "l": 1]> ' + sys.argv[2])
    options = onnxruntime.SessionOptions()
    mp.register(options)
    converted = mp.convert_model(model).model.SerializeToString()
    session = mp.InferenceSession(model) if sys.argv[1] == "ours" else onnxruntime.InferenceSession(converted, options)
    binding = session.io_binding()
    sizes = [1] if model.graph.input[0].type.tensor_type.shape.dim[0].dim_value else [2, 1]
    binding.bind_ortvalue_output("Y", onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros((2, 1, 4), np.float32)))
    for size in sizes:
        binding.bind_cpu_input("X", np.zeros((size, 1, 6), np.float32))
        try:
            session.run_with_iobinding(binding)
        except Exception as error:
            print("refused")
    binding.clear_binding_outputs()
    binding.bind_output("Y")
    session.run_with_iobinding(binding)
    print(binding.copy_outputs_to_cpu()[0].shape)
"""


@kinds
@pytest.mark.parametrize("text", [row[1] for row in PLACED], ids=[row[0] for row in PLACED])
def test_a_smaller_last_batch(kind: str, text: str) -> None:
    """A binding that is used again for fewer images is an exception: a custom operator there would end the process."""
    assert printed(USED_TWICE, kind, text).splitlines() == ["refused", "(1, 1, 4)"]


FAILS_WITH_PLACES = """
    import sys
    import numpy as np, onnxruntime, maxpool_ort as mp
    from maxpool_ort import op
    from onnx.parser import parse_model
    onnxruntime.set_default_logger_severity(4)
    x = np.arange(6, dtype=np.float32).reshape(1, 1, 6)
    real, error = op._prepared, {"MemoryError": MemoryError("none left"), "KeyboardInterrupt": KeyboardInterrupt()}
    def fail(*args, **kwargs):
        raise error[sys.argv[2]]
    def attempt(run):
        op._prepared = fail
        try:
            run()
        except BaseException as raised:
            print(type(raised).__name__)
        op._prepared = real
"""


@pytest.mark.parametrize("error", ["MemoryError", "KeyboardInterrupt"])
@pytest.mark.parametrize("how", ["binding", "vector", "If"])
def test_a_failure_where_outputs_have_places(how: str, error: str) -> None:
    """Where sizes prove a node right, it may fail all the same: in ours that is raised also where Y has its place."""
    code = (
        FAILS_WITH_PLACES
        + """
    if sys.argv[1] == "If":
        session = mp.InferenceSession(parse_model('''<ir_version: 8, opset_import: ["": 13]>
            main (bool c, float[1, 1, 6] X) => (float[1, 1, 4] Y) {
                Y = If (c) <then_branch = t () => (float[1, 1, 4] a) { a = MaxPool <kernel_shape = [3]> (X) },
                            else_branch = e () => (float[1, 1, 4] b) { b = MaxPool <kernel_shape = [3]> (X) }> }'''))
        feed = {"c": np.array(True), "X": x}
        attempt(lambda: session.run(None, feed))
        print(session.run(None, feed)[0].ravel().tolist())
    else:
        session = mp.InferenceSession(mp.make_maxpool_model(kernel_shape=[3], input_shape=[1, 1, 6], with_indices=True))
        assert not session.converted[0].is_guarded
        y, indices = np.zeros((1, 1, 4), np.float32), np.zeros((1, 1, 4), np.int64)
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(each) for each in (x, y, indices)]
        if sys.argv[1] == "binding":
            binding = session.io_binding()
            binding.bind_ortvalue_input("X", values[0])
            binding.bind_ortvalue_output("Y", values[1])
            binding.bind_ortvalue_output("Indices", values[2])
            run = lambda: session.run_with_iobinding(binding)
        else:
            from onnxruntime.capi import _pybind_state as C
            vectors = [C.OrtValueVector(), C.OrtValueVector()]
            for vector, each in zip(vectors, (values[:1], values[1:])):
                for value in each:
                    vector.push_back(value._ortvalue)
            devices = [C.OrtDevice(C.OrtDevice.cpu(), C.OrtDevice.default_memory(), 0)] * 2
            run = lambda: session.run_with_ortvaluevector(
                None, ["X"], vectors[0], ["Y", "Indices"], vectors[1], devices)
        attempt(run)
        run()
        print(values[1].numpy().ravel().tolist())
    """
    )
    told = "MaxPoolError" if error == "MemoryError" else error
    assert printed(code, how, error).splitlines() == [told, "[2.0, 3.0, 4.0, 5.0]"]


def test_outputs_that_no_place_can_hold() -> None:
    """What takes more memory than there is is refused with a binding too, and not put out as zeros."""
    code = (
        FAILS_WITH_PLACES
        + """
    model = mp.make_maxpool_model(kernel_shape=[1], input_shape=[1, 1, 1], pads=[2**45, 2**45])
    session = mp.InferenceSession(model)
    assert not session.converted[0].is_guarded
    binding = session.io_binding()
    binding.bind_cpu_input("X", x[..., :1].copy())
    binding.bind_output("Y")
    fail = real
    attempt(lambda: session.run_with_iobinding(binding))
    """
    )
    assert printed(code, "", "") == "MemoryLimitError"


@kinds
@pytest.mark.parametrize("how", ["binding", "OrtValues"])
def test_a_failed_run(kind: str, how: str) -> None:
    """A binding, or OrtValues, whose X does not fit: the real error comes out of ours, and is found for a plain one's."""
    session = make(kind, DYNAMIC)
    short = X[..., :1]
    binding = session.io_binding()
    binding.bind_cpu_input("X", short)
    binding.bind_output("Y")
    binding.bind_output("Indices")
    values = {"X": OrtValue.ortvalue_from_numpy(short)}
    method, *arguments = {
        "binding": (session.run_with_iobinding, binding, onnxruntime.RunOptions()),
        "OrtValues": (session.run_with_ort_values, None, values),
    }[how]
    with pytest.raises(Exception, match=r"MaxPool 'pool1'|maxpool_ort/Y/guard") as raised:
        method(*arguments)
    failure = real_error(kind, raised.value)
    assert isinstance(failure, mp.InvalidShapeError)
    assert "(X: float32 (2, 3, 1); kernel_shape=3;" in str(failure)
    check(session)
    values = session.run_with_ort_values(["Indices", "Y"], {"X": OrtValue.ortvalue_from_numpy(X)})
    np.testing.assert_array_equal(values[0].numpy(), INDICES)
    np.testing.assert_array_equal(values[1].numpy(), Y)


# --- asynchronous runs


def told(session: onnxruntime.InferenceSession, x: np.ndarray) -> tuple[Any, Any, str]:
    """What the callback of an asynchronous run is given."""
    given: list[tuple[Any, Any, str]] = []
    done = threading.Event()

    def callback(results: Any, user_data: Any, error: str) -> None:
        given.append(([np.array(result) for result in results], user_data, error))
        done.set()

    session.run_async(None, {"X": x}, callback, "mine")
    assert done.wait(60)
    return given[0]


def two_threads() -> onnxruntime.SessionOptions:
    """Asynchronous runs need a thread of ONNX Runtime's pool."""
    options = quiet()
    options.intra_op_num_threads = 2
    return options


@kinds
def test_run_async(kind: str) -> None:
    """The callback gets outputs and user_data; of a failure it gets a text for which failure_of gives the real one."""
    session = make(kind, DYNAMIC, two_threads())
    for x in (X, X[..., :1], X):
        (results, user_data, error) = told(session, x)
        assert user_data == "mine"
        if x is X:
            assert error == ""
            np.testing.assert_array_equal(results[0], Y)
            np.testing.assert_array_equal(results[1], INDICES)
            continue
        failure = mp.failure_of(error)
        assert isinstance(failure, mp.InvalidShapeError)
        assert "(X: float32 (2, 3, 1); kernel_shape=3;" in str(failure)
        assert results == []
        assert (error == str(failure)) == (kind == "ours")
    error = told(session, X.astype(np.float64))[2]
    assert "Unexpected input data type" in error
    assert mp.failure_of(error) is None
    options = quiet()
    options.intra_op_num_threads = 1
    alone = make(kind, DYNAMIC, options)
    with pytest.raises(Exception, match="must have at least one thread for RunAsync"):
        told(alone, X)


def test_run_async_without_a_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no guard stands, the callback of a session of ours is told all the same, and is given no wrong outputs."""
    session = mp.InferenceSession(STATIC, two_threads())
    assert not session.converted[0].is_guarded
    with monkeypatch.context() as patch:
        break_operator(patch, MemoryError("none left"))
        results, _, error = told(session, X)
    assert results == []
    assert error.startswith("MaxPool 'pool1': MemoryError: none left (X: float32 (2, 3, 6); ")
    assert isinstance(mp.failure_of(error).__cause__, MemoryError)
    results, _, error = told(session, X)
    np.testing.assert_array_equal(results[0], Y)
    assert (error, mp.failure_of(error)) == ("", None)


def test_run_async_of_two_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told is the failure that came first: without a guard, the next node works on what it has left."""
    model = parse_model("""
        <ir_version: 8, opset_import: ["": 13]> main (float[2, 3, 6] X) => (float[2, 3, 3] Y) {
            [first] Z = MaxPool <kernel_shape = [3]> (X)  [second] Y = MaxPool <kernel_shape = [2]> (Z) }
    """)
    session = mp.InferenceSession(model, two_threads())
    assert [node.is_guarded for node in session.converted] == [False, False]
    with mp.record_calls(), monkeypatch.context() as patch:
        failed: list[str] = []
        patch.setattr(op, "_run", lambda _x, node, *_, **__: failed.append(node) or 1 / 0)
        error = told(session, X)[2]
    assert failed == ["MaxPool 'first'", "MaxPool 'second'"]
    assert error.startswith("MaxPool 'first': ZeroDivisionError: ")


def test_many_asynchronous_runs() -> None:
    """Each callback is told of its own X, whatever ran on its thread before, be it of a plain session that is no more."""
    told(make("plain", DYNAMIC, two_threads()), X[..., :1])
    session = mp.InferenceSession(DYNAMIC, two_threads())
    given: dict[int, tuple[Any, str]] = {}
    done = threading.Semaphore(0)

    def callback(results: Any, number: int, error: str) -> None:
        given[number] = [result.shape for result in results], error
        done.release()

    for number in range(60):
        x = np.zeros((number + 1, 1, 1 if number % 3 == 1 else 6), np.float32)
        session.run_async(["Y"], {"X": x}, callback, number)
    assert all(done.acquire(timeout=60) for _ in range(60))
    for number, (shapes, error) in given.items():
        if number % 3 == 1:
            assert f"(X: float32 ({number + 1}, 1, 1);" in error
        else:
            assert (shapes, error) == ([(number + 1, 1, 4)], "")


SHARED_POOL = """
    import threading
    import numpy as np, onnxruntime, maxpool_ort as mp
    onnxruntime.set_default_logger_severity(4)
    onnxruntime.set_global_thread_pool_sizes(2, 2)
    options = onnxruntime.SessionOptions()
    options.use_per_session_threads = False
    session = mp.InferenceSession(mp.make_maxpool_model(kernel_shape=[3], input_shape=["N", 1, "L"]), options)
    for size in (6, 1, 6):
        done = threading.Event()
        def callback(results, user_data, error):
            print([result.shape for result in results], type(mp.failure_of(error)).__name__)
            done.set()
        session.run_async(None, {"X": np.zeros((1, 1, size), np.float32)}, callback, None)
        assert done.wait(60)
"""


@pytest.mark.skipif(
    not hasattr(onnxruntime, "set_global_thread_pool_sizes"),
    reason="onnxruntime has a pool for all sessions in newer versions only",
)
def test_a_pool_that_sessions_share() -> None:
    """Sessions without threads of their own run on those of the process, asynchronously too."""
    assert printed(SHARED_POOL).splitlines() == [
        "[(1, 1, 4)] NoneType", "[] InvalidShapeError", "[(1, 1, 4)] NoneType",
    ]  # fmt: skip


# --- options of a run and of a session

BRANCHES = parse_model("""
    <ir_version: 8, opset_import: ["": 13]>
    main (float[N, C, L] X) => (float[N, C, l] Y, float[N, C, m] Z) {
        [left] Y = MaxPool <kernel_shape = [3]> (X)
        [right] Z = MaxPool <kernel_shape = [2]> (X)
    }
""")


@kinds
def test_only_execute_path_to_fetches(kind: str) -> None:
    """A run that is told so runs those of our nodes that it runs of ONNX Runtime's own; that may well be all."""
    options = onnxruntime.RunOptions()
    options.only_execute_path_to_fetches = True
    profiling = quiet()
    profiling.enable_profiling = True
    theirs = onnxruntime.InferenceSession(BRANCHES.SerializeToString(), profiling)
    theirs.run(["Y"], {"X": X}, options)
    path = Path(theirs.end_profiling())
    names = {event["name"].removesuffix("_kernel_time") for event in json.loads(path.read_text())}
    path.unlink()
    with mp.record_calls() as calls:
        (y,) = make(kind, BRANCHES).run(["Y"], {"X": X}, options)
    assert {call.node for call in calls} == {f"MaxPool {name!r}" for name in names & {"left", "right"}}
    np.testing.assert_array_equal(y, Y)


@kinds
def test_the_tag_and_the_level_of_a_run(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    """What ONNX Runtime logs of a run bears its tag, if its level says so; the options stay what they were.

    A session of ours stops a failed run, which is nothing to log.
    """
    options = quiet()
    options.log_severity_level = 3
    session = make(kind, DYNAMIC, options)
    for level, is_logged in ((3, True), (4, False)):
        run_options = onnxruntime.RunOptions()
        run_options.logid = "my-run"
        run_options.log_severity_level = level
        with pytest.raises(Exception, match=r"MaxPool 'pool1'|maxpool_ort/Y/guard"):
            session.run(None, {"X": X[..., :1]}, run_options)
        assert ("my-run" in capfd.readouterr().err) == (is_logged and kind == "plain")
        assert (run_options.logid, run_options.log_severity_level, run_options.terminate) == ("my-run", level, False)


@kinds
def test_a_profile_tells_our_nodes_apart(kind: str, tmp_path: Path) -> None:
    """Each stands in it by its name, with operator, shapes, and a time that is not below the one that we measure."""
    options = quiet()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = make(kind, onnx.load(ROOT / "models/digits.onnx"), options)
    with mp.record_calls() as calls:
        session.run(None, {"image": np.zeros((4, 1, 8, 8), np.float32)})
    assert session.get_profiling_start_time_ns() > 0
    path = Path(session.end_profiling())
    assert path.parent == tmp_path
    events = {event["name"]: event for event in json.loads(path.read_text())}
    for name, call in zip(("pool1", "pool2"), calls, strict=True):
        event = events[f"{name}_kernel_time"]
        assert event["args"]["op_name"] == "MaxPool"
        assert event["args"]["output_type_shape"] == [{"float": list(call.output_shape)}]
        assert call.seconds * 1e6 <= event["dur"] + 1  # whole microseconds
        assert event["dur"] <= events["model_run"]["dur"]


@kinds
@pytest.mark.parametrize("level", list(onnxruntime.GraphOptimizationLevel.__members__.values()), ids=str)
def test_an_optimized_model_that_was_saved(
    kind: str, level: onnxruntime.GraphOptimizationLevel, tmp_path: Path
) -> None:
    """At each level the same comes out, and what ONNX Runtime saves runs again, in both kinds of session and restored."""
    images = np.load(ROOT / "models/digits.npz")["image"]
    model = onnx.load(ROOT / "models/digits.onnx")
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString(), quiet(), CPU).run(None, {"image": images})
    options = quiet()
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    session = make(kind, model, options)
    saved = onnx.load(tmp_path / "optimized.onnx")
    plain_options = quiet()
    mp.register(plain_options)
    ours = mp.InferenceSession(tmp_path / "optimized.onnx", quiet())
    assert [node.reason for node in ours.skipped] == ["runs our operator already"] * 2
    plain = onnxruntime.InferenceSession(str(tmp_path / "optimized.onnx"), plain_options)
    for each in (session, ours, plain):
        with mp.record_calls() as calls:
            (got,) = each.run(None, {"image": images})
        assert [call.node for call in calls] == ["MaxPool 'pool1'", "MaxPool 'pool2'"]
        np.testing.assert_allclose(got, expected, atol=1e-5)
    restored = mp.restore_model(saved)
    assert [node.domain for node in restored.graph.node if node.op_type == "MaxPool"] == ["", ""]
    (got,) = onnxruntime.InferenceSession(restored.SerializeToString(), quiet()).run(None, {"image": images})
    np.testing.assert_allclose(got, expected, atol=1e-5)


# (id, what to set): a name and a value of SessionOptions, or of a config entry
SETTINGS: list[tuple[str, Any]] = [
    ("enable_mem_pattern", False),
    ("enable_cpu_mem_arena", False),
    ("enable_mem_reuse", False),
    ("use_deterministic_compute", True),
    ("execution_order", onnxruntime.ExecutionOrder.PRIORITY_BASED),
    ("intra_op_num_threads", 1),
    ("session.intra_op.allow_spinning", "0"),
    ("session.inter_op.allow_spinning", "0"),
    ("session.force_spinning_stop", "1"),
    ("session.set_denormal_as_zero", "1"),
    ("session.disable_prepacking", "1"),
    ("session.use_env_allocators", "1"),
    ("session.use_device_allocator_for_initializers", "1"),
    ("session.strict_shape_type_inference", "1"),
    ("session.load_model_format", "ONNX"),
    ("optimization.minimal_build_optimizations", ""),
]


@kinds
@pytest.mark.parametrize("model", [DYNAMIC, STATIC], ids=["dynamic", "static"])
@pytest.mark.parametrize(("name", "value"), SETTINGS, ids=[row[0] for row in SETTINGS])
def test_settings(kind: str, model: onnx.ModelProto, name: str, value: Any) -> None:
    """A session that is set otherwise gives the same."""
    options = quiet()
    if "." in name:
        options.add_session_config_entry(name, value)
    else:
        setattr(options, name, value)
    check(make(kind, model, options))


@kinds
def test_disabled_optimizers(kind: str) -> None:
    """The undocumented argument is handed on; without the optimizer that takes it out, an Identity is still there."""
    model = parse_model("""
        <ir_version: 8, opset_import: ["": 13]> main (float[N, C, L] X) => (float[N, C, l] Z) {
            [same] W = Identity (X)  [pool1] Y = MaxPool <kernel_shape = [3]> (W)  Z = Relu (Y) }
    """)
    names = []
    for disabled in ([], ["EliminateIdentity"]):
        options = quiet()
        options.enable_profiling = True
        session = make(kind, model, options, disabled_optimizers=disabled)
        np.testing.assert_array_equal(session.run(None, {"X": X})[0], np.maximum(Y, 0))
        path = Path(session.end_profiling())
        names.append({event["name"] for event in json.loads(path.read_text())})
        path.unlink()
    assert ["same_kernel_time" in each for each in names] == [False, True]


@kinds
def test_free_dimensions(kind: str) -> None:
    """A symbolic dimension that is fixed by its name is fixed for X, and a run with another size is refused."""
    options = quiet()
    options.add_free_dimension_override_by_name("N", 2)
    session = make(kind, BATCHES, options)
    assert session.get_inputs()[0].shape == [2, 3, 6]
    assert session.get_outputs()[0].shape == ["N", 3, 4]  # behind its own MaxPool ONNX Runtime tells the size
    check(session)
    with pytest.raises(Exception, match="Got invalid dimensions for input: X"):
        session.run(None, {"X": X[:1]})


# (id, providers, provider_options, those that the session has, warning)
PROVIDERS: list[tuple[str, list[Any], list[Any] | None, list[str], str]] = [
    ("CPU with options", [("CPUExecutionProvider", {})], None, CPU, ""),
    ("options apart", CPU, [{}], CPU, ""),
    ("twice", [*CPU, *CPU], None, CPU, "Duplicate provider 'CPUExecutionProvider'"),
    ("unknown", ["NoExecutionProvider", *CPU], None, CPU, "'NoExecutionProvider' is not in available provider names"),
    *(
        (name, [name, *CPU], None, [name, *CPU], "")
        for name in onnxruntime.get_available_providers()
        if name == "AzureExecutionProvider"  # all others need a device
    ),
]


@kinds
@pytest.mark.parametrize(
    ("providers", "options", "expected", "warning"), [row[1:] for row in PROVIDERS], ids=[row[0] for row in PROVIDERS]
)
def test_providers(kind: str, providers: list[Any], options: Any, expected: list[str], warning: str) -> None:
    """What runs beside the CPU's provider is handed on, with its options; warnings are onnxruntime's own."""
    if warning:
        with pytest.warns(UserWarning, match=warning):
            session = make(kind, DYNAMIC, providers=providers, provider_options=options)
    else:
        session = make(kind, DYNAMIC, providers=providers, provider_options=options)
    assert session.get_providers() == expected
    check(session)
    with (
        pytest.warns(UserWarning, match="NoExecutionProvider"),
        pytest.raises(Exception, match="Unknown Provider Type"),
    ):
        session.set_providers(["NoExecutionProvider"])
    session.set_providers(CPU)
    assert session.get_providers() == CPU
    check(session)


# --- initializers, and the model itself

WEIGHTED = parse_model("""
    <ir_version: 8, opset_import: ["": 13]> main (float[2, 3, 6] X) => (float[2, 3, 4] Y, int64[2, 3, 4] Indices)
    { Z = Add (X, W)  [pool1] Y, Indices = MaxPool <kernel_shape = [3]> (Z) }
""")
WEIGHTED.graph.initializer.append(numpy_helper.from_array(np.full((2, 3, 6), 9, np.float32), "W"))


@kinds
def test_initializers_of_the_caller(kind: str) -> None:
    """add_initializer lets sessions share weights: those that are given take the place of the model's."""
    options = quiet()
    zeros = OrtValue.ortvalue_from_numpy(np.zeros((2, 3, 6), np.float32))
    options.add_initializer("W", zeros)
    for _ in range(2):
        check(make(kind, WEIGHTED, options))


@pytest.mark.parametrize("form", ["path", "bytes"])
def test_external_initializers_of_the_caller(form: str, tmp_path: Path) -> None:
    """add_external_initializers gives the tensors themselves: the files that the model names need not be there."""
    path = tmp_path / "model.onnx"
    model = onnx.ModelProto()
    model.CopyFrom(WEIGHTED)
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").unlink()
    options = quiet()
    options.add_external_initializers(["W"], [OrtValue.ortvalue_from_numpy(np.zeros((2, 3, 6), np.float32))])
    check(mp.InferenceSession(path if form == "path" else path.read_bytes(), options))


class Somewhere(os.PathLike[str]):
    """A path that is neither text nor a Path."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        """The path."""
        return str(self.path)


def test_any_path(tmp_path: Path) -> None:
    """A model is read from whatever is a path; a session tells of the model's metadata what the model says."""
    model = onnx.ModelProto()
    model.CopyFrom(DYNAMIC)
    onnx.helper.set_model_props(model, {"author": "me"})
    model.model_version, model.domain, model.doc_string = 7, "mine", "a model"
    onnx.save(model, tmp_path / "model.onnx")
    session = mp.InferenceSession(Somewhere(tmp_path / "model.onnx"))
    check(session)
    theirs = onnxruntime.InferenceSession(str(tmp_path / "model.onnx")).get_modelmeta()
    ours = session.get_modelmeta()
    for name in ("custom_metadata_map", "description", "domain", "graph_name", "producer_name", "version"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.custom_metadata_map == {"author": "me"}
