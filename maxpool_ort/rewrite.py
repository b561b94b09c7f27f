"""The nodes that take a MaxPool's place.

A converted node keeps its name, tensors and attributes. Around it stand, where they are needed, nodes of a conversion's
own, told by their names: Casts for element types that PyOp cannot take, what quantizes where it can take integers, and
a guard where a run may still fail. A call of a function that holds a MaxPool becomes a call of a copy in which it is
ours; the function itself stays.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    helper,
)

from maxpool_ort import wire
from maxpool_ort.graphs import (
    CALL_KEYS,
    ONNX_DOMAINS,
    Dims,
    GraphPath,
    TensorType,
    all_names,
    all_nodes,
    called_function,
    function_key,
    keep,
    subgraphs,
)
from maxpool_ort.inference import Body, Site
from maxpool_ort.model import (
    make_cast,
    make_constant,
    make_copied_dims,
    make_declaration,
    make_dequantize,
    make_guard,
    make_pyop_node,
    make_quantize,
)
from maxpool_ort.quantized import Fold
from maxpool_ort.schema import DOMAIN, FUNCTION_DOMAIN, HELPER_PREFIX, IMPORTED_VERSION, MaxPoolAttributes

__all__ = ["ZERO_POINT", "Replacement", "Rewriter"]

_CAST_THROUGH: dict[int, int] = {TensorProto.FLOAT16: TensorProto.FLOAT, TensorProto.BFLOAT16: TensorProto.FLOAT}
"""Element types that PyOp cannot take, and one that holds all their values, in their order."""
ZERO_POINT = "/zero_point"
"""What the names of the zero points of uint8 end with, behind the name of the node that quantizes, and other zeros'."""


