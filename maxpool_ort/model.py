"""The one place that builds graphs: standard MaxPool nodes and models, and the nodes that a conversion puts in."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, defs, helper, numpy_helper

from maxpool_ort import wire
from maxpool_ort.array import DTYPES
from maxpool_ort.errors import InvalidAttributeError, UnsupportedTypeError
from maxpool_ort.geometry import AutoPad
from maxpool_ort.schema import (
    DOMAIN,
    OP_TYPE,
    OP_TYPE_WITH_INDICES,
    MaxPoolAttributes,
    check_version,
    describe,
    plain_dims,
)

__all__ = [
    "is_declaration",
    "is_helper",
    "make_cast",
    "make_constant",
    "make_copied_dims",
    "make_declaration",
    "make_dequantize",
    "make_guard",
    "make_maxpool_model",
    "make_maxpool_node",
    "make_pyop_node",
    "make_quantize",
]

_DECLARATION = "declared by maxpool_ort"
_HELPER = "put in by maxpool_ort"
"""Doc strings that tell what is a conversion's own."""


def make_maxpool_node(
    kernel_shape: Sequence[int],
    *,
    inputs: Sequence[str] = ("X",),
    outputs: Sequence[str] = ("Y",),
    name: str = "",
    auto_pad: AutoPad | str | None = None,
    ceil_mode: int | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    storage_order: int | None = None,
    strides: Sequence[int] | None = None,
) -> NodeProto:
    """A standard MaxPool node, its attributes checked; those that are not given are left out.

    Parameters
    ----------
    kernel_shape, auto_pad, ceil_mode, dilations, pads, storage_order, strides
        The attributes, see ``MaxPoolAttributes``.
    inputs, outputs
        Tensor names: X; Y, or Y and Indices.
    name
        The node's name.

    Raises
    ------
    InvalidAttributeError
        If an attribute is not what the operator's page allows.

    Examples
    --------
    >>> node = make_maxpool_node([3, 3], strides=[2, 2], outputs=["Y", "Indices"], name="pool1")
    >>> node.op_type, list(node.output), sorted(attribute.name for attribute in node.attribute)
    ('MaxPool', ['Y', 'Indices'], ['kernel_shape', 'strides'])
    """
    given = {
        "kernel_shape": kernel_shape,
        "auto_pad": auto_pad,
        "ceil_mode": ceil_mode,
        "dilations": dilations,
        "pads": pads,
        "storage_order": storage_order,
        "strides": strides,
    }
    given = {key: value for key, value in given.items() if value is not None}
    checked = MaxPoolAttributes(**given)  # type: ignore[arg-type]
    values = {key: getattr(checked, key) for key in given}
    if "auto_pad" in values:
        values["auto_pad"] = checked.auto_pad.value
    return helper.make_node(OP_TYPE, inputs, outputs, name=name, **values)


def make_maxpool_model(
    kernel_shape: Sequence[int],
    input_shape: Sequence[int | str | None],
    *,
    dtype: DTypeLike = "float32",
    with_indices: bool = False,
    opset: int = 12,
    name: str = "maxpool",
    auto_pad: AutoPad | str | None = None,
    ceil_mode: int | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    storage_order: int | None = None,
    strides: Sequence[int] | None = None,
) -> ModelProto:
    """A model of one standard MaxPool node: X in, Y and optionally Indices out.

    Parameters
    ----------
    kernel_shape, auto_pad, ceil_mode, dilations, pads, storage_order, strides
        The attributes, see ``MaxPoolAttributes``; those that are not given are left out.
    input_shape
        (N, C, D1, ..., Dr); a string is a symbolic dimension, None an unknown one.
    dtype
        float16, float32, float64, int8 or uint8 (the last two from opset 12 on).
    with_indices
        Whether the model also puts out Indices.
    opset
        Version of the ONNX operator set, 8 or newer. The IR version is the lowest that goes with it.
    name
        Name of the graph and of the node.

    Raises
    ------
    InvalidAttributeError
        If an attribute is not what the page allows, or is newer than the opset.
    InvalidShapeError
        If ``input_shape`` does not fit the attributes.
    UnsupportedTypeError
        If that opset's MaxPool does not take the dtype.

    Examples
    --------
    >>> model = make_maxpool_model(kernel_shape=[2, 2], input_shape=["N", 3, 8, 8], strides=[2, 2])
    >>> model.ir_version, [d.dim_param or d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim]
    (7, ['N', 3, 4, 4])
    """
    node = make_maxpool_node(
        kernel_shape,
        outputs=["Y", "Indices"] if with_indices else ["Y"],
        name=name,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
        dilations=dilations,
        pads=pads,
        storage_order=storage_order,
        strides=strides,
    )
    newest = defs.onnx_opset_version()
    if not hasattr(opset, "__index__") or not 8 <= opset <= newest:
        raise InvalidAttributeError(
            f"opset must be an integer from 8 to {newest}, the newest that this onnx knows, got {opset!r}"
        )
    element_type = _element_type(dtype)
    check_version(node, opset, element_type)
    input_dims = plain_dims(input_shape)
    output_dims = MaxPoolAttributes.from_node(node).output_dims(input_dims)
    outputs = [helper.make_tensor_value_info("Y", element_type, output_dims)]
    if with_indices:
        outputs.append(helper.make_tensor_value_info("Indices", TensorProto.INT64, output_dims))
    graph = helper.make_graph([node], name, [helper.make_tensor_value_info("X", element_type, input_dims)], outputs)
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(
        graph, opset_imports=imports, ir_version=helper.find_min_ir_version_for(imports), producer_name="maxpool_ort"
    )


