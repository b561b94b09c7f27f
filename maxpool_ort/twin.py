"""A twin of a model from which onnx infers only what holds in every run.

onnx infers from what a model declares, which nothing holds a run to, and up to opset 21 one output too many for some
pools. The twin declares nothing but its inputs, which ONNX Runtime checks at each run; its MaxPool nodes, ours among
them, are those of version 22; and it holds no other pools that are rounded up.
"""

from collections.abc import Sequence

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, helper

from maxpool_ort import wire
from maxpool_ort.graphs import ONNX_DOMAINS, is_maxpool, keep, subgraphs
from maxpool_ort.schema import ATTRIBUTE_TYPES, NEWEST_VERSION, OP_TYPE, OP_TYPE_WITH_INDICES

__all__ = ["TWIN", "make_twin", "newest_maxpool", "twin_function"]

TWIN = "maxpool_ort.twin"
"""Domain of the twin's own operators."""
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
            node.domain = TWIN  # where there is no such operator: onnx infers nothing
        for _, body in subgraphs(node):
            make_twin(body, 0, is_inner=True)


def _rounds_up(attribute: AttributeProto) -> bool:
    return (attribute.name == "ceil_mode" and attribute.i != 0) or (
        attribute.name == "auto_pad" and attribute.s == b"VALID"
    )


def twin_function(function: FunctionProto) -> FunctionProto:
    """The twin of a function."""
    twin = FunctionProto()
    twin.CopyFrom(function)
    del twin.value_info[:]
    _twin_nodes(twin.node)
    twin.opset_import.append(helper.make_opsetid(TWIN, 1))
    return twin


def newest_maxpool() -> list[FunctionProto]:
    """MaxPool of the newest version, with and without Indices, as functions: these choose their own opset."""
    functions = []
    for name, outputs in ((OP_TYPE, ["Y"]), (OP_TYPE_WITH_INDICES, ["Y", "Indices"])):
        node = helper.make_node(OP_TYPE, ["X"], outputs)
        for attribute, kind in ATTRIBUTE_TYPES.items():
            node.attribute.append(AttributeProto(name=attribute, ref_attr_name=attribute, type=kind))
        imports = [helper.make_opsetid("", NEWEST_VERSION)]
        functions.append(helper.make_function(TWIN, name, ["X"], outputs, [node], imports, list(ATTRIBUTE_TYPES)))
    return functions
