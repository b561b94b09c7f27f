"""What the installed versions of onnx and onnxruntime do not do, for the tests that need it."""

import onnx
from onnx import TensorProto, helper
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument
import pytest

ONNX, ORT = (tuple(map(int, module.__version__.split(".")[:2])) for module in (onnx, onnxruntime))
NEWEST_IN_ANY_ORT = 22
"""The newest opset that every onnxruntime that this package allows knows."""

knows_schemas = pytest.mark.skipif(ONNX < (1, 19), reason="onnx takes schemas with inference in Python from 1.19 on")
describes_ort = pytest.mark.skipif(ORT < (1, 32), reason="what is said of the built-in MaxPool holds from 1.32 on")


def onnxruntime_knows(opset: int) -> bool:
    """Whether the installed onnxruntime takes models of an opset: asked with the simplest one."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "identity", [x], [y])
    imports = [helper.make_opsetid("", opset)]
    ir_version = helper.find_min_ir_version_for(imports, ignore_unknown=True)
    model = helper.make_model(graph, opset_imports=imports, ir_version=ir_version)
    try:
        onnxruntime.InferenceSession(model.SerializeToString())
    except (Fail, InvalidArgument):
        return opset <= NEWEST_IN_ANY_ORT
    return True


def skip_unless_known(opset: int) -> None:
    """Skip the rest of a test that runs a model of an opset that the installed onnxruntime is too old for."""
    if not onnxruntime_knows(opset):
        pytest.skip(f"onnxruntime {onnxruntime.__version__} does not know opset {opset}")
