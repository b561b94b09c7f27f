"""The nodes that take a MaxPool's place, and the way back.

A converted node keeps its name, tensors and attributes. Around it stand, where they are needed, nodes of a conversion's
own, told by their names: Casts for element types that PyOp cannot take, and a guard where a run may still fail. Nodes
that it makes superfluous, those that quantize around it, it carries with it. A call of a function that holds a MaxPool
becomes a call of a copy in which it is ours; the function itself stays. What is declared of shapes is told by doc
strings, what was declared otherwise before is kept as metadata.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import text_format
from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TensorShapeProto,
    ValueInfoProto,
    helper,
)

from maxpool_ort import wire
from maxpool_ort.errors import InvalidModelError
from maxpool_ort.graphs import (
    CALL_KEYS,
    ONNX_DOMAINS,
    Dims,
    GraphPath,
    TensorType,
    all_names,
    all_nodes,
    called_function,
    dangling_names,
    function_key,
    original_function,
    plain_shape,
    subgraphs,
)
from maxpool_ort.inference import Body, Site
from maxpool_ort.model import (
    is_declaration,
    make_cast,
    make_copied_dims,
    make_declaration,
    make_guard,
    make_node_before_pyop,
    make_pyop_node,
)
from maxpool_ort.quantized import Fold
from maxpool_ort.schema import DOMAIN, FUNCTION_DOMAIN, HELPER_PREFIX, MaxPoolAttributes

__all__ = ["RepairedShape", "Replacement", "Rewriter", "repair_shapes", "repaired_shapes", "restore"]

_CAST_THROUGH: dict[int, int] = {TensorProto.FLOAT16: TensorProto.FLOAT, TensorProto.BFLOAT16: TensorProto.FLOAT}
"""Element types that PyOp cannot take, and one that holds all their values, in their order."""
_DECLARED = f"{HELPER_PREFIX}declared_shape"
"""Key of the metadata that keep, with a tensor whose declared shape was repaired, the shape as it was."""


@dataclass(frozen=True)
class Replacement:
    """What is to become of one MaxPool node."""

    attributes: MaxPoolAttributes
    x: TensorType
    can_fail: bool
    fold: Fold | None


@dataclass(frozen=True)
class RepairedShape:
    """A tensor of which the model declared a shape that it has in no run."""

    tensor: str
    where: str
    declared: Dims
    true: Dims


class Rewriter:
    """Rewrites the graphs of one model in place, and adds to its functions."""

    def __init__(self, model: ModelProto, replacements: Mapping[tuple[int, GraphPath, int], Replacement]) -> None:
        self.model = model
        self.replacements = replacements
        self.copies: dict[int, FunctionProto | None] = {}
        """For each body of a function its copy; None where nothing is converted."""

    def rewrite(self, main: Body) -> None:
        """Rewrite the model."""
        _BodyRewriter(self, main, self.model.graph).rewrite()
        domains = [DOMAIN, *([FUNCTION_DOMAIN] if any(self.copies.values()) else [])]
        _add_imports(self.model.opset_import, domains)
        parts = (self.model.graph, *self.model.functions)
        called = {called_function(node) for part in parts for node in all_nodes(part)}
        kept = [f for f in self.model.functions if f.domain != FUNCTION_DOMAIN or function_key(f) in called]
        _keep(self.model.functions, kept)

    def copy_of(self, body: Body) -> FunctionProto | None:
        """The function that a converted call calls: one for all calls for which it is the same."""
        if id(body) not in self.copies:
            self.copies[id(body)] = self._copy(body)
        return self.copies[id(body)]

    def _copy(self, body: Body) -> FunctionProto | None:
        if body.function is None:
            raise AssertionError(body.where)
        graph = GraphProto()
        graph.CopyFrom(body.graph)
        if not _BodyRewriter(self, body, graph).rewrite():
            return None
        copy = FunctionProto()
        copy.CopyFrom(body.function)
        copy.domain = FUNCTION_DOMAIN
        copy.ClearField("overload")
        _keep(copy.node, graph.node)
        for each in copy.opset_import:
            if each.domain in ONNX_DOMAINS:
                each.version = body.opset
        _add_imports(copy.opset_import, [DOMAIN, FUNCTION_DOMAIN])
        taken = {function.name: function for function in self.model.functions if function.domain == FUNCTION_DOMAIN}
        base = copy.name
        number = 1
        while copy.name in taken and taken[copy.name] != copy:
            number += 1
            copy.name = f"{base}_{number}"
        if copy.name not in taken:
            self.model.functions.append(copy)
        return copy


class _BodyRewriter:
    """Rewrites one body: a scope of names, with an opset."""

    def __init__(self, parent: Rewriter, body: Body, graph: GraphProto) -> None:
        self.parent = parent
        self.body = body
        self.graph = graph
        names = [*all_names(graph), *(body.function.input if body.function else ())]
        for training in parent.model.training_info:
            names += [*all_names(training.initialization), *all_names(training.algorithm)]
        self.taken = set(names)
        self.copied_dims: dict[int, str] = {}
        """For each rank that a guard was needed for, the tensor that says which dimensions it copies: all."""
        self.sites = {(site.path, site.index): site for site in body.sites}
        self.has_changed = False

    def rewrite(self) -> bool:
        """Rewrite the graph, and return whether anything has changed."""
        self.visit(self.graph, ())
        if self.body.opset >= 5:
            constants = [make_copied_dims(name, rank) for rank, name in self.copied_dims.items()]
            _keep(self.graph.node, [*constants, *self.graph.node])
        return self.has_changed

    def fresh(self, hint: str) -> str:
        """A name that nothing in the body has yet."""
        name = f"{HELPER_PREFIX}{hint}"
        number = 1
        while name in self.taken:
            number += 1
            name = f"{HELPER_PREFIX}{hint}/{number}"
        self.taken.add(name)
        return name

    def visit(self, graph: GraphProto, path: GraphPath) -> None:
        """Rewrite a graph of the body and the graphs inside it."""
        replaced = {
            index: self.parent.replacements[key]
            for index in range(len(graph.node))
            if (key := (id(self.body), path, index)) in self.parent.replacements
        }
        removed = _removed(replaced)
        casts: dict[str, str] = {}
        nodes: list[NodeProto] = []
        for index, node in enumerate(graph.node):
            for number, (_, inner) in enumerate(subgraphs(node)):
                self.visit(inner, (*path, (index, number)))
            site = self.sites.get((path, index))
            if index in replaced:
                nodes += self.replace(node, graph, replaced[index], removed.get(index, []), casts)
            elif index not in {position for positions in removed.values() for position in positions}:
                nodes.append(self.call(node, site) if site and site.callee else node)
        self.has_changed |= bool(replaced)
        _keep(graph.node, _without_unused_casts(nodes, graph, casts))

    def call(self, node: NodeProto, site: Site) -> NodeProto:
        """The call of a function's copy, if there is one, in the place of a call of the function."""
        copy = self.parent.copy_of(site.callee) if site.callee else None
        if copy is None:
            return node
        self.has_changed = True
        call = NodeProto()
        call.CopyFrom(node)
        if node.domain != FUNCTION_DOMAIN:  # else it is known from before
            for key in CALL_KEYS:
                field = key.removeprefix(HELPER_PREFIX)
                if node.HasField(field):
                    call.metadata_props.add(key=key, value=getattr(node, field))
        call.domain, call.op_type = copy.domain, copy.name
        call.ClearField("overload")
        return call

    def replace(
        self,
        node: NodeProto,
        graph: GraphProto,
        replacement: Replacement,
        removed: Sequence[int],
        casts: dict[str, str],
    ) -> list[NodeProto]:
        """A node of ours and what it needs around it; the tensors at both ends stay those of the MaxPool."""
        x, fold = replacement.x, replacement.fold
        ours = make_pyop_node(node, replacement.attributes)
        if fold is not None:
            ours.attribute.append(helper.make_attribute(wire.X, ours.input[0]))
            ours.attribute.append(helper.make_attribute(wire.Y, ours.output[0]))
            ours.input[0], ours.output[0] = fold.x, fold.y
        if removed:
            nodes = [graph.node[index].SerializeToString() for index in removed]
            ours.attribute.append(helper.make_attribute(wire.REMOVED, nodes))
            ours.attribute.append(helper.make_attribute(wire.POSITIONS, removed))
        if x.dims is not None and not replacement.can_fail and not self.body.function:
            self.declare(graph, ours, x.element_type, replacement.attributes.output_dims(x.dims))
        rank = len(replacement.attributes.kernel_shape) + 2
        return self.surround(ours, x.element_type, rank, casts, can_fail=replacement.can_fail)

    @staticmethod
    def declare(graph: GraphProto, node: NodeProto, element_type: int, dims: Dims) -> None:
        """Declare the outputs of a node where nothing else does.

        ONNX Runtime infers nothing behind a custom operator, and without shapes fuses less: Add and Relu into Conv.
        """
        declared = {value.name for value in (*graph.value_info, *graph.output)}
        for name, output_type in zip(node.output, (element_type, TensorProto.INT64), strict=False):
            if name not in declared:
                graph.value_info.append(make_declaration(name, output_type, dims))

    def surround(
        self, ours: NodeProto, element_type: int, rank: int, casts: dict[str, str], *, can_fail: bool
    ) -> list[NodeProto]:
        """Casts and guards; ``casts`` are the tensors that there are as float32 in this graph.

        In a function each output goes through a Cast to its own type: ONNX Runtime infers a function's types before it
        puts the function in its place, where it drops such a Cast, and knows no type behind a custom operator.
        """
        before: list[NodeProto] = []
        after: list[NodeProto] = []
        through = _CAST_THROUGH.get(element_type)
        if through is not None:
            x = ours.input[0]
            if x not in casts:
                casts[x] = self.fresh(f"{x}/cast")
                before.append(make_cast(x, casts[x], through, self.body.opset, name=casts[x]))
            ours.input[0] = casts[x]
        for number, (name, output_type) in enumerate(zip(ours.output, (element_type, TensorProto.INT64), strict=False)):
            outer = name
            if through is not None and number == 0:
                casts[name] = inner = self.fresh(f"{name}/cast")
                after.insert(0, make_cast(inner, outer, element_type, self.body.opset, name=inner))
                outer = inner
            if can_fail:
                inner = self.fresh(f"{name}/guard")
                if rank not in self.copied_dims:
                    self.copied_dims[rank] = self.fresh(f"copied_dims/{rank}")
                guard = make_guard(inner, outer, rank, self.copied_dims[rank], self.body.opset, name=inner)
                after.insert(0, guard)
                outer = inner
            if self.body.function is not None:
                inner = self.fresh(f"{name}/type")
                to = through if through is not None and number == 0 else output_type
                after.insert(0, make_cast(inner, outer, to, self.body.opset, name=inner))
                outer = inner
            ours.output[number] = outer
        return [*before, ours, *after]