@dataclass(frozen=True)
class Replacement:
    """What is to become of one MaxPool node."""

    attributes: MaxPoolAttributes
    x: TensorType
    can_fail: bool
    fold: Fold | None


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
        keep(self.model.functions, kept)

    def copy_of(self, body: Body) -> FunctionProto | None:
        """The function that a converted call calls: one for all calls for which it is the same."""
        if id(body) not in self.copies:
            self.copies[id(body)] = None if body.function is None else self._copy(body, body.function)
        return self.copies[id(body)]

    def _copy(self, body: Body, function: FunctionProto) -> FunctionProto | None:
        graph = GraphProto()
        graph.CopyFrom(body.graph)
        if not _BodyRewriter(self, body, graph).rewrite():
            return None
        copy = FunctionProto()
        copy.CopyFrom(function)
        copy.domain = FUNCTION_DOMAIN
        copy.ClearField("overload")
        keep(copy.node, graph.node)
        for each in copy.opset_import:
            if each.domain in ONNX_DOMAINS:
                each.version = body.opset
        _add_imports(copy.opset_import, [DOMAIN, FUNCTION_DOMAIN])
        taken = {function.name: function for function in self.model.functions if function.domain == FUNCTION_DOMAIN}
        number = 1
        while copy.name in taken and taken[copy.name] != copy:
            number += 1
            copy.name = f"{function.name}_{number}"
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
        self.numbers: defaultdict[str, int] = defaultdict(int)
        """How many names were tried for each hint."""
        self.copied_dims: dict[int, str] = {}
        """For each rank that a guard was needed for, the tensor that says which dimensions it copies: all."""
        self.sites = {(site.path, site.index): site for site in body.sites}
        self.has_changed = False

    def rewrite(self) -> bool:
        """Rewrite the graph, and return whether anything has changed."""
        self.visit(self.graph, ())
        if self.body.opset >= 5:
            constants = [
                make_copied_dims(name, rank, self.body.opset, name + ZERO_POINT)
                for rank, name in self.copied_dims.items()
            ]
            keep(self.graph.node, [*chain.from_iterable(constants), *self.graph.node])
        return self.has_changed

    def fresh(self, hint: str) -> str:
        """A name that nothing in the body has yet, nor with what belongs to it."""
        name = f"{HELPER_PREFIX}{hint}"
        while name in self.taken or name + ZERO_POINT in self.taken:
            self.numbers[hint] += 1
            name = f"{HELPER_PREFIX}{hint}/{self.numbers[hint] + 1}"
        self.taken |= {name, name + ZERO_POINT}
        return name

    def visit(self, graph: GraphProto, path: GraphPath) -> None:
        """Rewrite a graph of the body and the graphs inside it."""
        replaced = {
            index: self.parent.replacements[key]
            for index in range(len(graph.node))
            if (key := (id(self.body), path, index)) in self.parent.replacements
        }
        scope = _Scope(graph, {value.name for value in (*graph.value_info, *graph.output)})
        nodes: list[NodeProto] = []
        for index, node in enumerate(graph.node):
            for number, (_, inner) in enumerate(subgraphs(node)):
                self.visit(inner, (*path, (index, number)))
            site = self.sites.get((path, index))
            if index in replaced:
                nodes += self.replace(node, scope, replaced[index])
            else:
                nodes.append(self.call(node, site) if site and site.callee else node)
        self.has_changed |= bool(replaced)
        keep(graph.node, _without_unused_casts(nodes, scope))

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

    def replace(self, node: NodeProto, scope: "_Scope", replacement: Replacement) -> list[NodeProto]:
        """A node of ours and what it needs around it; the tensors at both ends stay those of the MaxPool."""
        x = replacement.x
        ours = make_pyop_node(node, replacement.attributes)
        if x.dims is not None and not replacement.can_fail and self.body.function is None:
            scope.declare(ours, x.element_type, replacement.attributes.output_dims(x.dims))
        return self.surround(ours, scope, replacement)

    def surround(self, ours: NodeProto, scope: "_Scope", replacement: Replacement) -> list[NodeProto]:
        """What converts X and Y, and guards.

        In a function each output goes through a Cast to its own type: ONNX Runtime infers a function's types before it
        puts the function in its place, where it drops such a Cast, and knows no type behind a custom operator.
        """
        before: list[NodeProto] = []
        after: list[NodeProto] = []
        inner_x = ours.input[0]
        inner_names = scope.inner_names
        ends = self.ends(replacement)
        inner_types = [ends.element_type if ends else replacement.x.element_type, TensorProto.INT64]
        if ends is not None:
            x = ours.input[0]
            if x not in inner_names or not ends.is_shared:
                inner_names[x] = self.fresh(f"{x}/{ends.kind}")
                before += ends.enter(x, inner_names[x])
            inner_x = ours.input[0] = inner_names[x]
        rank = len(replacement.attributes.kernel_shape) + 2
        for number, name in enumerate(ours.output):
            outer = name
            if ends is not None and number == 0:
                inner_names[name] = inner = self.fresh(f"{name}/{ends.kind}")
                after.insert(0, ends.leave(inner_x, inner, outer))
                outer = inner
            if replacement.can_fail:
                inner = self.fresh(f"{name}/guard")
                if rank not in self.copied_dims:
                    self.copied_dims[rank] = self.fresh(f"copied_dims/{rank}")
                after.insert(0, make_guard(inner, outer, rank, self.copied_dims[rank], self.body.opset, name=inner))
                outer = inner
            if self.body.function is not None:
                inner = self.fresh(f"{name}/type")
                after.insert(0, make_cast(inner, outer, inner_types[number], self.body.opset, name=inner))
                outer = inner
            ours.output[number] = outer
        return [*before, ours, *after]

    def ends(self, replacement: Replacement) -> "_Ends | None":
        """What converts X for our operator and Y back, if anything must."""
        element_type = replacement.x.element_type
        through = _CAST_THROUGH.get(element_type)
        if replacement.fold is not None:
            return _QuantizedEnds("quantize", replacement.fold.element_type, replacement.fold)
        return None if through is None else _CastEnds("cast", through, element_type, self.body.opset)


