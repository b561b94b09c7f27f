"""What a model's MaxPool nodes see: types and sizes of their tensors, and which sizes are proved.

onnx infers twice: from the model, for what is known, and from its twin, for what is proved.

A function's body is looked at as each of its calls sees it, with the call's attributes and types put in.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
    ValueInfoProto,
    defs,
    helper,
)
from onnx.shape_inference import InferenceError, infer_shapes

from maxpool_ort.errors import InvalidModelError
from maxpool_ort.graphs import (
    ONNX_DOMAINS,
    Dims,
    FunctionKey,
    GraphPath,
    TensorType,
    all_nodes,
    called_function,
    function_key,
    is_maxpool,
    opset_of,
    original_function,
    subgraphs,
    tensor_types,
    without_large_initializers,
)
from maxpool_ort.runtime_types import ask_runtime
from maxpool_ort.twin import TWIN, make_twin, newest_maxpool, twin_function

__all__ = ["Body", "Site", "analyse", "unused_functions"]

_UNKNOWN = TensorType(TensorProto.UNDEFINED, None)


@dataclass(frozen=True)
class Site:
    """One MaxPool of a body, or one call of a function that holds one."""

    path: GraphPath
    index: int
    node: NodeProto
    where: str
    types: Mapping[str, TensorType]
    """What the node can see."""
    callee: "Body | None" = None


@dataclass(frozen=True)
class Body:
    """A graph whose nodes run: the model's own, or a function's as some of its calls see it."""

    graph: GraphProto
    where: str
    opset: int
    function: FunctionProto | None = None
    types: dict[GraphPath, Mapping[str, TensorType]] = field(default_factory=dict)
    """What the nodes of each graph in the body can see."""
    sites: list[Site] = field(default_factory=list)
    """In the order of the nodes, those in a node's bodies before it."""

    def walk(self) -> Iterator[tuple["Body", Site]]:
        """Every MaxPool of this body and of the functions that it calls, each of these once."""
        seen: set[int] = set()

        def visit(body: Body) -> Iterator[tuple[Body, Site]]:
            seen.add(id(body))
            for site in body.sites:
                if site.callee is None:
                    yield body, site
                elif id(site.callee) not in seen:
                    yield from visit(site.callee)

        yield from visit(self)


def analyse(model: ModelProto) -> Body:
    """The model's own graph as a body, and with it those of the functions that it calls.

    Raises
    ------
    InvalidModelError
        If a function calls itself.
    """
    return _Analysis(model).main()


def unused_functions(model: ModelProto) -> Iterator[FunctionProto]:
    """Functions that no node of the model's graphs calls, be it through others or, before a conversion, by itself."""
    functions = {function_key(function): function for function in model.functions}
    reached: set[FunctionKey] = set()
    reaching: list[GraphProto | FunctionProto] = [model.graph]
    while reaching:
        nodes = list(all_nodes(reaching.pop()))
        called = {called_function(node) for node in nodes} | {original_function(node) for node in nodes}
        found = {key for key in called if key is not None and key in functions} - reached
        reached |= found
        reaching += [functions[key] for key in found]
    yield from (function for key, function in functions.items() if key not in reached)