def _removed(replaced: Mapping[int, Replacement]) -> dict[int, list[int]]:
    """Nodes that quantized MaxPool nodes make superfluous: for each of these, those that it carries, in order."""
    folds = {index: r.fold for index, r in replaced.items() if r.fold is not None}
    removed = {index: {fold.quantize} for index, fold in folds.items()}
    for fold in folds.values():
        if fold.sharers <= folds.keys():
            removed[min(fold.sharers)].add(fold.dequantize)
    return {index: sorted(positions) for index, positions in removed.items()}


def _without_unused_casts(nodes: list[NodeProto], graph: GraphProto, casts: Mapping[str, str]) -> list[NodeProto]:
    """Leave out the Casts back to tensors that only converted nodes take; these take what was cast.

    The node before such a Cast keeps the name of the tensor that is no more.
    """
    used = {output.name for output in graph.output}
    for node in nodes:
        used.update(node.input)
        for _, body in subgraphs(node):
            used.update(name for inner in all_nodes(body) for name in inner.input)
            used.update(output.name for output in body.output)
    unused = {inner: name for name, inner in casts.items() if name not in used}
    kept: list[NodeProto] = []
    for node in nodes:
        if node.op_type == "Cast" and node.name in unused and node.input[0] == node.name:
            makers = {each.output[0]: each for each in kept if each.output}
            maker = makers[node.name]
            while maker.domain != DOMAIN:  # a guard, in a function a Cast too
                maker = makers[maker.input[0]]
            maker.attribute.append(helper.make_attribute(wire.Y, unused[node.name]))
        else:
            kept.append(node)
    return kept