@dataclass
class _Scope:
    """A graph that is being rewritten."""

    graph: GraphProto
    declared: set[str]
    inner_names: dict[str, str] = field(default_factory=dict)
    """For tensors that are there as another element type too, the name as that."""

    def declare(self, node: NodeProto, element_type: int, dims: Dims) -> None:
        """Declare the outputs of a node where nothing else does.

        ONNX Runtime infers nothing behind a custom operator, and without shapes fuses less: Add and Relu into Conv.
        """
        for name, output_type in zip(node.output, (element_type, TensorProto.INT64), strict=False):
            if name not in self.declared:
                self.graph.value_info.append(make_declaration(name, output_type, dims))
                self.declared.add(name)


@dataclass(frozen=True)
class _Ends(ABC):
    """Nodes that convert X and Y where our operator runs on another element type; each named by its tensor inside."""

    kind: str
    element_type: int

    @property
    def is_shared(self) -> bool:
        """Whether nodes with the same X share what converts it."""
        return True

    @abstractmethod
    def enter(self, x: str, inner_x: str) -> list[NodeProto]:
        """From X to what our operator takes."""

    @abstractmethod
    def leave(self, inner_x: str, inner_y: str, y: str) -> NodeProto:
        """From what our operator puts out to Y."""


@dataclass(frozen=True)
class _CastEnds(_Ends):
    outer_type: int
    opset: int

    def enter(self, x: str, inner_x: str) -> list[NodeProto]:
        return [make_cast(x, inner_x, self.element_type, self.opset, name=inner_x)]

    def leave(self, inner_x: str, inner_y: str, y: str) -> NodeProto:  # noqa: ARG002 (needed for quantized ends)
        return make_cast(inner_y, y, self.outer_type, self.opset, name=inner_y)


@dataclass(frozen=True)
class _QuantizedEnds(_Ends):
    """The inverse of the DequantizeLinear in front of X, and that node again; ONNX Runtime takes out such pairs."""

    fold: Fold

    @property
    def is_shared(self) -> bool:  # ONNX Runtime takes out such a pair of uint8 only where nothing else uses it
        return self.fold.shifted is not None

    def enter(self, x: str, inner_x: str) -> list[NodeProto]:
        node = make_quantize(x, inner_x, self.fold.dequantize, self._zero_point(inner_x), name=inner_x)
        if self.fold.shifted is None:
            return [node]
        return [make_constant(inner_x + ZERO_POINT, self.fold.shifted), node]

    def leave(self, inner_x: str, inner_y: str, y: str) -> NodeProto:
        return make_dequantize(inner_y, y, self.fold.dequantize, self._zero_point(inner_x), name=inner_y)

    def _zero_point(self, inner_x: str) -> str | None:
        return None if self.fold.shifted is None else inner_x + ZERO_POINT


def _without_unused_casts(nodes: list[NodeProto], scope: _Scope) -> list[NodeProto]:
    """Leave out the Casts back to tensors that only converted nodes take; these take what was cast.

    The node before such a Cast keeps the name of the tensor that is no more.
    """
    used = {output.name for output in scope.graph.output}
    for node in nodes:
        used.update(node.input)
        for _, body in subgraphs(node):
            used.update(name for inner in all_nodes(body) for name in inner.input)
            used.update(output.name for output in body.output)
    unused = {inner: name for name, inner in scope.inner_names.items() if name not in used}
    kept: list[NodeProto] = []
    makers: dict[str, NodeProto] = {}
    for node in nodes:
        if node.op_type == "Cast" and node.name in unused and node.input[0] == node.name:
            maker = makers[node.name]
            while maker.domain != DOMAIN:  # a guard, in a function a Cast too
                maker = makers[maker.input[0]]
            maker.attribute.append(helper.make_attribute(wire.Y, unused[node.name]))
        else:
            kept.append(node)
            makers.update((name, node) for name in node.output[:1])
    return kept


def _add_imports(imports: Any, domains: Iterable[str]) -> None:
    for domain in domains:
        if all(each.domain != domain for each in imports):
            imports.append(helper.make_opsetid(domain, IMPORTED_VERSION))