class _Analysis:
    """Looks at one model; calls of a function that give it the same types and attributes share a body."""

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.functions = {function_key(function): function for function in model.functions}
        self.holding = _holding_maxpool(self.functions)
        self.twins = [twin_function(function) for function in model.functions] + newest_maxpool()
        nodes = (node for part in (model.graph, *model.functions) for node in all_nodes(part))
        self.is_provable = all(node.op_type != "Scan" for node in nodes)  # onnx takes what a Scan carries for constant
        self.bodies: dict[object, Body] = {}
        self.asked: dict[str, int] = {}
        """Element types of tensors of the model's own graph that onnx does not know, and ONNX Runtime does."""

    def main(self) -> Body:
        model = self.model
        body = Body(model.graph, f"graph {model.graph.name!r}", opset_of(model))
        self.fill(body, model.opset_import, {})
        made = {name for node in model.graph.node for name in node.output}
        unknown = {
            site.node.input[0]
            for site in body.sites
            if site.node.input and not site.types.get(site.node.input[0], _UNKNOWN).element_type
        }
        self.asked = ask_runtime(model, sorted(unknown & made)) if unknown & made else {}
        if self.asked:
            body = Body(model.graph, body.where, body.opset)
            self.fill(body, model.opset_import, {})
        return body

    def call(self, node: NodeProto, types: Mapping[str, TensorType], where: str) -> Body:
        """The body of a function as this call sees it."""
        function = self.functions[called_function(node)]
        given = {
            name: types.get(outer, _UNKNOWN)
            for name, outer in zip(function.input, node.input, strict=False)
            if outer  # an optional input may be absent
        }
        attributes = {attribute.name: attribute for attribute in (*function.attribute_proto, *node.attribute)}
        key = (
            function_key(function),
            tuple(given.items()),
            tuple(sorted((name, value.SerializeToString(deterministic=True)) for name, value in attributes.items())),
        )
        if key not in self.bodies:
            graph = GraphProto(name=function.name, node=_bound(function.node, attributes))
            graph.output.extend(ValueInfoProto(name=name) for name in function.output)
            graph.value_info.extend(function.value_info)
            caller = repr(node.name) if node.name else f"with output {next(iter(node.output), '')!r}"
            opset = _common_opset(function, opset_of(self.model))
            body = Body(graph, f"function {function.name!r}, call {caller} in {where}", opset, function)
            self.bodies[key] = body
            self.fill(body, function.opset_import, given)
        return self.bodies[key]

    def fill(self, body: Body, imports: Iterable[OperatorSetIdProto], given: Mapping[str, TensorType]) -> None:
        """Find out about a body; ``given`` is what its call gives it."""
        known = self.infer(body, imports, {name: (t.element_type, t.dims) for name, t in given.items()})
        proved = self.infer(
            body, imports, {name: (t.element_type, t.proved) for name, t in given.items()}, is_twin=True
        )
        symbols = set(_symbols(body.graph)) | {dim for t in given.values() for dim in t.dims or ()}
        self.visit(body, (), (body.graph, known, proved), {}, symbols, body.where)

    def infer(
        self,
        body: Body,
        imports: Iterable[OperatorSetIdProto],
        given: Mapping[str, tuple[int, Dims | None]],
        *,
        is_twin: bool = False,
    ) -> GraphProto | None:
        """A body's graph, or its twin, with what onnx infers; None where onnx fails on it."""
        if is_twin and not self.is_provable:
            return None
        graph = without_large_initializers(body.graph)
        for name, (element_type, dims) in given.items():
            graph.input.append(
                helper.make_tensor_value_info(name, element_type, dims) if element_type else ValueInfoProto(name=name)
            )
        if is_twin:
            make_twin(graph, self.model.ir_version)
        elif body.function is None:
            graph.value_info.extend(helper.make_tensor_value_info(*asked, None) for asked in self.asked.items())
        model = ModelProto(ir_version=self.model.ir_version, opset_import=imports, graph=graph)
        model.opset_import.append(helper.make_opsetid(TWIN, 1))
        model.functions.extend(self.twins if is_twin else self.model.functions)
        try:
            return infer_shapes(model).graph
        except (InferenceError, ValueError, RuntimeError):  # a contradiction: what is declared must do
            return None if is_twin else graph

    def visit(
        self,
        body: Body,
        path: GraphPath,
        graphs: tuple[GraphProto, GraphProto | None, GraphProto | None],
        outer: Mapping[str, TensorType],
        symbols: set[int | str | None],
        where: str,
    ) -> None:
        """Note the types that a graph's nodes can see, and the sites in it and in the graphs inside it."""
        graph, *inferred = graphs
        known, proved = (tensor_types(each) if each is not None else {} for each in inferred)
        types = {**outer, **{name: _merged(known.get(name), proved.get(name), symbols) for name in {**known, **proved}}}
        body.types[path] = types
        for index, node in enumerate(graph.node):
            twins = [list(subgraphs(each.node[index])) if each is not None else None for each in inferred]
            for number, (name, inner) in enumerate(subgraphs(node)):
                both = [twin[number][1] if twin is not None else None for twin in twins]
                place = f"{where}, {name} of {node.op_type} {node.name!r}"
                self.visit(body, (*path, (index, number)), (inner, both[0], both[1]), types, symbols, place)
            if is_maxpool(node):
                body.sites.append(Site(path, index, node, where, types))
            elif called_function(node) in self.holding:
                callee = self.call(node, types, where)
                body.sites.append(Site(path, index, node, where, types, callee))