def _element_type(dtype: DTypeLike) -> int:
    expected = ", ".join(map(str, DTYPES))
    try:
        element = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError):  # NumPy reads texts and tables too
        raise UnsupportedTypeError(f"dtype must be one of {expected}, got {dtype!r}") from None
    if element not in DTYPES:
        raise UnsupportedTypeError(f"dtype must be one of {expected}, got {element}")
    return int(helper.np_dtype_to_tensor_dtype(element))


def make_pyop_node(node: NodeProto, attributes: MaxPoolAttributes) -> NodeProto:
    """The node of ours that takes the place of a standard MaxPool node, with its name, tensors and attributes."""
    ours = NodeProto()
    ours.CopyFrom(node)
    if node.HasField("domain"):
        ours.attribute.append(helper.make_attribute(wire.DOMAIN, node.domain))
    if len(node.output) > 1 and not node.output[1]:  # an absent Indices, spelled out: PyOp allows no such output
        ours.attribute.append(helper.make_attribute(wire.EMPTY_INDICES, 1))
        del ours.output[1]
    ours.domain = DOMAIN
    ours.op_type = OP_TYPE_WITH_INDICES if len(ours.output) > 1 else OP_TYPE
    ours.attribute.append(helper.make_attribute(wire.ATTRIBUTES, wire.encode(attributes)))
    ours.attribute.append(helper.make_attribute(wire.NODE, describe(node)))
    return ours


def make_node_before_pyop(ours: NodeProto) -> NodeProto:
    """The inverse of ``make_pyop_node``."""
    carried = wire.carried(ours)
    node = wire.strip(ours)
    node.op_type = OP_TYPE
    node.ClearField("domain")
    if wire.DOMAIN in carried:
        node.domain = carried[wire.DOMAIN].s.decode()
    if wire.EMPTY_INDICES in carried:
        node.output.append("")
    return node


def make_cast(x: str, y: str, element_type: int, opset: int, *, name: str) -> NodeProto:
    """A Cast node."""
    to = element_type if opset >= 6 else TensorProto.DataType.Name(element_type)
    return helper.make_node("Cast", [x], [y], name=name, doc_string=_HELPER, to=to)


def make_quantize(x: str, y: str, dequantize: NodeProto, zero_point: str | None, *, name: str) -> NodeProto:
    """The QuantizeLinear node that undoes a DequantizeLinear node, or one of another zero point."""
    node = make_dequantize(x, y, dequantize, zero_point, name=name)
    node.op_type = "QuantizeLinear"
    return node


def make_dequantize(x: str, y: str, like: NodeProto, zero_point: str | None, *, name: str) -> NodeProto:
    """A DequantizeLinear node like another one, but for its ends and, if it is given, its zero point."""
    node = helper.make_node("DequantizeLinear", [x, *like.input[1:]], [y], name=name, doc_string=_HELPER)
    node.attribute.extend(like.attribute)
    node.domain = like.domain
    if zero_point is not None:
        node.input[2] = zero_point
    return node


def make_constant(y: str, value: NDArray[Any]) -> NodeProto:
    """A Constant node, named by its output."""
    value = numpy_helper.from_array(value, y)
    return helper.make_node("Constant", [], [y], name=y, doc_string=_HELPER, value=value)


def make_guard(x: str, y: str, rank: int, copied_dims: str, opset: int, *, name: str) -> NodeProto:
    """A Reshape node that passes on every tensor of this rank, in place, and refuses all others.

    A failed operator of ours cannot raise (its process would end) and puts out a tensor of rank 1 instead.
    ``copied_dims`` is what ``make_copied_dims`` makes.
    """
    if opset < 5:  # Reshape-1 has its shape as an attribute
        return helper.make_node("Reshape", [x], [y], name=name, doc_string=_HELPER, shape=[0] * rank)
    return helper.make_node("Reshape", [x, copied_dims], [y], name=name, doc_string=_HELPER)


def make_copied_dims(y: str, rank: int, opset: int, zeros: str) -> list[NodeProto]:
    """What makes the shape that tells a Reshape to copy each of ``rank`` dimensions; nodes that are all named by it."""
    # A node, no initializer: before IR version 4 each initializer must be a graph input too.
    # Constant-1 makes no integers by its page, which onnx's checker minds; ONNX Runtime does not, and fails at Cast-1.
    if not 6 <= opset < 9:
        return [make_constant(y, np.zeros(rank, np.int64))]
    constant = make_constant(zeros, np.zeros(rank, np.float32))
    constant.name = y
    return [constant, make_cast(zeros, y, TensorProto.INT64, opset, name=y)]


def make_declaration(name: str, element_type: int, dims: Sequence[int | str | None]) -> ValueInfoProto:
    """What a conversion says of a tensor, told by its doc string."""
    return helper.make_tensor_value_info(name, element_type, dims, doc_string=_DECLARATION)


def is_helper(node: NodeProto) -> bool:
    """Whether it is one of the nodes that a conversion puts around those of ours."""
    return node.doc_string == _HELPER


def is_declaration(value: ValueInfoProto) -> bool:
    """Whether ``make_declaration`` made it."""
    return value.doc_string == _DECLARATION