def _keep(field: Any, kept: Iterable[Any]) -> None:
    """Let a repeated field hold these."""
    entries = list(kept)
    del field[:]
    field.extend(entries)


def _add_imports(imports: Any, domains: Iterable[str]) -> None:
    for domain in domains:
        if all(each.domain != domain for each in imports):
            imports.append(helper.make_opsetid(domain, 1))


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
            value.metadata_props.add(key=_DECLARED, value=text_format.MessageToString(tensor.shape, as_one_line=True))
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
                shape: TensorShapeProto = text_format.Parse(entry.value, TensorShapeProto())
            except text_format.ParseError as error:
                raise InvalidModelError(
                    f"tensor {value.name!r}: the metadata {_DECLARED} must hold a shape, got {entry.value!r}; "
                    "restore the model as convert wrote it"
                ) from error
            return shape
    return None


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
    _keep(model.functions, functions)
    helpers: set[str] = set()
    _restore_graph(model.graph, helpers)
    _restore_order(model.graph, helpers)
    lost = dangling_names(model.graph)
    if lost:
        raise InvalidModelError(
            f"the model cannot be restored: nodes that convert had put in are gone, and with them what makes "
            f"{', '.join(sorted(map(repr, lost)))}; restore the model as convert wrote it"
        )
    _keep(model.opset_import, [e for e in model.opset_import if e.domain not in {DOMAIN, FUNCTION_DOMAIN}])


