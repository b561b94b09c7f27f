"""What a model says about its nodes and tensors: element types and dimensions, bodies of control flow, names."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TensorShapeProto
from onnx.shape_inference import infer_shapes

from maxpool_ort.schema import DOMAIN, OP_TYPE

__all__ = [
    "Dims",
    "TensorType",
    "all_names",
    "is_maxpool",
    "maxpool_nodes",
    "opset_of",
    "subgraphs",
    "tensor_types",
    "type_name",
    "with_inferred_types",
]

Dims = tuple[int | str | None, ...]
"""Dimensions: sizes, names of symbolic ones, None for unknown ones."""

ONNX_DOMAINS = ("", "ai.onnx")


def with_inferred_types(model: ModelProto) -> ModelProto:
    """The model with what onnx can infer in value_info; the model as it is where onnx fails on it."""
    try:
        return infer_shapes(model)
    except (ValueError, RuntimeError):  # a message of over 2 GiB, or a contradiction: what is declared must do
        return model


@dataclass(frozen=True)
class TensorType:
    """What is known of a tensor; element type 0 is an unknown one, dims are None where not even the rank is known."""

    element_type: int
    dims: Dims | None


def tensor_types(graph: GraphProto) -> dict[str, TensorType]:
    """Element types and dimensions of what a graph names, without the graphs around and inside it."""
    types = {tensor.name: TensorType(tensor.data_type, tuple(tensor.dims)) for tensor in graph.initializer}
    for info in (*graph.input, *graph.value_info, *graph.output):
        if info.type.HasField("tensor_type"):
            tensor = info.type.tensor_type
            dims = tuple(_dim(dim) for dim in tensor.shape.dim) if tensor.HasField("shape") else None
            types[info.name] = TensorType(tensor.elem_type, dims)
    return types


def _dim(dim: TensorShapeProto.Dimension) -> int | str | None:
    return dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None


def subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """Bodies of control flow, with the attribute that holds each."""
    for attribute in node.attribute:
        graphs = [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs
        yield from ((attribute.name, graph) for graph in graphs)


def all_names(graph: GraphProto) -> Iterator[str]:
    """Every name that a graph and the graphs inside it use, of tensors and of nodes."""
    for tensor in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        yield tensor.name
    for sparse in graph.sparse_initializer:
        yield sparse.values.name
    for node in graph.node:
        yield from (node.name, *node.input, *node.output)
        for _, body in subgraphs(node):
            yield from all_names(body)


def is_maxpool(node: NodeProto) -> bool:
    """Whether a node is a MaxPool, standard or ours."""
    return (node.op_type == OP_TYPE and node.domain in ONNX_DOMAINS) or node.domain == DOMAIN


def type_name(element_type: int) -> str:
    """Name of an element type as ONNX writes it in ``tensor(...)``; ``undefined`` for 0."""
    return str(TensorProto.DataType.Name(element_type)).lower()


def opset_of(model: ModelProto) -> int:
    """Version of ONNX's own operators that a model imports; 0 if it imports none."""
    return next((i.version for i in model.opset_import if i.domain in ONNX_DOMAINS), 0)


def maxpool_nodes(
    graph: GraphProto, where: str, outer: Mapping[str, TensorType] | None = None
) -> Iterator[tuple[NodeProto, str, dict[str, TensorType]]]:
    """Every MaxPool of a graph and the graphs inside it: the node, where it stands, and the tensors that it can see."""
    types = {**(outer or {}), **tensor_types(graph)}
    for node in graph.node:
        if is_maxpool(node):
            yield node, where, types
        for name, body in subgraphs(node):
            yield from maxpool_nodes(body, f"{where}, {name} of {node.op_type} {node.name!r}", types)
