"""A twin of a model from which onnx infers only what holds in every run.

onnx infers from what a model declares, which nothing holds a run to, and up to opset 21 one output too many for some
pools. The twin declares nothing but its inputs, which ONNX Runtime checks at each run; its MaxPool nodes, ours among
them, are those of version 22; and it holds no other pools that are rounded up.
"""

from collections.abc import Sequence

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto, helper

from maxpool_ort import wire
from maxpool_ort.graphs import ONNX_DOMAINS, is_maxpool, keep, subgraphs
from maxpool_ort.schema import ATTRIBUTE_TYPES, NEWEST_VERSION, OP_TYPE, OP_TYPE_WITH_INDICES

__all__ = ["TWIN", "defuse", "defuse_nodes", "make_opaque", "make_twin", "twin_function", "twin_operators"]

TWIN = "maxpool_ort.twin"
"""Domain of the twin's own operators."""
_OPAQUE = "Opaque"
"""Of the type of its input, and of a shape that nobody knows."""
_ROUNDING = ("AveragePool", "LpPool")
"""Other operators for which onnx may infer one output too many."""


def make_twin(graph: GraphProto, ir_version: int, *, is_inner: bool = False) -> None:
    """Turn a graph into its twin."""
    del graph.value_info[:]
    for value in (*graph.output, *(graph.input if is_inner else ())):
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    for value in graph.input:
        if value.type.HasField("sequence_type"):  # of what is in it, ONNX Runtime does not check the shape
            value.type.sequence_type.elem_type.tensor_type.ClearField("shape")
    if not is_inner and ir_version >= 4:  # a run may bring its own elements for an initializer that is an input too
        fed = {value.name for value in graph.input}
        keep(graph.initializer, [tensor for tensor in graph.initializer if tensor.name not in fed])
    _twin_nodes(graph.node)


def _twin_nodes(nodes: Sequence[NodeProto]) -> None:
    for node in nodes:
        if is_maxpool(node):
            names = [name for name in node.output if name]
            node.op_type = OP_TYPE_WITH_INDICES if len(names) > 1 else OP_TYPE
            node.domain = TWIN
            del node.output[:]
            node.output.extend(names)
            node.CopyFrom(wire.strip(node))
            attributes = {attribute.name: attribute for attribute in node.attribute}
            if attributes.get("auto_pad", AttributeProto()).s == b"VALID" and "ceil_mode" in attributes:
                attributes["ceil_mode"].i = 0  # VALID has none, and onnx rounds up
        elif node.op_type in _ROUNDING and node.domain in ONNX_DOMAINS and any(map(_rounds_up, node.attribute)):
            _hide(node)
        for _, body in subgraphs(node):
            make_twin(body, 0, is_inner=True)


def make_opaque(nodes: Sequence[NodeProto], op_type: str) -> None:
    """Let onnx infer only an element type for all nodes of a type."""
    for node in nodes:
        if node.op_type == op_type and node.domain in ONNX_DOMAINS:
            _hide(node)
        for _, body in subgraphs(node):
            make_opaque(body.node, op_type)


def _hide(node: NodeProto) -> None:
    node.domain, node.op_type = TWIN, _OPAQUE
    del node.attribute[:]
    del node.input[1:]


def _rounds_up(attribute: AttributeProto) -> bool:
    return (attribute.name == "ceil_mode" and attribute.i != 0) or (
        attribute.name == "auto_pad" and attribute.s == b"VALID"
    )


def twin_function(twin: FunctionProto) -> FunctionProto:
    """Turn a function into its twin."""
    del twin.value_info[:]
    _twin_nodes(twin.node)
    return twin


def twin_operators() -> list[FunctionProto]:
    """MaxPool of the newest version, with and without Indices, and Opaque: functions, which choose their own opset."""
    imports = [helper.make_opsetid("", NEWEST_VERSION)]
    nodes = [
        helper.make_node("Cast", ["X"], ["shape"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["X", "shape"], ["Y"]),
    ]
    functions = [helper.make_function(TWIN, _OPAQUE, ["X"], ["Y"], nodes, imports)]
    for name, outputs in ((OP_TYPE, ["Y"]), (OP_TYPE_WITH_INDICES, ["Y", "Indices"])):
        node = helper.make_node(OP_TYPE, ["X"], outputs)
        for attribute, kind in ATTRIBUTE_TYPES.items():
            node.attribute.append(AttributeProto(name=attribute, ref_attr_name=attribute, type=kind))
        functions.append(helper.make_function(TWIN, name, ["X"], outputs, [node], imports, list(ATTRIBUTE_TYPES)))
    return functions


def defuse(graph: GraphProto) -> None:
    """Take out of a copy what ends the process in onnx's inference (1.18 to 1.23): as if nothing were known of it."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
            if dim.dim_value < 0:
                dim.Clear()
    defuse_nodes(graph.node)


def defuse_nodes(nodes: Sequence[NodeProto]) -> None:
    """The same for the nodes of a function."""
    for node in nodes:
        if (node.op_type, node.domain) in _FATAL or _is_fatal(node):
            node.domain, node.op_type = TWIN, "Unknown"
        for _, body in subgraphs(node):
            defuse(body)


_FATAL = {
    *(("EyeLike", domain) for domain in ONNX_DOMAINS),
    *(("RegexFullMatch", domain) for domain in ONNX_DOMAINS),
    ("LabelEncoder", "ai.onnx.ml"),
    ("TreeEnsemble", "ai.onnx.ml"),
}
"""Operators that it takes an input's type of, where there is none."""


def _is_fatal(node: NodeProto) -> bool:
    """Strides that it divides by, outputs that it counts wrongly, axes that it cuts off."""
    if any(attribute.name == "strides" and 0 in attribute.ints for attribute in node.attribute):
        return True
    integers: dict[str, int] = {a.name: a.i for a in node.attribute if a.type == AttributeProto.INT}
    if node.op_type == "Split":
        return integers.get("num_outputs", len(node.output)) != len(node.output)
    return node.op_type == "LayerNormalization" and not -(2**31) <= integers.get("axis", -1) < 2**31
