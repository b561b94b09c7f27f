"""InferenceSession is a drop-in: every way to make one and every way to run one."""

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import maxpool_ort as mp

MODEL = mp.make_maxpool_model(kernel_shape=[2, 2], input_shape=["N", 3, 8, 8], strides=[2, 2], with_indices=True)
X = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
Y, INDICES = mp.max_pool(X, [2, 2], strides=[2, 2], return_indices=True)


def check(outputs: Any) -> None:
    """Both outputs are the right ones."""
    y, indices = outputs
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(indices, INDICES)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The model as a file."""
    onnx.save(MODEL, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_signature() -> None:
    """The parameters are those of onnxruntime's session, in its order, and select, by its name only."""
    theirs = inspect.signature(onnxruntime.InferenceSession.__init__).parameters
    ours = dict(inspect.signature(mp.InferenceSession.__init__).parameters)
    assert ours.pop("select").kind == inspect.Parameter.KEYWORD_ONLY
    assert list(ours) == list(theirs)
    assert [(p.kind, p.default) for p in ours.values()] == [(p.kind, p.default) for p in theirs.values()]


@pytest.mark.parametrize("kind", ["str", "Path", "bytes", "ModelProto"])
def test_takes_a_model_in_any_form(path: Path, kind: str) -> None:
    """A path, the bytes, or the message."""
    model = {"str": str(path), "Path": path, "bytes": path.read_bytes(), "ModelProto": MODEL}[kind]
    session = mp.InferenceSession(model, None, ["CPUExecutionProvider"])
    assert isinstance(session, onnxruntime.InferenceSession)
    check(session.run(None, {"X": X}))


def test_takes_a_converted_model() -> None:
    """A model that was converted before runs too, and says that it was."""
    session = mp.InferenceSession(mp.convert_model(MODEL).model)
    assert [node.reason for node in session.skipped] == ["runs our operator already"]
    check(session.run(None, {"X": X}))


@pytest.mark.parametrize("model", [3, None, ["model.onnx"]])
def test_refuses_anything_else(model: object) -> None:
    """What is no model is a TypeError that says what would be one."""
    with pytest.raises(TypeError, match=r"expected a path, bytes or an onnx.ModelProto, got "):
        mp.InferenceSession(model)


def test_run_in_each_way() -> None:
    """run with some outputs, run_with_ort_values, run_with_iobinding, run_with_ortvaluevector."""
    session = mp.InferenceSession(MODEL)
    with mp.record_calls() as calls:
        np.testing.assert_array_equal(session.run(["Indices"], {"X": X})[0], INDICES)
        check(session.run(input_feed={"X": X}, output_names=None, run_options=onnxruntime.RunOptions()))
        value = onnxruntime.OrtValue.ortvalue_from_numpy(X)
        check(output.numpy() for output in session.run_with_ort_values(None, {"X": value}))
        binding = session.io_binding()
        binding.bind_cpu_input("X", X)
        binding.bind_output("Y")
        binding.bind_output("Indices")
        session.run_with_iobinding(binding)
        check(binding.copy_outputs_to_cpu())
    assert len(calls) == 4


def test_describes_itself_as_the_original() -> None:
    """Inputs, outputs, providers and metadata are those of the model that was given."""
    session = mp.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    theirs = onnxruntime.InferenceSession(MODEL.SerializeToString(), providers=["CPUExecutionProvider"])
    for read in ("get_inputs", "get_outputs", "get_overridable_initializers"):
        ours_args, their_args = getattr(session, read)(), getattr(theirs, read)()
        assert [(a.name, a.type, a.shape) for a in ours_args] == [(a.name, a.type, a.shape) for a in their_args]
    assert session.get_providers() == theirs.get_providers() == ["CPUExecutionProvider"]
    assert session.get_provider_options() == theirs.get_provider_options()
    assert session.get_modelmeta().producer_name == "maxpool_ort"
    assert session.get_modelmeta().graph_name == "maxpool"


def test_set_providers_makes_the_session_again() -> None:
    """A session that onnxruntime makes again from what it keeps still runs our operator."""
    session = mp.InferenceSession(MODEL)
    session.set_providers(["CPUExecutionProvider"])
    with mp.record_calls() as calls:
        check(session.run(None, {"X": X}))
    assert len(calls) == 1


def test_profiling_shows_our_node(tmp_path: Path) -> None:
    """end_profiling writes a profile in which our node stands under its own name."""
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = mp.InferenceSession(MODEL, options)
    check(session.run(None, {"X": X}))
    assert session.get_profiling_start_time_ns() > 0
    events = json.loads(Path(session.end_profiling()).read_text())
    assert "maxpool_kernel_time" in {event["name"] for event in events}


