"""What a model says about its nodes and tensors: element types and dimensions, bodies of control flow, names."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import chain
from typing import Any, ParamSpec, TypeVar

from google.protobuf.message import Message
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorShapeProto, helper
from onnx.external_data_helper import uses_external_data

from maxpool_ort.errors import InvalidModelError, InvalidShapeError, MaxPoolError
from maxpool_ort.schema import DOMAIN, FUNCTION_DOMAIN, HELPER_PREFIX, OP_TYPE

__all__ = [
    "CALL_KEYS",
    "ONNX_DOMAINS",
    "Dims",
    "FunctionKey",
    "GraphPath",
    "TensorType",
    "all_names",
    "all_nodes",
    "called_function",
    "dangling_names",
    "function_key",
    "graph_at",
    "is_maxpool",
    "keep",
    "opset_of",
    "original_function",
    "plain_shape",
    "refusing_other_encodings",
    "subgraphs",
    "tensor_types",
    "without_large_initializers",
]

Dims = tuple[int | str | None, ...]
"""Dimensions: sizes, names of symbolic ones, None for unknown ones."""
P = ParamSpec("P")
R = TypeVar("R")

FunctionKey = tuple[str, str, str]
"""What names a model-local function: its domain, its name and its overload."""

GraphPath = tuple[tuple[int, int], ...]
"""Where a graph lies inside another: at each level the index of a node, and the number of the graph that it holds."""

ONNX_DOMAINS = ("", "ai.onnx")
LARGE = 4096
"""Bytes from which on an initializer's elements are of no use to inference, and copies of them a waste of memory."""
CALL_KEYS = (f"{HELPER_PREFIX}domain", f"{HELPER_PREFIX}op_type", f"{HELPER_PREFIX}overload")
"""Keys of the metadata that keep, with the call of a copied function, which one it called before."""


def refusing_other_encodings(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function say so where it meets a name in its model that is no UTF-8, which parsing lets pass.

    protobuf gives such a name as bytes, or fails, which depends on its version.
    """

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except UnicodeDecodeError as error:
            raise InvalidModelError(f"the model holds a name that is not UTF-8: {error.object!r}") from error
        except (TypeError, ValueError) as error:
            if isinstance(error, MaxPoolError) and not isinstance(error, InvalidShapeError):
                raise
            models = [each for each in (*args, *kwargs.values()) if isinstance(each, ModelProto)]
            name = next(chain.from_iterable(map(_names_as_bytes, models)), None)
            if name is None:
                raise
            raise InvalidModelError(f"the model holds a name that is not UTF-8: {name!r}") from error

    return wrapped


def _names_as_bytes(message: Message) -> Iterator[bytes]:
    """Text fields of a message that hold no text."""
    for field, value in message.ListFields():
        for each in value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else [value]:
            if field.type == field.TYPE_MESSAGE:
                yield from _names_as_bytes(each)
            elif field.type == field.TYPE_STRING and isinstance(each, bytes):
                yield each


@dataclass(frozen=True)
class TensorType:
    """What is known of a tensor; element type 0 is an unknown one, dims are None where not even the rank is known."""

    element_type: int
    dims: Dims | None
    proved: Dims | None = None
    """Dimensions that hold in every run, whatever the model declares: they follow from the sizes of its inputs."""

    @property
    def is_static(self) -> bool:
        """Whether all spatial sizes are proved."""
        return self.proved is not None and all(isinstance(dim, int) for dim in self.proved[2:])


def tensor_types(graph: GraphProto) -> dict[str, TensorType]:
    """Element types and dimensions of what a graph names, without the graphs around and inside it."""
    types = {tensor.name: TensorType(tensor.data_type, tuple(tensor.dims)) for tensor in graph.initializer}
    for info in (*graph.input, *graph.value_info, *graph.output):
        if info.type.HasField("tensor_type"):
            tensor = info.type.tensor_type
            types[info.name] = TensorType(
                tensor.elem_type, plain_shape(tensor.shape) if tensor.HasField("shape") else None
            )
    return types


def plain_shape(shape: TensorShapeProto) -> Dims:
    """A shape as ONNX writes it, as dimensions; a negative size is an unknown one, as ONNX Runtime has it."""
    return tuple(
        (dim.dim_value if dim.dim_value >= 0 else None) if dim.HasField("dim_value") else dim.dim_param or None
        for dim in shape.dim
    )


def subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """Bodies of control flow, with the attribute that holds each."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.name, attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from ((attribute.name, graph) for graph in attribute.graphs)


def without_large_initializers(graph: GraphProto) -> GraphProto:
    """A copy in which large initializers, and those in other files, are inputs: all that inference needs of them."""
    copy = GraphProto(
        name=graph.name,
        node=graph.node,
        input=graph.input,
        output=graph.output,
        value_info=graph.value_info,
        sparse_initializer=graph.sparse_initializer,
    )
    fed = {value.name for value in graph.input}
    for tensor in graph.initializer:
        if tensor.ByteSize() < LARGE and not uses_external_data(tensor):
            copy.initializer.append(tensor)
        elif tensor.name not in fed:
            copy.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return copy


def keep(field: Any, kept: Iterable[Any]) -> None:
    """Let a repeated field of a message hold these."""
    entries = list(kept)
    del field[:]
    field.extend(entries)


def graph_at(graph: GraphProto, path: GraphPath) -> GraphProto:
    """The graph that a path leads to."""
    for index, number in path:
        graph = [body for _, body in subgraphs(graph.node[index])][number]
    return graph


def all_nodes(graph: GraphProto | FunctionProto) -> Iterator[NodeProto]:
    """Every node of a graph or function and of the graphs inside it."""
    for node in graph.node:
        yield node
        for _, body in subgraphs(node):
            yield from all_nodes(body)


def all_names(graph: GraphProto) -> Iterator[str]:
    """Every name that a graph and the graphs inside it use, of tensors and of nodes."""
    for tensor in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        yield tensor.name
    for sparse in graph.sparse_initializer:
        yield from (sparse.values.name, sparse.indices.name)
    for annotation in graph.quantization_annotation:
        yield annotation.tensor_name
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


def function_key(function: FunctionProto) -> FunctionKey:
    """What names a function."""
    return function.domain, function.name, function.overload


def called_function(node: NodeProto) -> FunctionKey:
    """What names the function that a node calls, if it calls one."""
    return node.domain, node.op_type, node.overload


def original_function(node: NodeProto) -> FunctionKey | None:
    """Which function the call of a copied one called before; None for all other nodes."""
    if node.domain != FUNCTION_DOMAIN:
        return None
    kept = {entry.key: entry.value for entry in node.metadata_props}
    domain, op_type, overload = (kept.get(key, "") for key in CALL_KEYS)
    return domain, op_type, overload


def opset_of(model: ModelProto | FunctionProto) -> int:
    """Version of ONNX's own operators that a model or function imports; 0 if it imports none."""
    return next((i.version for i in model.opset_import if i.domain in ONNX_DOMAINS), 0)
