"""The way back from what rewriting did: the nodes that stood there, and nothing of what was put around them."""

from collections.abc import Collection, Mapping

from onnx import GraphProto, ModelProto, NodeProto

from maxpool_ort import wire
from maxpool_ort.errors import InvalidModelError
from maxpool_ort.graphs import (
    CALL_KEYS,
    all_nodes,
    dangling_names,
    function_key,
    is_maxpool,
    keep,
    original_function,
    subgraphs,
)
from maxpool_ort.model import is_helper, make_node_before_pyop
from maxpool_ort.repair import declare_again
from maxpool_ort.rewrite import ZERO_POINT
from maxpool_ort.schema import DOMAIN, FUNCTION_DOMAIN, HELPER_PREFIX, IMPORTED_VERSION

__all__ = ["restore"]


def restore(model: ModelProto) -> None:
    """Undo in place what the rewriting did.

    Raises
    ------
    InvalidModelError
        If what a conversion puts around its nodes has been changed.
    """
    functions = [function for function in model.functions if function.domain != FUNCTION_DOMAIN]
    known = set(map(function_key, functions))
    for node in all_nodes(model.graph):
        key = original_function(node)
        if key is not None:
            if key not in known:
                raise InvalidModelError(
                    f"the model cannot be restored: node {node.name!r} called the function {key[1]!r}, which is gone; "
                    "restore the model as convert wrote it"
                )
            _restore_call(node)
    keep(model.functions, functions)
    helpers: set[str] = set()
    _restore_graph(model.graph, helpers)
    _remove_nodes(model.graph, helpers)
    lost = dangling_names(model.graph)
    ends = {name for node in all_nodes(model.graph) if is_maxpool(node) for name in (*node.input, *node.output)}
    if lost and any(name.startswith(HELPER_PREFIX) for name in ends):  # else the original lacked it
        raise InvalidModelError(
            f"the model cannot be restored: nodes that convert had put in are gone, and with them what makes "
            f"{', '.join(sorted(map(repr, lost)))}; restore the model as convert wrote it"
        )
    ours = [(domain, IMPORTED_VERSION) for domain in (DOMAIN, FUNCTION_DOMAIN)]
    keep(model.opset_import, [each for each in model.opset_import if (each.domain, each.version) not in ours])


def _restore_call(node: NodeProto) -> None:
    kept = {entry.key: entry.value for entry in node.metadata_props}
    for key in CALL_KEYS:
        field = key.removeprefix(HELPER_PREFIX)
        node.ClearField(field)
        if key in kept:
            setattr(node, field, kept[key])
    keep(node.metadata_props, [entry for entry in node.metadata_props if entry.key not in CALL_KEYS])


def _restore_graph(graph: GraphProto, helpers: set[str]) -> None:
    """Put the standard nodes back; add to ``helpers`` the names of the nodes that stood around ours, and only those."""
    # A helper before a node of ours is named by the tensor that it makes, one behind it by the tensor that it takes.
    named = [node for node in graph.node if is_helper(node) and node.input and node.output]
    before = {node.name: node for node in named if node.name == node.output[0]}
    after = {node.name: node for node in named if node.name == node.input[0]}
    ends: dict[str, str] = {}
    """For each tensor between one of our nodes and the helpers behind it, the tensor that the MaxPool made."""
    for node in graph.node:
        for _, body in subgraphs(node):
            _restore_graph(body, helpers)
        if node.domain == DOMAIN:
            wire.attributes_of(node)
            standard = make_node_before_pyop(node)
            for name in node.input:
                if name in before:
                    quantizes = before[name].op_type == "QuantizeLinear"
                    helpers.update((name, name + ZERO_POINT) if quantizes else (name,))
            standard.input[:] = [before[n].input[0] if n in before else ends.get(n, n) for n in node.input]
            carried = wire.carried(node)
            for number, output in enumerate(node.output):
                chain = _chain(output, after, helpers)
                is_carried = number == 0 and wire.Y in carried
                standard.output[number] = carried[wire.Y].s.decode() if is_carried else chain[-1]
                ends.update(dict.fromkeys(chain, standard.output[number]))
            node.CopyFrom(standard)
    declare_again(graph)


def _chain(name: str, after: Mapping[str, NodeProto], helpers: set[str]) -> list[str]:
    """The tensors from an output of ours through the helpers behind it, at most a guard and a Cast.

    Notes these, and what makes the guard's shape, which bears the name of that.
    """
    chain = [name]
    while chain[-1] in after and chain[-1] not in helpers:
        node = after[chain[-1]]
        helpers.update((node.name, *(node.input[1:] if node.op_type == "Reshape" else ())))
        chain.append(node.output[0])
    return chain


def _remove_nodes(graph: GraphProto, names: Collection[str]) -> None:
    keep(graph.node, [node for node in graph.node if not (is_helper(node) and node.name in names)])
    for node in graph.node:
        for _, body in subgraphs(node):
            _remove_nodes(body, names)
