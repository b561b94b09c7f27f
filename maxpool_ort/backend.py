"""ONNX's Backend interface (``onnx.backend.base``): what ONNX's own test suite talks to.

>>> import numpy as np
>>> from maxpool_ort.model import make_maxpool_node
>>> run_node(make_maxpool_node([2]), [np.array([[[1, 3, 2]]], np.float32)])
(array([[[3., 3.]]], dtype=float32),)
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TypeProto, helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType
from onnx.shape_inference import infer_shapes

from maxpool_ort.errors import MaxPoolError
from maxpool_ort.schema import DOMAIN, IMPORTED_VERSION, shown
from maxpool_ort.session import InferenceSession

__all__ = [
    "MaxPoolBackend", "MaxPoolBackendRep",
    "is_compatible", "prepare", "run_model", "run_node", "supports_device",
]  # fmt: skip


class MaxPoolBackendRep(BackendRep):
    """A model, ready to run."""

    def __init__(self, session: InferenceSession) -> None:
        self.session = session

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run on one array for each graph input, in order, or on a mapping from their names; outputs in order."""
        names = [each.name for each in self.session.get_inputs()]
        if len(inputs) > len(names):
            raise MaxPoolError(
                f"inputs must be at most {len(names)}, one for each of {shown(names)}, got {len(inputs)}"
            )
        feed = inputs if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=False))
        return tuple(self.session.run(None, feed, **kwargs))


class MaxPoolBackend(Backend):
    """ONNX Runtime on the CPU, with every MaxPool running our operator."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:  # noqa: ARG003 (any model is)
        """Whether models run on the device."""
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> MaxPoolBackendRep:
        """Make a session; ``kwargs`` go to ``InferenceSession``."""
        cls._check(device)
        kwargs.setdefault("providers", ["CPUExecutionProvider"])
        return MaxPoolBackendRep(InferenceSession(model, **kwargs))

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """``prepare``, then run once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,  # noqa: ARG003 (inferred instead)
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node, ours or ONNX's, on one array for each of its inputs; ``opset_version`` is 12 unless given."""
        imports = [helper.make_opsetid("", kwargs.pop("opset_version", 12))]
        arrays = dict(zip((name for name in node.input if name), map(np.asarray, inputs), strict=True))
        graph_inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in arrays.items()
        ]
        graph_outputs = [helper.make_value_info(name, TypeProto()) for name in node.output if name]
        graph = helper.make_graph([node], "run_node", graph_inputs, graph_outputs)
        ir_version = helper.find_min_ir_version_for(imports)
        if node.domain == DOMAIN:
            imports.append(helper.make_opsetid(DOMAIN, IMPORTED_VERSION))
        model = infer_shapes(helper.make_model(graph, opset_imports=imports, ir_version=ir_version))
        return cls.run_model(model, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Only the CPU: PyOp runs nowhere else."""
        try:
            return bool(Device(device).type == DeviceType.CPU)
        except (AttributeError, ValueError):  # no device that onnx knows
            return False

    @classmethod
    def _check(cls, device: str) -> None:
        if not cls.supports_device(device):
            raise MaxPoolError(f"device must be CPU, got {device}")


is_compatible = MaxPoolBackend.is_compatible
prepare = MaxPoolBackend.prepare
run_model = MaxPoolBackend.run_model
run_node = MaxPoolBackend.run_node
supports_device = MaxPoolBackend.supports_device