@pytest.mark.parametrize("level", list(onnxruntime.GraphOptimizationLevel.__members__.values()), ids=str)
@pytest.mark.parametrize("mode", list(onnxruntime.ExecutionMode.__members__.values()), ids=str)
def test_session_options(level: onnxruntime.GraphOptimizationLevel, mode: onnxruntime.ExecutionMode) -> None:
    """Each optimization level and execution mode gives the same, also behind a guard and between Casts."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.execution_mode = mode
    options.inter_op_num_threads = 2
    check(mp.InferenceSession(MODEL, options).run(None, {"X": X}))
    dynamic = mp.make_maxpool_model(
        kernel_shape=[2, 2], input_shape=["N", "C", "H", "W"], dtype="float16", strides=[2, 2], with_indices=True
    )
    half = X.astype(np.float16)
    y, indices = mp.InferenceSession(dynamic, options).run(None, {"X": half})
    expected = mp.max_pool(half, [2, 2], strides=[2, 2], return_indices=True)
    np.testing.assert_array_equal(y, expected[0])
    np.testing.assert_array_equal(indices, expected[1])


def test_a_model_without_maxpool_runs_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing to convert is no error; converted is empty, and so is skipped."""
    model = onnx.parser.parse_model(
        '<ir_version: 7, opset_import: ["": 12]> relu (float[N] X) => (float[N] Y) { Y = Relu(X) }'
    )
    session = mp.InferenceSession(model)
    assert (session.converted, session.skipped) == ((), ())
    assert session.run(None, {"X": np.array([-1, 2], np.float32)})[0].tolist() == [0, 2]
    assert "no MaxPool node in this model; nothing was converted" in str(mp.convert_model(model))
    assert not caplog.records


def test_a_node_that_is_left_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A MaxPool that onnxruntime's own operator runs is never left in silence."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 15, "local": 1]>
        main (float[1, 1, 4] X) => (float[1, 1, 4] Y) { Y = Relu (X) }
        <domain: "local", opset_import: ["": 15]> idle (x) => (y) { [pool1] y = MaxPool <kernel_shape = [2]> (x) }
    """)
    session = mp.InferenceSession(model)
    assert session.run(None, {"X": np.array([[[1, 3, 2, 0]]], np.float32)})[0].shape == (1, 1, 4)
    assert [record.getMessage() for record in caplog.records] == [
        "MaxPool 'pool1' in function 'idle' does not run our operator: nothing calls the function"
    ]


# (id, feed, text)
BAD_FEEDS: list[tuple[str, dict[str, np.ndarray], str]] = [
    ("wrong name", {"x": X}, r"Required inputs \(\['X'\]\) are missing from input feed \(\['x'\]\)"),
    ("wrong dtype", {"X": X.astype(np.float64)}, r"Actual: \(tensor\(double\)\) , expected: \(tensor\(float\)\)"),
    ("wrong rank", {"X": X[0]}, "Invalid rank for input: X Got: 3 Expected: 4"),
    ("wrong size", {"X": X[..., :7]}, "Got invalid dimensions for input: X"),
]


@pytest.mark.parametrize(("feed", "text"), [row[1:] for row in BAD_FEEDS], ids=[row[0] for row in BAD_FEEDS])
def test_bad_feeds(feed: dict[str, np.ndarray], text: str) -> None:
    """What does not fit the graph's inputs is refused by onnxruntime, in its words, and the session stays usable."""
    session = mp.InferenceSession(MODEL)
    with pytest.raises(Exception, match=text):
        session.run(None, feed)
    check(session.run(None, {"X": X}))


# (id, shape of X, text): the model declares no shape at all
BAD_SHAPES: list[tuple[str, tuple[int, ...], str]] = [
    (
        "rank",
        (1, 1, 5),
        r"MaxPool 'pool1': X must have rank 4 \(N, C and one axis for each .* got rank 3: shape \(1, 1, 5\)",
    ),
    (
        "size",
        (1, 1, 5, 2),
        r"MaxPool 'pool1': output size of spatial axis D2 must be >= 0, got -2: input 2 \+ pads 0 and 0 is too small "
        r"for the effective kernel extent 5 \(kernel 3, dilation 2\) at stride 1; use a smaller kernel",
    ),
]


@pytest.mark.parametrize(("shape", "text"), [row[1:] for row in BAD_SHAPES], ids=[row[0] for row in BAD_SHAPES])
@pytest.mark.parametrize("mode", list(onnxruntime.ExecutionMode.__members__.values()), ids=str)
def test_bad_shapes(shape: tuple[int, ...], text: str, mode: onnxruntime.ExecutionMode) -> None:
    """A shape that turns out not to fit the attributes is our error, with the node and all numbers, in either mode."""
    model = onnx.parser.parse_model("""
        <ir_version: 7, opset_import: ["": 12]>
        main (float[N] values, int64[R] shape) => (float[M] Z) {
            X = Reshape (values, shape)
            [pool1] Y = MaxPool <kernel_shape = [3, 3], dilations = [2, 2]> (X)
            minus = Constant <value = int64[1] {-1}> ()
            Z = Reshape (Y, minus)
        }
    """)
    options = onnxruntime.SessionOptions()
    options.execution_mode = mode
    session = mp.InferenceSession(model, options)
    feed = {"values": np.zeros(int(np.prod(shape)), np.float32), "shape": np.array(shape)}
    with pytest.raises(mp.InvalidShapeError, match=text):
        session.run(None, feed)
    (z,) = session.run(None, {"values": np.arange(25, dtype=np.float32), "shape": np.array([1, 1, 5, 5])})
    assert z.tolist() == [24]
