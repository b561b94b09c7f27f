"""A session goes through a pickle: to processes of multiprocessing, concurrent.futures and joblib's loky."""

from concurrent.futures import ProcessPoolExecutor
import multiprocessing
from pathlib import Path
import pickle

import joblib
import numpy as np
import onnx
from onnx import numpy_helper
import onnxruntime
import pytest

import maxpool_ort as mp

X = np.random.default_rng(0).standard_normal((2, 3, 9)).astype(np.float32)
SPAWN = multiprocessing.get_context("spawn")
FORK = multiprocessing.get_context("fork")


def model() -> onnx.ModelProto:
    """One MaxPool with Indices."""
    return mp.make_maxpool_model(kernel_shape=[2], input_shape=["N", 3, "L"], with_indices=True, name="pool1")


def work(session: mp.InferenceSession, x: np.ndarray) -> list[np.ndarray]:
    """What is done in the other process."""
    with mp.record_calls() as calls:
        outputs = session.run(None, {"X": x})
    assert len(calls) == 1
    return outputs


def check(outputs: list[np.ndarray], x: np.ndarray = X) -> None:
    """Outputs are those of max_pool."""
    for got, expected in zip(outputs, mp.max_pool(x, [2], return_indices=True), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_everything_is_kept() -> None:
    """Model, nodes, options, config entries and providers are what they were; pickled again, too."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 3
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.logid = "mine"
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = mp.InferenceSession(model(), options, ["CPUExecutionProvider"], select=lambda _: True)
    for _ in range(2):
        copy = pickle.loads(pickle.dumps(session))  # noqa: S301 (our own)
        assert (copy.converted, copy.skipped) == (session.converted, session.skipped)
        assert copy.get_providers() == ["CPUExecutionProvider"]
        got = copy.get_session_options()
        for name in ("intra_op_num_threads", "execution_mode", "graph_optimization_level", "logid"):
            assert getattr(got, name) == getattr(options, name)
        assert got.get_session_config_entry("session.intra_op.allow_spinning") == "0"
        check(work(copy, X))
        with pytest.raises(mp.InvalidShapeError, match="MaxPool 'pool1'"):
            copy.run(None, {"X": X[..., :0]})
        session = copy


def test_external_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files beside a model are found again, from another working folder."""
    network = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 13]>
        main (float[2, 3, 9] X) => (float[2, 3, 8] Y, int64[2, 3, 8] I) { Z = Add (X, W)  Y, I = MaxPool <kernel_shape = [2]> (Z) }
    """)
    network.graph.initializer.append(numpy_helper.from_array(np.zeros((1, 3, 9), np.float32), "W"))
    monkeypatch.chdir(tmp_path)
    onnx.save(network, "model.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    data = pickle.dumps(mp.InferenceSession("model.onnx"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    check(work(pickle.loads(data), X))  # noqa: S301 (our own)
    for name in ("model.onnx", "w.bin"):  # links to files of other names
        (tmp_path / f"blob-{name}").write_bytes((tmp_path / name).read_bytes())
        Path(name).symlink_to(f"../blob-{name}")
    session = mp.InferenceSession("model.onnx")
    for _ in range(2):
        session = pickle.loads(pickle.dumps(session))  # noqa: S301 (our own)
        check(work(session, X))


@pytest.mark.parametrize("context", [SPAWN, FORK], ids=["spawn", "fork"])
@pytest.mark.parametrize("pool", ["multiprocessing", "futures"])
def test_processes(context: multiprocessing.context.BaseContext, pool: str) -> None:
    """Worker processes run the session that was sent to them; also forked ones, after it has been used here."""
    session = mp.InferenceSession(model())
    inputs = [X * number for number in range(-2, 3)]
    if context is SPAWN:  # a forked child has ONNX Runtime's threads of its parent no more
        check(work(session, X))
    if pool == "multiprocessing":
        with context.Pool(2) as workers:
            results = workers.starmap(work, [(session, x) for x in inputs])
    else:
        with ProcessPoolExecutor(2, mp_context=context) as workers:
            results = list(workers.map(work, [session] * len(inputs), inputs))
    for x, outputs in zip(inputs, results, strict=True):
        check(outputs, x)


def test_joblib() -> None:
    """Joblib's workers too."""
    session = mp.InferenceSession(model())
    for outputs in joblib.Parallel(2)(joblib.delayed(work)(session, X) for _ in range(4)):
        check(outputs)
