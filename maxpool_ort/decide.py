"""What is to become of each MaxPool node of a model, and why."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from onnx import FunctionProto, NodeProto, defs

from maxpool_ort import wire
from maxpool_ort.errors import InvalidModelError, InvalidShapeError, MaxPoolError
from maxpool_ort.graphs import (
    Dims,
    GraphPath,
    TensorType,
    all_nodes,
    graph_at,
    is_maxpool,
    tensor_types,
)
from maxpool_ort.inference import Body, Site
from maxpool_ort.inspection import differs_in_shape
from maxpool_ort.quantized import Fold, find_folds
from maxpool_ort.recommend import Recommendation, recommend
from maxpool_ort.rewrite import Replacement
from maxpool_ort.schema import (
    DOMAIN,
    NEWEST_VERSION,
    OP_TYPE,
    MaxPoolAttributes,
    check_version,
    describe,
    shown,
    type_name,
)

__all__ = ["ConvertedNode", "Decider", "Guard", "Select", "SkippedNode"]

_MAY_GO = frozenset({"Identity", "Transpose"})
"""Nodes that ONNX Runtime takes out, two Transposes together; what is before them is then the graph's output."""


@dataclass(frozen=True)
class ConvertedNode:
    """One MaxPool node that now runs our operator; ``reason`` is why it was chosen, if not all were."""

    node: str
    where: str
    attributes: MaxPoolAttributes
    element_type: str
    input_dims: Dims | None
    has_indices: bool
    is_guarded: bool
    name: str
    reason: str


Guard = Literal["needed", "all"]
Select = str | Callable[[ConvertedNode], bool] | Collection[str]


@dataclass(frozen=True)
class SkippedNode:
    """One MaxPool node that was left as it was, and why."""

    node: str
    where: str
    reason: str
    is_ours: bool
    """Whether it runs our operator all the same, since the model was converted before."""
    is_choice: bool = False
    """Whether it could run our operator, and ``select`` left it out."""


@dataclass(frozen=True)
class _Decision:
    """A MaxPool node that will be converted."""

    node: ConvertedNode
    x: TensorType
    fold: Fold | None
    is_fed: bool
    """Whether X is an input of the model, of which ONNX Runtime checks the size at each run."""
    is_placed: bool
    """Whether an output may have its place before the run, of another size: see ``_places``."""


