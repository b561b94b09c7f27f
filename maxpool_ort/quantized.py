"""MaxPool between DequantizeLinear and QuantizeLinear of equal parameters: it can take the integers themselves.

The maximum commutes with a map that keeps the order. That this map keeps it, and that the way back leads to the same
integer, is tried out for every integer of 8 bits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, numpy_helper
from onnx.external_data_helper import uses_external_data

from maxpool_ort.graphs import ONNX_DOMAINS, TensorType, all_nodes, is_maxpool, subgraphs
from maxpool_ort.schema import DOMAIN

__all__ = ["Fold", "find_folds"]

Array = NDArray[Any]

_DOMAINS = (*ONNX_DOMAINS, "com.microsoft")
_DTYPES: dict[int, np.dtype[Any]] = {TensorProto.INT8: np.dtype(np.int8), TensorProto.UINT8: np.dtype(np.uint8)}
_SHIFT = 128
"""From int8 to uint8."""


@dataclass(frozen=True)
class Fold:
    """What a MaxPool takes from before the DequantizeLinear in front of it: 8-bit integers."""

    dequantize: NodeProto
    element_type: int
    shifted: Array | None
    """The zero point of uint8 in the place of that of int8; None to keep the node's own."""


def find_folds(graph: GraphProto, types: Mapping[str, TensorType]) -> dict[int, Fold]:
    """The MaxPool nodes of a graph that can take integers instead, by their indices."""
    makers = {name: node for node in graph.node for name in node.output if name}
    users = _users(graph)
    captured = _captured(graph)
    constants = _constants(graph)
    folds = {}
    for index, node in enumerate(graph.node):
        if not is_maxpool(node) or node.domain == DOMAIN or not node.input or not node.output:
            continue
        before, after = makers.get(node.input[0]), users.get(node.output[0], [])
        if before is None or not after or not _is(before, "DequantizeLinear"):
            continue
        x = types.get(before.input[0])
        ends = {*before.output, *(name for user in after if user is not None for name in user.output)}
        if (
            x is not None
            and not ends & captured
            and all(
                user is not None and user.input[0] == node.output[0] and _are_inverse(before, user, x, constants)
                for user in after
            )
        ):
            folds[index] = _fold(before, x.element_type, makers.get(before.input[0]), constants)
    return folds


def _fold(
    dequantize: NodeProto, element_type: int, maker: NodeProto | None, constants: Mapping[str, TensorProto]
) -> Fold:
    """Integers as they come, but in the middle of a network as uint8.

    There ONNX Runtime makes uint8 of int8 by itself on most processors, pair by pair of QuantizeLinear and
    DequantizeLinear, and fuses only those; in between it takes out what is inverse.
    """
    if element_type == TensorProto.INT8 and maker is not None and _is(maker, "QuantizeLinear"):
        zero_point = numpy_helper.to_array(constants[dequantize.input[2]])
        return Fold(dequantize, TensorProto.UINT8, (zero_point.astype(np.int16) + _SHIFT).astype(np.uint8))
    return Fold(dequantize, element_type, None)


def _captured(graph: GraphProto) -> set[str]:
    """What the graphs inside take, among it all that is around them.

    ONNX Runtime (1.32) ends the process where it takes out a pair of which a graph inside takes the end.
    """
    bodies = [body for node in graph.node for _, body in subgraphs(node)]
    names = {name for body in bodies for inner in all_nodes(body) for name in inner.input}
    return names | {output.name for body in bodies for output in body.output}


def _users(graph: GraphProto) -> dict[str, list[NodeProto | None]]:
    """For each tensor the nodes that take it, and None if it is an output of the graph or taken by a graph inside."""
    users: dict[str, list[NodeProto | None]] = {}
    for node in graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    for name in {output.name for output in graph.output} | _captured(graph):
        users.setdefault(name, []).append(None)
    return users


def _constants(graph: GraphProto) -> dict[str, TensorProto]:
    """Tensors whose elements are in the graph, and the same in every run."""
    fed = {value.name for value in graph.input}  # an initializer of that name may be replaced at a run
    constants = {t.name: t for t in graph.initializer if t.name not in fed and not uses_external_data(t)}
    for node in graph.node:
        if node.op_type == "Constant" and node.domain in ONNX_DOMAINS and node.output:
            constants.update((node.output[0], a.t) for a in node.attribute if a.type == AttributeProto.TENSOR)
    return constants


def _is(node: NodeProto, op_type: str) -> bool:
    return node.op_type == op_type and node.domain in _DOMAINS and 2 <= len(node.input) <= 3 and len(node.output) == 1


def _are_inverse(
    dequantize: NodeProto, quantize: NodeProto, x: TensorType, constants: Mapping[str, TensorProto]
) -> bool:
    """Whether what the first gives for each integer rises with it, and the second makes the same integer of it."""
    if not _is(quantize, "QuantizeLinear"):
        return False
    dtype = _DTYPES.get(x.element_type)
    given, other = (_parameters(node, constants) for node in (dequantize, quantize))
    if dtype is None or given is None or other is None:
        return False
    scale, zero_point, axis = given
    if zero_point.dtype != dtype or other.zero_point.dtype != dtype or scale.dtype != np.float32:
        return False
    if not (np.array_equal(scale, other.scale) and np.array_equal(zero_point, other.zero_point)):
        return False
    if scale.size > 1 and not (axis == other.axis and axis in (0, 1)):  # a window may lie across other axes
        return False
    integers = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1)
    with np.errstate(all="ignore"):
        reals = (integers - zero_point.reshape(-1, 1).astype(np.int64)).astype(np.float32) * scale.reshape(-1, 1)
        back = np.rint(reals / scale.reshape(-1, 1)) + zero_point.reshape(-1, 1)
    return bool((reals[:, 1:] > reals[:, :-1]).all() and (back == integers).all())


class _Parameters(NamedTuple):
    scale: Array
    zero_point: Array
    axis: int


def _parameters(node: NodeProto, constants: Mapping[str, TensorProto]) -> _Parameters | None:
    """Scale, zero point and axis, where all are constant and nothing else is set."""
    names = [name for name in node.input[1:] if name]
    if not all(name in constants for name in names):
        return None
    attributes = {attribute.name: attribute for attribute in node.attribute}
    if any(name not in {"axis", "saturate"} for name in attributes):  # blocks, other types
        return None
    try:
        scale, *zero_points = [numpy_helper.to_array(constants[name]) for name in names]
    except (KeyError, TypeError, ValueError):  # a damaged tensor: ONNX Runtime will say so
        return None
    zero_point = zero_points[0] if zero_points else np.zeros(scale.shape, np.uint8)
    if scale.ndim > 1 or zero_point.size != scale.size or not scale.size:
        return None
    return _Parameters(scale.ravel(), zero_point.ravel(), attributes["axis"].i if "axis" in attributes else 1)
