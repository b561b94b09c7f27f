"""Our operators as onnx knows them: schemas with types and shapes, for its checker, its inference and what asks these.

``import maxpool_ort`` registers them. What is minded here was read and tried in onnx 1.18 to 1.23:

* ``onnx.reference`` cannot be imported once operators of two domains have the same name. So it is imported before: 30
  milliseconds, where the registration itself takes less than one.
* onnx destroys its schemas when the process ends. One whose inference is a Python function then needs the interpreter,
  which is no more: up to onnx 1.22 the process hangs or crashes. So ours are taken out before.
* Taking out a schema by which another thread infers would end the process. So at the end that waits for such threads,
  and before it what is there stays: ours, if this module is loaded again, or that of another copy of this package.
* A Python exception comes out of onnx's inference as it is; unlike its own errors, also where ``strict_mode`` is off.
* onnx 1.18 takes no inference function from Python. A schema without one is worse than none: strict inference then
  fails behind each node, which it does not behind operators that it does not know. So there it knows none of ours.
"""

import atexit
from contextlib import suppress
import sys
import time
from types import FrameType
from typing import Any

from onnx import AttributeProto, TensorProto, TypeProto, defs, helper
import onnx.reference  # noqa: F401 (before there are two operators of one name)
from onnx.shape_inference import InferenceError

from maxpool_ort import wire
from maxpool_ort.errors import MaxPoolError
from maxpool_ort.graphs import plain_shape
from maxpool_ort.schema import DOMAIN, IMPORTED_VERSION, OP_TYPE, OP_TYPE_WITH_INDICES

__all__ = ["register_schemas"]

_KIND = defs.OpSchema.AttrType
_CARRIED = {
    wire.ATTRIBUTES: (True, _KIND.STRING, "All other attributes, as the one string that the operator reads."),
    wire.NODE: (True, _KIND.STRING, "What to call the node in messages."),
    wire.DOMAIN: (False, _KIND.STRING, "The domain of the MaxPool that this node was, if it was spelled out."),
    wire.EMPTY_INDICES: (False, _KIND.INT, "1 if that MaxPool had an empty name as its second output."),
    wire.Y: (False, _KIND.STRING, "The first output of that MaxPool, where nothing makes it any more."),
}
"""The attributes beside those of MaxPool: whether they are required, their attribute type, and what they are."""
_TYPES = ["tensor(float)", "tensor(double)", "tensor(int8)", "tensor(uint8)"]


def register_schemas() -> None:
    """Register our operators with onnx, unless they are already; not with onnx 1.18."""
    if not hasattr(defs.OpSchema, "set_type_and_shape_inference_function"):
        return
    for op_type, outputs in ((OP_TYPE, 1), (OP_TYPE_WITH_INDICES, 2)):
        if not defs.has(op_type, IMPORTED_VERSION, DOMAIN):
            defs.register_schema(_schema(op_type, outputs))
            atexit.register(_deregister, op_type)


def _deregister(op_type: str) -> None:
    for _ in range(1000):  # at most a second or so: a thread that is told to end inside onnx ends the process with it
        if not any(map(_is_inferring, sys._current_frames().values())):  # noqa: SLF001 (there is no other way)
            break
        time.sleep(0.001)
    with suppress(defs.SchemaError):  # somebody else has done it
        defs.deregister_schema(op_type, IMPORTED_VERSION, DOMAIN)


def _is_inferring(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code is not _infer.__code__:
        frame = frame.f_back
    return frame is not None


def _schema(op_type: str, outputs: int) -> defs.OpSchema:
    page = defs.get_schema("MaxPool", 12)
    schema = defs.OpSchema(
        op_type,
        DOMAIN,
        IMPORTED_VERSION,
        f"ONNX's MaxPool-12 as an operator in Python, with {' and '.join(['Y', 'Indices'][:outputs])}.",
        inputs=page.inputs,
        outputs=page.outputs[:outputs],
        type_constraints=[("T", _TYPES, "What PyOp takes."), ("I", ["tensor(int64)"], "Of Indices.")][:outputs],
        attributes=[
            *page.attributes.values(),
            *(
                defs.OpSchema.Attribute(name, kind, text, required=required)
                for name, (required, kind, text) in _CARRIED.items()
            ),
        ],
    )
    schema.set_type_and_shape_inference_function(_infer)
    return schema


def _infer(context: Any) -> None:
    """Types and shapes of the outputs, as far as those of X are known; ``context`` is onnx's InferenceContext."""
    x = context.get_input_type(0) or TypeProto()
    try:
        attributes = wire.decode(_text(context, wire.ATTRIBUTES))
        if x.tensor_type.HasField("shape"):
            dims = attributes.output_dims(plain_shape(x.tensor_type.shape))
        else:
            dims = (None,) * (2 + len(attributes.kernel_shape))
    except MaxPoolError as error:
        raise InferenceError(f"{_text(context, wire.NODE)}: {error}") from error
    for number, element_type in enumerate((x.tensor_type.elem_type, TensorProto.INT64)):
        if element_type and number < context.get_num_outputs():
            context.set_output_type(number, helper.make_tensor_type_proto(element_type, dims))


def _text(context: Any, name: str) -> str:
    attribute: AttributeProto = context.get_attribute(name) or AttributeProto()
    return attribute.s.decode("utf-8", "replace")