class Decider:
    """Decides for each MaxPool of one model what is to become of it, and keeps account."""

    def __init__(self, select: Select, guard: Guard) -> None:
        self.choose = _selector(select)
        if guard not in get_args(Guard):
            raise MaxPoolError(f"guard must be one of {', '.join(get_args(Guard))}, got {guard!r}")
        self.guards_all = guard == "all"
        self.wanted = set() if isinstance(select, str) or callable(select) else set(select)
        self.names: set[str] = set()
        self.decisions: dict[tuple[int, GraphPath, int], _Decision] = {}
        self.skipped: list[SkippedNode] = []
        self.folds: dict[tuple[int, GraphPath], dict[int, Fold]] = {}
        self.places: dict[tuple[int, GraphPath], tuple[set[str], bool]] = {}
        self.is_proved = True
        """Whether the sizes that inference proves hold: not behind a node that stays, and has another shape there."""

    def skip_function(self, function: FunctionProto) -> None:
        """Leave every MaxPool of a function that does not run."""
        for node in filter(is_maxpool, all_nodes(function)):
            self.names.add(node.name)
            self.skip(node, f"function {function.name!r}", "nothing calls the function")

    def skip(self, node: NodeProto, where: str, reason: str) -> None:
        """Leave a MaxPool node."""
        self.skipped.append(SkippedNode(describe(node), where, reason, node.domain == DOMAIN))

    def decide(self, body: Body, site: Site) -> None:
        """Convert a MaxPool node, or leave it and say why."""
        node, where = site.node, site.where
        self.names.add(node.name)
        x = site.types.get(node.input[0] if node.input else "")
        if node.domain == DOMAIN:
            self._hold_proof(wire.attributes_of(node), x, site)
            self.skip(node, where, "runs our operator already")
            return
        if not 0 < body.opset < 2**31:  # beyond, onnx cannot look it up
            raise InvalidModelError(
                f"{describe(node)}: the model must import a version of ONNX's operators, got {body.opset or 'none'}"
            )
        version = defs.get_schema(OP_TYPE, body.opset).since_version
        if version > NEWEST_VERSION:
            self.is_proved = False
            self.skip(node, where, f"MaxPool-{version} is newer than what is known here, MaxPool-{NEWEST_VERSION}")
            return
        attributes = MaxPoolAttributes.from_node(node)
        check_version(node, body.opset, x.element_type if x and x.element_type else None)
        if x is not None:
            x = self._checked(body, site, attributes, x)
        if x is None or not x.element_type:
            self._leave(attributes, x)
            self.skip(node, where, "the element type of X is not known from the graph")
            return
        fold = self._fold(body, site)
        element_type = fold.element_type if fold else x.element_type
        candidate = ConvertedNode(
            node=describe(node),
            where=where,
            attributes=attributes,
            element_type=type_name(element_type),
            input_dims=x.dims,
            has_indices=any(node.output[1:]),
            is_guarded=not x.is_static,
            name=node.name,
            reason="",
        )
        chosen = self.choose(candidate, body.opset)
        if not chosen.is_ours:
            self._leave(attributes, x)
            self.skipped.append(SkippedNode(describe(node), where, chosen.reason, is_ours=False, is_choice=True))
            return
        candidate = replace(candidate, reason=chosen.reason)
        is_fed = body.function is None and node.input[0] in {value.name for value in body.graph.input}
        places, are_checked = self._places(body, site.path)
        is_placed = not places.isdisjoint(node.output) and not (are_checked and _is_fixed(x.proved))
        self.decisions[id(body), site.path, site.index] = _Decision(candidate, x, fold, is_fed, is_placed)

    def _checked(self, body: Body, site: Site, attributes: MaxPoolAttributes, x: TensorType) -> TensorType:
        """X with dimensions that fit the attributes; it is an error if they cannot where the node runs in any case."""
        try:
            if x.proved is not None:
                attributes.output_dims(x.proved)
        except InvalidShapeError as error:
            if body.function is None and not site.path:
                raise InvalidShapeError(f"{describe(site.node)}: {error}") from error
            return replace(x, dims=None, proved=None)
        self._hold_proof(attributes, x, site)
        try:
            if x.dims is not None:
                attributes.output_dims(x.dims)
        except InvalidShapeError:  # what is declared and not proved may be wrong
            return replace(x, dims=x.proved)
        return x

    def _hold_proof(self, attributes: MaxPoolAttributes, x: TensorType | None, site: Site) -> None:
        """Give up all proofs if onnx has inferred another size than the true one, and gone on with it."""
        y = site.types.get(site.node.output[0] if site.node.output else "")
        if x is None or x.proved is None or y is None or y.proved is None:
            return
        try:
            sizes = zip(attributes.output_dims(x.proved), y.proved, strict=False)
        except InvalidShapeError:  # a node of ours that always fails
            return
        if any(isinstance(true, int) and isinstance(size, int) and true != size for true, size in sizes):
            self.is_proved = False

    def _leave(self, attributes: MaxPoolAttributes, x: TensorType | None) -> None:
        if x is not None and x.proved is not None and differs_in_shape(attributes, x.proved):
            self.is_proved = False

    def _fold(self, body: Body, site: Site) -> Fold | None:
        """The integers that a node can take instead of X, if it stands in between what quantizes."""
        key = id(body), site.path
        if key not in self.folds:
            self.folds[key] = find_folds(graph_at(body.graph, site.path), body.types[site.path])
        return self.folds[key].get(site.index)

    def _places(self, body: Body, path: GraphPath) -> tuple[set[str], bool]:
        key = id(body), path
        if key not in self.places:
            self.places[key] = _places(body, path)
        return self.places[key]

    def settle(self) -> tuple[tuple[ConvertedNode, ...], dict[tuple[int, GraphPath, int], Replacement]]:
        """What was decided, as it will be reported and done, now that it is known what is proved."""
        converted, replacements = [], {}
        for key, decision in self.decisions.items():
            is_right = decision.x.is_static and (self.is_proved or decision.is_fed)
            can_fail = self.guards_all or not is_right or decision.is_placed
            converted.append(replace(decision.node, is_guarded=can_fail))
            replacements[key] = Replacement(decision.node.attributes, decision.x, can_fail, decision.fold)
        return tuple(converted), replacements

    def refuse_unknown_names(self) -> None:
        """Names that were selected must be those of MaxPool nodes."""
        unknown = sorted(self.wanted - self.names)
        if unknown:
            named = sorted(self.names - {""})
            has = [shown(named)] * bool(named) + ["some without a name ('')"] * ("" in self.names)
            raise MaxPoolError(
                f"select must name MaxPool nodes of the model, got {shown(unknown)}; "
                f"it has {' and '.join(has) or 'none'}"
            )


def _places(body: Body, path: GraphPath) -> tuple[set[str], bool]:
    """Tensors of a graph that may have their places before a run, and whether these are checked to be as declared.

    Outputs have, where a caller bound them, or in the body of an If. A node of ONNX Runtime's own refuses a place of
    another size, a custom operator ends the process. What is bound is checked before the run as far as it is declared.
    """
    graph = graph_at(body.graph, path)
    places = {value.name for value in graph.output}
    for node in reversed(graph.node):
        if node.op_type in _MAY_GO and places.intersection(node.output):
            places.update(node.input)
    declared = tensor_types(graph)
    dims = [declared[value.name].dims for value in graph.output if value.name in declared]
    return places, body.function is None and not path and all(map(_is_fixed, dims))


def _is_fixed(dims: Dims | None) -> bool:
    return dims is not None and all(isinstance(dim, int) for dim in dims)


def _selector(select: Select) -> Callable[[ConvertedNode, int], Recommendation]:
    """What to do with a node, of which the model's opset is given too."""
    if select == "all":
        return lambda _node, _opset: Recommendation(True, "")
    if select == "recommended":
        return lambda node, opset: recommend(
            node.attributes, node.element_type, node.input_dims, with_indices=node.has_indices, opset=opset
        )
    if callable(select):
        is_chosen = select
    elif isinstance(select, str) or not (isinstance(select, Iterable) and all(isinstance(n, str) for n in select)):
        raise MaxPoolError(f"select must be 'all', 'recommended', a function or a list of node names, got {select!r}")
    else:
        names = set(select)

        def is_chosen(node: ConvertedNode) -> bool:
            return node.name in names

    def choose(node: ConvertedNode, _opset: int) -> Recommendation:
        is_ours = bool(is_chosen(node))
        return Recommendation(is_ours, "selected" if is_ours else "not selected")

    return choose
