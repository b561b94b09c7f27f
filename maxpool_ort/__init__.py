"""ONNX MaxPool-12 for ONNX Runtime as an exact, vectorized NumPy operator.

>>> import numpy as np, maxpool_ort as mp
>>> mp.max_pool(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4), [2, 2], strides=[2, 2])
array([[[[ 5.,  7.],
         [13., 15.]]]], dtype=float32)
"""

from typing import TYPE_CHECKING

from maxpool_ort.array import max_pool
from maxpool_ort.convert import Conversion, convert_file, convert_model, restore_file, restore_model
from maxpool_ort.decide import ConvertedNode, SkippedNode
from maxpool_ort.errors import (
    InvalidAttributeError,
    InvalidModelError,
    InvalidShapeError,
    MaxPoolError,
    MemoryLimitError,
    MissingDependencyError,
    UnsupportedTypeError,
)
from maxpool_ort.failures import failure_of
from maxpool_ort.geometry import AutoPad, Axis, Geometry
from maxpool_ort.kernel import get_num_threads, set_num_threads
from maxpool_ort.limits import get_memory_limit, set_memory_limit
from maxpool_ort.model import make_maxpool_model, make_maxpool_node
from maxpool_ort.op import Call, record_calls, register
from maxpool_ort.opset import register_schemas
from maxpool_ort.repair import RepairedShape
from maxpool_ort.schema import MaxPoolAttributes
from maxpool_ort.session import InferenceSession

__version__ = "0.1.0"

if TYPE_CHECKING:
    from onnx.reference.op_run import OpRun

    reference_ops: list[type[OpRun]]
else:

    def __getattr__(name: str) -> object:
        """``reference_ops``, a new list each time: the evaluator that it is for appends to it."""
        if name == "reference_ops":
            from maxpool_ort.reference import make_reference_ops  # noqa: PLC0415 (few need it)

            return make_reference_ops()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


register_schemas()

__all__ = [  # noqa: RUF022 (grouped by what they are for)
    # on arrays
    "max_pool", "MaxPoolAttributes", "AutoPad", "Axis", "Geometry",
    # in sessions
    "InferenceSession", "register", "failure_of", "record_calls", "Call",
    # threads and memory
    "set_num_threads", "get_num_threads", "set_memory_limit", "get_memory_limit",
    # on models
    "make_maxpool_node", "make_maxpool_model",
    "convert_model", "convert_file", "restore_model", "restore_file", "Conversion", "ConvertedNode", "SkippedNode",
    "RepairedShape",
    # in onnx
    "reference_ops",
    # errors
    "MaxPoolError", "InvalidAttributeError", "InvalidModelError", "InvalidShapeError", "MemoryLimitError",
    "MissingDependencyError", "UnsupportedTypeError",
]  # fmt: skip