def _merged(known: TensorType | None, proved: TensorType | None, symbols: set[int | str | None]) -> TensorType:
    """What is known and what is proved of a tensor, as one; names that onnx made up for unknown sizes are none."""

    def plain(dims: Dims | None) -> Dims | None:
        return None if dims is None else tuple(d if isinstance(d, int) or d in symbols else None for d in dims)

    declared = plain(known.dims) if known else None
    proof = plain(proved.dims) if proved else None
    element_type = (known.element_type if known else 0) or (proved.element_type if proved else 0)
    dims = declared
    if proof is not None:
        same_rank = declared if declared is not None and len(declared) == len(proof) else proof
        dims = tuple(p if isinstance(p, int) else d for p, d in zip(proof, same_rank, strict=True))
    return TensorType(element_type, dims, proof)


def _common_opset(function: FunctionProto, models: int) -> int:
    """The model's opset, where for the function's nodes it is no other than the function's own, else that.

    A model may only mix opsets in which each operator that it uses is the same: so is then what a conversion adds.
    """
    own = opset_of(function)
    try:
        for node in all_nodes(function):
            if node.domain in ONNX_DOMAINS:
                versions = {defs.get_schema(node.op_type, opset, "").since_version for opset in (own, models)}
                if len(versions) > 1:
                    return own
    except (defs.SchemaError, TypeError):  # no such operator, or no such opset
        return own
    return models


def _symbols(graph: GraphProto) -> Iterator[int | str | None]:
    """The dimensions that a graph, or one inside it, declares: the names of symbolic ones are among them."""
    for tensor in tensor_types(graph).values():
        yield from tensor.dims or ()
    for node in graph.node:
        for _, body in subgraphs(node):
            yield from _symbols(body)


def _holding_maxpool(functions: Mapping[FunctionKey, FunctionProto]) -> set[FunctionKey]:
    """The functions that hold a MaxPool, or call one that does."""
    calls = {
        key: {called_function(node) for node in all_nodes(function)} & functions.keys()
        for key, function in functions.items()
    }
    holding: set[FunctionKey] = set()
    try:
        for key in TopologicalSorter(calls).static_order():  # callees first
            if calls[key] & holding or any(map(is_maxpool, all_nodes(functions[key]))):
                holding.add(key)
    except CycleError as error:
        names = " -> ".join(repr(name) for _, name, _ in reversed(error.args[1]))
        raise InvalidModelError(f"model-local functions must not call themselves, got {names}") from error
    return holding


def _bound(nodes: Iterable[NodeProto], attributes: Mapping[str, AttributeProto]) -> Iterator[NodeProto]:
    """Copies of a function's nodes in which references to its attributes are replaced by what a call gives."""
    for node in nodes:
        copy = NodeProto()
        copy.CopyFrom(node)
        del copy.attribute[:]
        for attribute in node.attribute:
            value = attributes.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
            if value is not None:  # else the call leaves it out
                bound = copy.attribute.add()
                bound.CopyFrom(value)
                bound.name = attribute.name
        for _, body in subgraphs(copy):
            inner = list(_bound(body.node, attributes))
            del body.node[:]
            body.node.extend(inner)
        yield copy
