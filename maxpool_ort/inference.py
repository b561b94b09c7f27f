"""What a model's MaxPool nodes see: types and sizes of their tensors, and which sizes are proved.

onnx infers twice: from the model, for what is known, and from its twin, for what is proved.

A function's body is looked at as each of its calls sees it, with the call's attributes and types put in.
"""

from collections import ChainMap, Counter
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
from onnx.checker import ValidationError
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
from maxpool_ort.twin import TWIN, defuse, defuse_nodes, make_opaque, make_twin, twin_function, twin_operators

__all__ = ["Body", "Site", "analyse", "unused_functions"]

_MOST_DEPTH = 100
"""Of functions that call functions: beyond, onnx refuses the model."""
_MOST_CALLS = 10_000
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
        for key, count in Counter(map(function_key, model.functions)).items():
            if count > 1:
                raise InvalidModelError(
                    f"model-local functions must be defined once, got {key[1]!r} of domain {key[0]!r} {count} times; "
                    "remove all but one"
                )
        self.calls = _Calls(self.functions)
        self.operators = twin_operators()
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
        self.asked = ask_runtime(model, unknown & made) if unknown & made else {}
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
        known: GraphProto | None = body.graph
        proved = None
        if self.calls.are_few(body.graph) and any(map(self.is_site, all_nodes(body.graph))):
            known = self.infer(body, imports, {name: (t.element_type, t.dims) for name, t in given.items()})
            proved = self.infer(
                body, imports, {name: (t.element_type, t.proved) for name, t in given.items()}, is_twin=True
            )
        symbols = set(_symbols(body.graph)) | {dim for t in given.values() for dim in t.dims or ()}
        self.visit(body, (), (body.graph, known, proved), ChainMap(dict(given)), symbols, body.where)

    def is_site(self, node: NodeProto) -> bool:
        """Whether a node is a MaxPool, or calls a function that holds one."""
        return is_maxpool(node) or called_function(node) in self.calls.holding

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
        functions = [_copied(self.functions[key]) for key in self.calls.reached(body.graph)]
        defuse(graph)
        for function in functions:
            defuse_nodes(function.node)
            function.opset_import.append(helper.make_opsetid(TWIN, 1))
        for name, (element_type, dims) in given.items():
            graph.input.append(
                helper.make_tensor_value_info(name, element_type, dims) if element_type else ValueInfoProto(name=name)
            )
        if is_twin:
            make_twin(graph, self.model.ir_version)
            functions = list(map(twin_function, functions))
        elif body.function is None:
            graph.value_info.extend(helper.make_tensor_value_info(*asked, None) for asked in self.asked.items())
        model = ModelProto(ir_version=self.model.ir_version, opset_import=imports, graph=graph)
        model.opset_import.append(helper.make_opsetid(TWIN, 1))
        model.functions.extend([*functions, *self.operators])
        inferred = _inferred(model)
        return graph if inferred is None and not is_twin else inferred

    def visit(
        self,
        body: Body,
        path: GraphPath,
        graphs: tuple[GraphProto, GraphProto | None, GraphProto | None],
        outer: ChainMap[str, TensorType],
        symbols: set[int | str | None],
        where: str,
    ) -> None:
        """Note the types that a graph's nodes can see, and the sites in it and in the graphs inside it."""
        graph, *inferred = graphs
        known, proved = (tensor_types(each) if each is not None else {} for each in inferred)
        types = outer.new_child(
            {name: _merged(known.get(name), proved.get(name), symbols) for name in {**known, **proved}}
        )
        body.types[path] = types
        for index, node in enumerate(graph.node):
            if is_maxpool(node):
                body.sites.append(Site(path, index, node, where, types))
                continue
            twins = [list(subgraphs(each.node[index])) if each is not None else None for each in inferred]
            for number, (name, inner) in enumerate(subgraphs(node)):
                both = [twin[number][1] if twin is not None else None for twin in twins]
                place = f"{where}, {name} of {node.op_type} {node.name!r}"
                self.visit(body, (*path, (index, number)), (inner, both[0], both[1]), types, symbols, place)
            if called_function(node) in self.calls.holding:
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


class _Calls:
    """Which functions call which, and which hold a MaxPool or call one that does."""

    def __init__(self, functions: Mapping[FunctionKey, FunctionProto]) -> None:
        self.callees = {
            key: [callee for node in all_nodes(function) if (callee := called_function(node)) in functions]
            for key, function in functions.items()
        }
        self.holding: set[FunctionKey] = set()
        self.counts: dict[FunctionKey, int] = {}
        """How many calls a call leads to, itself among them."""
        depths: dict[FunctionKey, int] = {}
        try:
            for key in TopologicalSorter(self.callees).static_order():  # callees first
                callees = self.callees[key]
                if not self.holding.isdisjoint(callees) or any(map(is_maxpool, all_nodes(functions[key]))):
                    self.holding.add(key)
                self.counts[key] = 1 + sum(self.counts[callee] for callee in callees)
                depths[key] = 1 + max((depths[callee] for callee in callees), default=0)
        except CycleError as error:
            names = " -> ".join(repr(name) for _, name, _ in reversed(error.args[1]))
            raise InvalidModelError(f"model-local functions must not call themselves, got {names}") from error
        deepest = max(depths.values(), default=0)
        if deepest > _MOST_DEPTH:
            raise InvalidModelError(
                f"model-local functions may call each other at most {_MOST_DEPTH} deep, got {deepest}"
            )

    def reached(self, graph: GraphProto) -> set[FunctionKey]:
        """The functions that a graph calls, be it through others."""
        reached = {called_function(node) for node in all_nodes(graph)} & self.callees.keys()
        reaching = list(reached)
        while reaching:
            new = set(self.callees[reaching.pop()]) - reached
            reached |= new
            reaching += new
        return reached

    def are_few(self, graph: GraphProto) -> bool:
        """Whether onnx, which follows each single call, can infer a graph's types in bounded time."""
        return sum(self.counts.get(called_function(node), 0) for node in all_nodes(graph)) <= _MOST_CALLS


def _inferred(model: ModelProto) -> GraphProto | None:
    """What onnx infers; None where it fails.

    It ends the process at a Slice of a negative size, which it infers where a window is larger than X. So it infers
    without the graph's Slices first, if there are any; and without those of functions, into which nobody can see.
    """
    for function in model.functions:
        make_opaque(function.node, "Slice")
    try:
        if any(node.op_type == "Slice" for node in all_nodes(model.graph)):
            careful = ModelProto()
            careful.CopyFrom(model)
            make_opaque(careful.graph.node, "Slice")
            inferred = infer_shapes(careful).graph
            if _has_negative_size(inferred):
                return inferred
        return infer_shapes(model).graph
    except (InferenceError, ValidationError, ValueError, RuntimeError, MemoryError):  # a contradiction, and others
        return None


def _has_negative_size(graph: GraphProto) -> bool:
    values = (value.type.tensor_type for value in (*graph.value_info, *graph.output))
    return any(dim.dim_value < 0 for tensor in values for dim in tensor.shape.dim) or any(
        _has_negative_size(body) for node in graph.node for _, body in subgraphs(node)
    )


def _copied(function: FunctionProto) -> FunctionProto:
    copy = FunctionProto()
    copy.CopyFrom(function)
    return copy


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
