"""Declared shapes that no run has: the true ones in their place, and back.

Beside a shape that was repaired stands the one that was declared, as metadata: its bytes in hexadecimal. What a
conversion declares by itself is told by its doc string.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from google.protobuf.message import DecodeError
from onnx import GraphProto, TensorShapeProto, ValueInfoProto, helper

from maxpool_ort.errors import InvalidModelError
from maxpool_ort.graphs import Dims, GraphPath, keep, plain_shape, subgraphs
from maxpool_ort.inference import Body
from maxpool_ort.model import is_declaration
from maxpool_ort.schema import HELPER_PREFIX

__all__ = ["RepairedShape", "declare_again", "repair_shapes", "repaired_shapes"]

_DECLARED = f"{HELPER_PREFIX}declared_shape"
"""Key of the metadata that keep, with a tensor whose declared shape was repaired, the shape as it was."""


@dataclass(frozen=True)
class RepairedShape:
    """A tensor of which the model declared a shape that it has in no run."""

    tensor: str
    where: str
    declared: Dims
    true: Dims


def repair_shapes(graph: GraphProto, body: Body, where: str, path: GraphPath = ()) -> Iterator[RepairedShape]:
    """Declare the true shape of what is declared otherwise, in a graph and in those inside it."""
    for value in (*graph.value_info, *graph.output):
        tensor = value.type.tensor_type
        proved = body.types[path][value.name].proved if value.name in body.types[path] else None
        if proved is None or not tensor.HasField("shape"):
            continue
        declared = plain_shape(tensor.shape)
        if len(declared) == len(proved):
            pairs = zip(declared, proved, strict=True)
            true = tuple(p if isinstance(d, int) and isinstance(p, int) else d for d, p in pairs)
        else:
            true = proved
        if true != declared:
            value.metadata_props.add(key=_DECLARED, value=tensor.shape.SerializeToString().hex())
            for position, dim in enumerate(true):  # nothing else about a dimension changes
                if len(declared) == len(true) and dim != declared[position]:
                    tensor.shape.dim[position].dim_value = dim
            if len(declared) != len(true):
                tensor.shape.CopyFrom(helper.make_tensor_type_proto(1, true).tensor_type.shape)
            yield RepairedShape(value.name, where, declared, true)
    for index, node in enumerate(graph.node):
        for number, (name, inner) in enumerate(subgraphs(node)):
            place = f"{where}, {name} of {node.op_type} {node.name!r}"
            yield from repair_shapes(inner, body, place, (*path, (index, number)))


def repaired_shapes(graph: GraphProto, where: str) -> Iterator[RepairedShape]:
    """What a conversion repaired in a graph and in those inside it."""
    for value in (*graph.value_info, *graph.output):
        declared = _declared_shape(value)
        if declared is not None:
            yield RepairedShape(value.name, where, plain_shape(declared), plain_shape(value.type.tensor_type.shape))
    for node in graph.node:
        for name, inner in subgraphs(node):
            yield from repaired_shapes(inner, f"{where}, {name} of {node.op_type} {node.name!r}")


def _declared_shape(value: ValueInfoProto) -> TensorShapeProto | None:
    """The shape that a tensor was declared with before it was repaired."""
    for entry in value.metadata_props:
        if entry.key == _DECLARED:
            try:
                shape: TensorShapeProto = TensorShapeProto.FromString(bytes.fromhex(entry.value))
            except (DecodeError, ValueError) as error:
                raise InvalidModelError(
                    f"tensor {value.name!r}: the metadata {_DECLARED} must hold a shape, got {entry.value!r}; "
                    "restore the model as convert wrote it"
                ) from error
            return shape
    return None


def declare_again(graph: GraphProto) -> None:
    """Declare what the model declared."""
    for value in (*graph.value_info, *graph.output):
        declared = _declared_shape(value)
        if declared is not None:
            value.type.tensor_type.shape.CopyFrom(declared)
            keep(value.metadata_props, [entry for entry in value.metadata_props if entry.key != _DECLARED])
    keep(graph.value_info, [value for value in graph.value_info if not is_declaration(value)])
