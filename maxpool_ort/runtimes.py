"""Runtimes that are held against the conformance kit: each a function from a model file and its inputs to outputs.

``python -m maxpool_ort.runtimes NAME FD`` is the process that one of them runs in; it talks over a pipe.
"""

from collections.abc import Callable, Mapping
import importlib
import importlib.util
from multiprocessing.connection import Connection
from pathlib import Path
import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
import onnx
import onnxruntime

from maxpool_ort.geometry import AutoPad
from maxpool_ort.schema import MaxPoolAttributes
from maxpool_ort.session import InferenceSession

__all__ = ["OURS", "RUNTIMES", "NotApplicable", "Runtime"]

Array = NDArray[Any]
Feed = Mapping[str, Array]

OURS = "maxpool_ort"


class NotApplicable(Exception):  # noqa: N818 (no error: there is nothing to judge)
    """What a model asks for cannot be said to this runtime at all."""


class Runtime(NamedTuple):
    """A runtime: the module that must be there, the package that has it, and how it runs a model."""

    module: str
    package: str
    run: Callable[[Path, Feed], list[Array]]

    @property
    def is_installed(self) -> bool:
        """Whether its module can be found."""
        return importlib.util.find_spec(self.module) is not None


def _ours(path: Path, feed: Feed) -> list[Array]:
    outputs: list[Array] = InferenceSession(path).run(None, dict(feed))
    return outputs


def _onnxruntime(path: Path, feed: Feed) -> list[Array]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    outputs: list[Array] = session.run(None, dict(feed))
    return outputs


def _reference(path: Path, feed: Feed) -> list[Array]:
    from onnx.reference import ReferenceEvaluator  # noqa: PLC0415 (slow to import)

    return list(ReferenceEvaluator(str(path)).run(None, dict(feed)))


def _openvino(path: Path, feed: Feed) -> list[Array]:
    import openvino  # noqa: PLC0415 (installed by who wants it)

    compiled = openvino.Core().compile_model(str(path), "CPU")
    found = compiled(dict(feed))
    return [found[output] for output in compiled.outputs]


def _opencv(path: Path, feed: Feed) -> list[Array]:
    import cv2  # noqa: PLC0415 (installed by who wants it)

    net = cv2.dnn.readNetFromONNX(str(path))
    for name, x in feed.items():
        net.setInput(x, name)
    found = net.forward([output.name for output in onnx.load(path).graph.output])
    return list(found)


def _tinygrad(path: Path, feed: Feed) -> list[Array]:
    import tinygrad  # noqa: PLC0415 (installed by who wants it)
    from tinygrad.nn.onnx import OnnxRunner  # noqa: PLC0415

    found = OnnxRunner(path)({name: tinygrad.Tensor(x) for name, x in feed.items()})
    return [found[output.name].numpy() for output in onnx.load(path).graph.output]


def _torch(path: Path, feed: Feed) -> list[Array]:
    """PyTorch reads no ONNX: its own function, where it has words for the attributes."""
    import torch  # noqa: PLC0415 (installed by who wants it)

    (node,) = onnx.load(path).graph.node
    a, x = MaxPoolAttributes.from_node(node), feed[node.input[0]]
    rank, with_indices = x.ndim - 2, len(node.output) > 1
    if rank > 3:
        raise NotApplicable(f"PyTorch has no pooling along {rank} axes")
    if a.auto_pad is not AutoPad.NOTSET:
        raise NotApplicable("PyTorch has no auto_pad")
    if a.pads[:rank] != a.pads[rank:]:
        raise NotApplicable("PyTorch pads both ends alike")
    if with_indices and a.storage_order:
        raise NotApplicable("PyTorch has no storage_order")
    pool = getattr(torch.nn.functional, f"max_pool{rank}d")
    y, indices = pool(
        torch.from_numpy(x.copy()), a.kernel_shape, a.strides, a.pads[:rank], a.dilations, bool(a.ceil_mode), True
    )
    of_plane = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *[1] * rank) * np.prod(x.shape[2:], dtype=int)
    return [y.numpy(), indices.numpy() + of_plane][: 1 + with_indices]


RUNTIMES = {
    OURS: Runtime("maxpool_ort", "maxpool_ort", _ours),
    "onnxruntime": Runtime("onnxruntime", "onnxruntime", _onnxruntime),
    "onnx.reference": Runtime("onnx", "onnx", _reference),
    "openvino": Runtime("openvino", "openvino", _openvino),
    "opencv": Runtime("cv2", "opencv-python-headless", _opencv),
    "tinygrad": Runtime("tinygrad", "tinygrad", _tinygrad),
    "torch": Runtime("torch", "torch", _torch),
}


def serve(runtime: str, connection: Connection) -> None:
    """Say what keeps the runtime from starting, or an empty text; then answer each model and its inputs."""
    try:
        found = RUNTIMES[runtime]
        importlib.import_module(found.module)
    except Exception as error:  # noqa: BLE001 (whatever it raises is the finding)
        connection.send(f"{type(error).__name__}: {error}")
        return
    connection.send("")
    while True:
        try:
            model, feed = connection.recv()
        except EOFError:
            return
        answer: tuple[str, Any]
        try:
            answer = "pass", [np.asarray(output) for output in found.run(model, feed)]
        except NotApplicable as error:
            answer = "n/a", str(error)
        except Exception as error:  # noqa: BLE001 (likewise)
            answer = "refused", f"{type(error).__name__}: {error}"
        connection.send(answer)


if __name__ == "__main__":
    serve(sys.argv[1], Connection(int(sys.argv[2])))