def _restore_call(node: NodeProto) -> None:
    kept = {entry.key: entry.value for entry in node.metadata_props}
    for key in CALL_KEYS:
        field = key.removeprefix(HELPER_PREFIX)
        node.ClearField(field)
        if key in kept:
            setattr(node, field, kept[key])
    _keep(node.metadata_props, [entry for entry in node.metadata_props if entry.key not in CALL_KEYS])


def _restore_graph(graph: GraphProto, helpers: set[str]) -> None:
    """Put the standard nodes back; add to ``helpers`` the names of the nodes that stood around ours, and only those."""
    # A helper before a node of ours is named by the tensor that it makes, one behind it by the tensor that it takes.
    named = [node for node in graph.node if node.name.startswith(HELPER_PREFIX) and node.input and node.output]
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
            helpers.update(name for name in node.input if name in before)
            standard.input[:] = [before[n].input[0] if n in before else ends.get(n, n) for n in node.input]
            carried = wire.carried(node)
            for number, output in enumerate(node.output):
                chain = _chain(output, after, helpers)
                is_carried = number == 0 and wire.Y in carried
                standard.output[number] = carried[wire.Y].s.decode() if is_carried else chain[-1]
                ends.update(dict.fromkeys(chain, standard.output[number]))
            if wire.X in carried:
                standard.input[0] = carried[wire.X].s.decode()
            standard.attribute.extend(carried[key] for key in (wire.REMOVED, wire.POSITIONS) if key in carried)
            node.CopyFrom(standard)
    _restore_shapes(graph)


def _chain(name: str, after: Mapping[str, NodeProto], helpers: set[str]) -> list[str]:
    """The tensors from an output of ours through the helpers behind it, at most a guard and a Cast; notes these."""
    chain = [name]
    while chain[-1] in after and chain[-1] not in helpers:
        node = after[chain[-1]]
        helpers.update((node.name, *node.input[1:]))  # the guard's Constant bears the name of its output
        chain.append(node.output[0])
    return chain


def _restore_shapes(graph: GraphProto) -> None:
    """Declare what the model declared."""
    for value in (*graph.value_info, *graph.output):
        declared = _declared_shape(value)
        if declared is not None:
            value.type.tensor_type.shape.CopyFrom(declared)
            _keep(value.metadata_props, [entry for entry in value.metadata_props if entry.key != _DECLARED])
    _keep(graph.value_info, [value for value in graph.value_info if not is_declaration(value)])


def _restore_order(graph: GraphProto, helpers: Collection[str]) -> None:
    """Take the helpers out, and put back where they stood the nodes that ours carried."""
    nodes = [node for node in graph.node if node.name not in helpers]
    removed: list[tuple[int, bytes]] = []
    for node in nodes:
        for _, body in subgraphs(node):
            _restore_order(body, helpers)
        carried = wire.carried(node)
        if wire.REMOVED in carried and wire.POSITIONS in carried:
            removed += zip(carried[wire.POSITIONS].ints, carried[wire.REMOVED].strings, strict=True)
            node.CopyFrom(wire.strip(node))
    for position, data in sorted(removed):
        nodes.insert(position, NodeProto.FromString(data))
    _keep(graph.node, nodes)
