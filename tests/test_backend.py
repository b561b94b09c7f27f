"""ONNX's own test suite for MaxPool, through the Backend interface; every test must have run our operator."""

from pathlib import Path
import re
from typing import Any
import unittest
import warnings

import numpy as np
import onnx
from onnx.backend.base import DeviceType
import onnx.backend.test
import pytest
from versions import knows_schemas

import maxpool_ort as mp
from maxpool_ort import backend

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the suite casts infinities while it builds its cases
    RUNNER = onnx.backend.test.BackendTest(backend, __name__)
NAMES = {
    category: sorted(name for name in items if re.fullmatch("test_(operator_)?maxpool.*_cpu", name, re.IGNORECASE))
    for category, items in RUNNER._test_items.items()  # noqa: SLF001
}
NODE = NAMES["NodeModel"]
PYTORCH = [*NAMES["PyTorchConvertedModel"], *NAMES["PyTorchOperatorModel"]]
REAL = sorted(name for name in RUNNER._test_items["RealModel"] if name.endswith("_cpu"))  # noqa: SLF001
"""Whole architectures."""


def test_the_suite_is_whole() -> None:
    """All official tests with a MaxPool are among those below: 19 of nodes, 9 converted from PyTorch, 9 whole models."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = onnx.backend.test.loader.load_model_tests(kind="node")
    holding = set()
    for case in cases:
        model = case.model or onnx.load(Path(case.model_dir) / "model.onnx")  # older onnx gives the file only
        if any(node.op_type == "MaxPool" for node in model.graph.node):
            holding.add(f"{case.name}_cpu")
    assert holding <= set(NODE)
    assert len(holding) >= 19
    assert len(PYTORCH) >= 9
    assert len(REAL) == 9


@pytest.mark.parametrize("name", [*NODE, *PYTORCH, *REAL])
def test_official(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An official test passes, and our operator ran in it."""
    monkeypatch.setenv("ONNX_MODELS", str(tmp_path))  # where the runner writes inputs and outputs of whole models
    (item,) = (items[name] for items in RUNNER._test_items.values() if name in items)  # noqa: SLF001
    with mp.record_calls() as calls:
        item.func(unittest.TestCase())
    assert calls


def test_prepare_and_run() -> None:
    """A prepared model runs on a list in the order of the inputs, and on a mapping from their names."""
    model = mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 3])
    x = np.array([[[1, 3, 2]]], np.float32)
    prepared = backend.prepare(model)
    for inputs in ([x], {"X": x}):
        assert [y.tolist() for y in prepared.run(inputs)] == [[[[3, 3]]]]
    assert [y.tolist() for y in backend.run_model(model, [x], "CPU")] == [[[[3, 3]]]]
    assert backend.is_compatible(model)
    assert not backend.is_compatible(model, "CUDA")


# (dtype, outputs, opset)
NODES: list[tuple[str, list[str], int]] = [("float32", ["Y"], 8), ("float16", ["Y", "I"], 12), ("int8", ["Y"], 13)]


@pytest.mark.parametrize(("dtype", "outputs", "opset"), NODES)
def test_run_node(dtype: str, outputs: list[str], opset: int) -> None:
    """A single node runs with nothing known but its inputs."""
    node = mp.make_maxpool_node([2], outputs=outputs, strides=[2])
    got: tuple[Any, ...] = backend.run_node(node, [np.array([[[1, 3, 2, 4]]], dtype)], opset_version=opset)
    assert [(y.dtype, y.tolist()) for y in got] == [(dtype, [[[3, 4]]]), ("int64", [[[1, 3]]])][: len(outputs)]


@knows_schemas
def test_run_node_of_ours() -> None:
    """A node of a converted model runs by itself."""
    converted = mp.convert_model(mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 3], with_indices=True))
    (node,) = converted.model.graph.node
    got = backend.run_node(node, [np.array([[[1, 3, 2]]], np.float32)])
    assert [y.tolist() for y in got] == [[[[3, 3]]], [[[1, 1]]]]


def test_devices() -> None:
    """The CPU and nothing else."""
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA:1")
    assert onnx.backend.base.Device("CPU").type == DeviceType.CPU
    with pytest.raises(ValueError, match="device must be CPU, got CUDA"):
        backend.prepare(mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 3]), "CUDA")
