"""What a model says about its nodes and tensors: element types and dimensions, bodies of control flow, names."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorShapeProto
from onnx.shape_inference import InferenceError, infer_shapes

from maxpool_ort.errors import InvalidModelError
from maxpool_ort.schema import DOMAIN, OP_TYPE

__all__ = [
    "Dims",
    "TensorType",
    "all_names",
    "dangling_names",
    "is_inference_sound",
    "is_maxpool",
    "maxpool_nodes",
    "opset_of",
    "refusing_other_encodings",
    "subgraphs",
    "tensor_types",
    "with_inferred_types",
]

Dims = tuple[int | str | None, ...]
"""Dimensions: sizes, names of symbolic ones, None for unknown ones."""

ONNX_DOMAINS = ("", "ai.onnx")


@contextmanager
def refusing_other_encodings() -> Iterator[None]:
    """Turn what protobuf says when it meets a name that is no UTF-8, which parsing lets pass, into an error of ours."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise InvalidModelError(f"the model holds a name that is not UTF-8: {error.object!r}") from error


def with_inferred_types(model: ModelProto) -> ModelProto:
    """The model with what onnx can infer in value_info; the model as it is where onnx fails on it."""
    try:
        return infer_shapes(model)
    except (
        InferenceError,
        ValueError,
        RuntimeError,
    ):  # a message of over 2 GiB, or a contradiction: what is declared must do
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


def dangling_names(graph: GraphProto) -> set[str]:
    """Tensors that something in a graph uses and nothing in it, or in the graphs inside it, makes."""
    made: set[str] = set()
    used: set[str] = set()

    def collect(graph: GraphProto) -> None:
        made.update(tensor.name for tensor in (*graph.input, *graph.initializer))
        made.update(sparse.values.name for sparse in graph.sparse_initializer)
        used.update(output.name for output in graph.output)
        for node in graph.node:
            made.update(node.output)
            used.update(filter(None, node.input))
            for _, body in subgraphs(node):
                collect(body)

    collect(graph)
    return used - made


def is_maxpool(node: NodeProto) -> bool:
    """Whether a node is a MaxPool, standard or ours."""
    return (node.op_type == OP_TYPE and node.domain in ONNX_DOMAINS) or node.domain == DOMAIN


def is_inference_sound(model: ModelProto) -> bool:
    """Whether sizes that onnx infers follow from those of the graph's inputs alone, and rightly.

    Declared sizes may be wrong: those in value_info, of outputs that other nodes use, and in bodies of control flow. Up
    to opset 21 onnx infers one output too many for some pools with ceil_mode or VALID.
    """
    used = {name for node in model.graph.node for name in node.input}
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    return not (
        model.graph.value_info
        or any(output.name in used for output in model.graph.output)
        or any(True for node in nodes for _ in subgraphs(node))
        or any(_rounds_up(attribute) for node in nodes for attribute in node.attribute)
    )


def _rounds_up(attribute: AttributeProto) -> bool:
    return (attribute.name == "ceil_mode" and attribute.i != 0) or (
        attribute.name == "auto_pad" and attribute.s == b"VALID"
    )


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
