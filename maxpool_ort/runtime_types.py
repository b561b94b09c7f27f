"""Element types that only ONNX Runtime knows: those behind operators of its own, as in models that it has optimized."""

from collections.abc import Collection

from onnx import ModelProto, TensorProto, ValueInfoProto
import onnxruntime

from maxpool_ort.graphs import without_large_initializers
from maxpool_ort.twin import defuse

__all__ = ["ask_runtime"]

_ELEMENT_TYPES: dict[str, int] = {
    "tensor(float16)": TensorProto.FLOAT16,
    "tensor(bfloat16)": TensorProto.BFLOAT16,
    "tensor(float)": TensorProto.FLOAT,
    "tensor(double)": TensorProto.DOUBLE,
    "tensor(int8)": TensorProto.INT8,
    "tensor(uint8)": TensorProto.UINT8,
}


def ask_runtime(model: ModelProto, names: Collection[str]) -> dict[str, int]:
    """Element types of tensors of a model's own graph, as ONNX Runtime infers them; nothing where it refuses the model.

    It is given the model without large and external initializers, which become inputs: nothing is read, nothing is run.
    """
    graph = without_large_initializers(model.graph)
    defuse(graph)  # it ends the process at the same nodes
    del graph.output[:]
    graph.output.extend(ValueInfoProto(name=name) for name in sorted(names))
    asked = ModelProto(
        ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions, graph=graph
    )
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            asked.SerializeToString(), options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
    except Exception:  # noqa: BLE001 (whatever it is: then nothing is known)
        return {}
    found = {output.name: _ELEMENT_TYPES.get(output.type) for output in session.get_outputs()}
    return {name: element_type for name, element_type in found.items() if element_type is not None}
