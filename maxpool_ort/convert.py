"""Standard MaxPool nodes to ours and back, at any depth of a model; what was done and what was left, and why, is data.

A converted node keeps its name, tensors and attributes. Around it stand, where they are needed, nodes of a conversion's
own, told by their names: Casts for element types that PyOp cannot take, and a guard where a run may still fail. What
it declares of shapes is told by its doc string.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
import os
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, defs, helper

from maxpool_ort import wire
from maxpool_ort.errors import InvalidModelError, InvalidShapeError, MaxPoolError
from maxpool_ort.files import has_external_data, read_model, write_model
from maxpool_ort.graphs import (
    Dims,
    TensorType,
    all_names,
    dangling_names,
    is_inference_sound,
    is_maxpool,
    maxpool_nodes,
    opset_of,
    refusing_other_encodings,
    subgraphs,
    tensor_types,
    with_inferred_types,
)
from maxpool_ort.model import (
    is_declaration,
    make_cast,
    make_copied_dims,
    make_declaration,
    make_guard,
    make_node_before_pyop,
    make_pyop_node,
)
from maxpool_ort.recommend import Recommendation, recommend
from maxpool_ort.schema import (
    DOMAIN,
    HELPER_PREFIX,
    NEWEST_VERSION,
    OP_TYPE,
    MaxPoolAttributes,
    check_version,
    describe,
    type_name,
)

__all__ = [  # noqa: RUF022 (grouped)
    "Conversion", "ConvertedNode", "SkippedNode", "Select",
    "convert_model", "convert_file", "restore_model", "restore_file",
]  # fmt: skip


_CAST_THROUGH: dict[int, int] = {TensorProto.FLOAT16: TensorProto.FLOAT, TensorProto.BFLOAT16: TensorProto.FLOAT}
"""Element types that PyOp cannot take, and one that holds all their values, in their order."""


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
class Conversion:
    """What ``convert_model`` did.

    ``print`` it for a summary.
    """

    model: ModelProto
    converted: tuple[ConvertedNode, ...]
    skipped: tuple[SkippedNode, ...]

    def __str__(self) -> str:
        """One line for each MaxPool node of the model."""
        done = [
            f"converted {n.node} in {n.where}: {n.element_type} {n.attributes}" + (f" ({n.reason})" if n.reason else "")
            for n in self.converted
        ]
        left = [f"left {n.node} in {n.where}: {n.reason}" for n in self.skipped]
        return "\n".join([*done, *left]) or "no MaxPool node in this model; nothing was converted"


@refusing_other_encodings()
def convert_model(model: ModelProto, *, select: Select = "all") -> Conversion:
    """Let the MaxPool nodes of a model run our operator.

    Nodes in the bodies of If, Loop and Scan are converted too; those in model-local functions are left, as are those
    whose element type is unknown, or whose version is newer than 22. Names of nodes and tensors, graph inputs and
    outputs stay as they are.

    Parameters
    ----------
    model
        Any model, with MaxPool of version 1 to 22; it is not changed.
    select
        Which nodes: ``"all"``; ``"recommended"``, those for which ONNX Runtime's own operator is slower or wrong; a
        function that takes a ``ConvertedNode``, as it would be, and returns whether to; or a list of node names.

    Returns
    -------
    Conversion
        The new model, each node that was converted, and each that was left and why. A converted model passes
        ``onnx.checker.check_model``, and runs where ``register`` was called on the session's options.

    Raises
    ------
    InvalidAttributeError, InvalidShapeError, UnsupportedTypeError
        With the node's name, if a MaxPool node is invalid.
    InvalidModelError
        If the model imports no version of ONNX's own operators.
    MaxPoolError
        If ``select`` is something else, or names a node that is no MaxPool of the model.

    Examples
    --------
    >>> from maxpool_ort.model import make_maxpool_model
    >>> conversion = convert_model(make_maxpool_model(kernel_shape=[2, 2], input_shape=["N", 3, 8, 8]))
    >>> print(conversion)
    converted MaxPool 'maxpool' in graph 'maxpool': float kernel_shape=2,2
    >>> [(node.domain, node.op_type) for node in conversion.model.graph.node]
    [('maxpool_ort', 'MaxPool')]
    """
    if not isinstance(model, ModelProto):
        raise TypeError(f"model must be an onnx.ModelProto, got {type(model).__name__}; use convert_file for a path")
    result = ModelProto()
    result.CopyFrom(model)
    converter = _Converter(result, _selector(select))
    converter.convert_graph(result.graph, with_inferred_types(model).graph, {}, f"graph {model.graph.name!r}")
    for function in model.functions:
        converter.skip_nodes(function.node, f"function {function.name!r}", "in a model-local function")
    converter.finish()
    if not isinstance(select, str) and not callable(select):
        _refuse_unknown(set(select), converter.names)
    return Conversion(result, tuple(converter.converted), tuple(converter.skipped))


def _selector(select: Select) -> Callable[[ConvertedNode, int], Recommendation]:
    """What to do with a node, of which the model's opset is given too."""
    if select == "all":
        return lambda _node, _opset: Recommendation(True, "")
    if select == "recommended":
        return lambda node, opset: recommend(
            node.attributes, node.element_type, node.input_dims, with_indices=node.has_indices, opset=opset
        )
    if callable(select):
        return lambda node, _opset: Recommendation(bool(select(node)), "selected" if select(node) else "not selected")
    if isinstance(select, str) or not (isinstance(select, Iterable) and all(isinstance(name, str) for name in select)):
        raise MaxPoolError(f"select must be 'all', 'recommended', a function or a list of node names, got {select!r}")
    names = set(select)
    return lambda node, _opset: Recommendation(node.name in names, "selected" if node.name in names else "not selected")


def _refuse_unknown(names: set[str], known: set[str]) -> None:
    unknown = sorted(names - known)
    if unknown:
        raise MaxPoolError(
            f"select must name MaxPool nodes of the model, got {', '.join(map(repr, unknown))}; "
            f"there are {', '.join(map(repr, sorted(known))) or 'none'}"
        )


class _Converter:
    """Rewrites the graphs of one model in place and keeps account."""

    def __init__(self, model: ModelProto, choose: Callable[[ConvertedNode, int], Recommendation]) -> None:
        self.model = model
        self.choose = choose
        self.names: set[str] = set()
        self.converted: list[ConvertedNode] = []
        self.skipped: list[SkippedNode] = []
        self.taken = set(all_names(model.graph))
        self.copied_dims: dict[int, str] = {}
        """For each rank that a guard was needed for, the tensor that says which dimensions it copies: all."""
        self.opset = opset_of(model)
        self.is_inference_sound = is_inference_sound(model)
        self.inputs = {value.name for value in model.graph.input}
        """Their sizes hold in any case: ONNX Runtime refuses a run with others."""

    def fresh(self, hint: str) -> str:
        """A name that nothing in the model has yet."""
        name = f"{HELPER_PREFIX}{hint}"
        number = 1
        while name in self.taken:
            number += 1
            name = f"{HELPER_PREFIX}{hint}/{number}"
        self.taken.add(name)
        return name

    def skip_nodes(self, nodes: Iterable[NodeProto], where: str, reason: str) -> None:
        """Leave every MaxPool among these nodes and in their bodies."""
        for node in nodes:
            if is_maxpool(node):
                self.names.add(node.name)
                self.skipped.append(SkippedNode(describe(node), where, reason, node.domain == DOMAIN))
            for name, body in subgraphs(node):
                self.skip_nodes(body.node, f"{where}, {name} of {node.op_type} {node.name!r}", reason)

    def convert_graph(
        self, graph: GraphProto, inferred: GraphProto, outer: Mapping[str, TensorType], where: str
    ) -> None:
        """Convert the nodes of a graph and of the graphs inside it; ``inferred`` is its twin with value_info."""
        types = {**outer, **tensor_types(inferred)}
        nodes: list[NodeProto] = []
        for node, twin in zip(graph.node, inferred.node, strict=True):
            for (name, body), (_, body_twin) in zip(subgraphs(node), subgraphs(twin), strict=True):
                self.convert_graph(body, body_twin, types, f"{where}, {name} of {node.op_type} {node.name!r}")
            nodes.extend(self.convert_node(node, graph, types, where) if is_maxpool(node) else [node])
        del graph.node[:]
        graph.node.extend(nodes)

    def convert_node(
        self, node: NodeProto, graph: GraphProto, types: Mapping[str, TensorType], where: str
    ) -> list[NodeProto]:
        """The nodes that take a MaxPool's place: one of ours with what it needs around it, or the MaxPool itself."""
        self.names.add(node.name)
        if node.domain == DOMAIN:
            wire.attributes_of(node)
            self.skip_nodes([node], where, "runs our operator already")
            return [node]
        if not 0 < self.opset < 2**31:  # beyond, onnx cannot look it up
            raise InvalidModelError(
                f"{describe(node)}: the model must import a version of ONNX's operators, got {self.opset or 'none'}"
            )
        version = defs.get_schema(OP_TYPE, self.opset).since_version
        if version > NEWEST_VERSION:
            self.skip_nodes(
                [node], where, f"MaxPool-{version} is newer than what is known here, MaxPool-{NEWEST_VERSION}"
            )
            return [node]
        attributes = MaxPoolAttributes.from_node(node)
        x = types.get(node.input[0] if node.input else "")
        check_version(node, self.opset, x.element_type if x and x.element_type else None)
        if x is None or not x.element_type:
            self.skip_nodes([node], where, "the element type of X is not known from the graph")
            return [node]
        is_static = x.dims is not None and all(isinstance(dim, int) for dim in x.dims[2:])
        can_fail = not (is_static and (self.is_inference_sound or node.input[0] in self.inputs))
        if x.dims is not None:
            try:
                attributes.output_dims(x.dims)
            except InvalidShapeError as error:
                raise InvalidShapeError(f"{describe(node)}: {error}") from error
        candidate = ConvertedNode(
            node=describe(node),
            where=where,
            attributes=attributes,
            element_type=type_name(x.element_type),
            input_dims=x.dims,
            has_indices=any(node.output[1:]),
            is_guarded=can_fail,
            name=node.name,
            reason="",
        )
        chosen = self.choose(candidate, self.opset)
        if not chosen.is_ours:
            self.skipped.append(SkippedNode(describe(node), where, chosen.reason, is_ours=False, is_choice=True))
            return [node]
        self.converted.append(replace(candidate, reason=chosen.reason))
        replacement = self.replacement(
            make_pyop_node(node, attributes), len(attributes.kernel_shape) + 2, x, can_fail=can_fail
        )
        if x.dims is not None and not can_fail:
            self.declare(graph, node, x.element_type, attributes.output_dims(x.dims))
        return replacement

    @staticmethod
    def declare(graph: GraphProto, node: NodeProto, element_type: int, dims: Dims) -> None:
        """Declare the outputs of a node where nothing else does.

        ONNX Runtime infers nothing behind a custom operator, and without shapes fuses less: Add and Relu into Conv.
        """
        declared = {value.name for value in (*graph.value_info, *graph.output)}
        for name, output_type in zip(node.output, (element_type, TensorProto.INT64), strict=False):
            if name and name not in declared:
                graph.value_info.append(make_declaration(name, output_type, dims))

    def replacement(self, ours: NodeProto, rank: int, x: TensorType, *, can_fail: bool) -> list[NodeProto]:
        """A node of ours and the Casts and guards that it needs; the tensors at both ends stay those of the MaxPool."""
        before: list[NodeProto] = []
        after: list[NodeProto] = []
        through = _CAST_THROUGH.get(x.element_type)
        if through is not None:
            inner = self.fresh(f"{ours.input[0]}/cast")
            before.append(make_cast(ours.input[0], inner, through, self.opset, name=inner))
            ours.input[0] = inner
        for number, name in enumerate(ours.output):
            outer = name
            if through is not None and number == 0:
                inner = self.fresh(f"{name}/cast")
                after.insert(0, make_cast(inner, outer, x.element_type, self.opset, name=inner))
                outer = inner
            if can_fail:
                inner = self.fresh(f"{name}/guard")
                if rank not in self.copied_dims:
                    self.copied_dims[rank] = self.fresh(f"copied_dims/{rank}")
                guard = make_guard(inner, outer, rank, self.copied_dims[rank], self.opset, name=inner)
                after.insert(0, guard)
                outer = inner
            ours.output[number] = outer
        return [*before, ours, *after]

    def finish(self) -> None:
        """Add to the main graph and to the model what the new nodes stand on."""
        graph = self.model.graph
        if self.opset >= 5:
            constants = [make_copied_dims(name, rank) for rank, name in self.copied_dims.items()]
            nodes = [*constants, *graph.node]
            del graph.node[:]
            graph.node.extend(nodes)
        if self.converted and all(i.domain != DOMAIN for i in self.model.opset_import):
            self.model.opset_import.append(helper.make_opsetid(DOMAIN, 1))


@refusing_other_encodings()
def restore_model(model: ModelProto) -> ModelProto:
    """The exact inverse of ``convert_model``: our operators become the standard MaxPool nodes that they were made from.

    Parameters
    ----------
    model
        A converted model; it is not changed. Any other model comes back as it is.

    Raises
    ------
    InvalidAttributeError
        If a node of ours says two different things about its attributes.
    InvalidModelError
        If what a conversion puts around its nodes has been changed.

    Examples
    --------
    >>> from maxpool_ort.model import make_maxpool_model
    >>> model = make_maxpool_model(kernel_shape=[2, 2], input_shape=["N", 3, None, None], dtype="float16")
    >>> restore_model(convert_model(model).model) == model
    True
    """
    result = ModelProto()
    result.CopyFrom(model)
    if all(node.domain != DOMAIN for node, _, _ in maxpool_nodes(result.graph, "")):
        return result
    helpers: set[str] = set()
    _restore_graph(result.graph, helpers)
    _remove_nodes(result.graph, helpers)
    lost = dangling_names(result.graph)
    if lost:
        raise InvalidModelError(
            f"the model cannot be restored: nodes that convert had put in are gone, and with them what makes "
            f"{', '.join(sorted(map(repr, lost)))}; restore the model as convert wrote it"
        )
    imports = [i for i in result.opset_import if i.domain != DOMAIN]
    del result.opset_import[:]
    result.opset_import.extend(imports)
    return result


def _restore_graph(graph: GraphProto, helpers: set[str]) -> None:
    """Put the standard nodes back; add to ``helpers`` the names of the nodes that stood around ours, and only those."""
    # A helper before a node of ours is named by the tensor that it makes, one behind it by the tensor that it takes.
    named = [node for node in graph.node if node.name.startswith(HELPER_PREFIX) and node.input and node.output]
    before = {node.name: node for node in named if node.name == node.output[0]}
    after = {node.name: node for node in named if node.name == node.input[0]}
    for node in graph.node:
        for _, body in subgraphs(node):
            _restore_graph(body, helpers)
        if node.domain == DOMAIN:
            wire.attributes_of(node)
            standard = make_node_before_pyop(node)
            for number, name in enumerate(node.input):
                if name in before:
                    helpers.add(name)
                    standard.input[number] = before[name].input[0]
            for number, output in enumerate(node.output):
                name = output
                while name in after and name not in helpers:  # at most a guard and a Cast
                    helpers.update((name, *after[name].input[1:]))  # the guard's Constant bears the name of its output
                    name = after[name].output[0]
                standard.output[number] = name
            node.CopyFrom(standard)
    declared = [value for value in graph.value_info if not is_declaration(value)]
    del graph.value_info[:]
    graph.value_info.extend(declared)


def _remove_nodes(graph: GraphProto, names: set[str]) -> None:
    kept = [node for node in graph.node if node.name not in names]
    for node in kept:
        for _, body in subgraphs(node):
            _remove_nodes(body, names)
    del graph.node[:]
    graph.node.extend(kept)


def convert_file(src: str | os.PathLike[str], dst: str | os.PathLike[str], *, select: Select = "all") -> Conversion:
    """``convert_model`` from file to file; ``dst`` is written whole or not at all.

    Raises
    ------
    OSError
        If ``src`` cannot be read or ``dst`` cannot be written.
    InvalidModelError
        If ``src`` holds no ONNX model, or refers to external data, and ``dst`` is in another folder.
    MaxPoolError
        As ``convert_model``.
    """
    model = _read_for(src, dst)
    conversion = convert_model(model, select=select)
    write_model(conversion.model, dst)
    return conversion


def restore_file(src: str | os.PathLike[str], dst: str | os.PathLike[str]) -> ModelProto:
    """``restore_model`` from file to file; raises, and writes, as ``convert_file``."""
    model = restore_model(_read_for(src, dst))
    write_model(model, dst)
    return model


def _read_for(src: str | os.PathLike[str], dst: str | os.PathLike[str]) -> ModelProto:
    model = read_model(src)
    folders = [Path(path).resolve().parent for path in (src, dst)]
    if folders[0] != folders[1] and has_external_data(model):
        raise InvalidModelError(
            f"{os.fspath(src)}: keeps tensors in files beside it, which {os.fspath(dst)} would not find; "
            f"write to the same folder, {folders[0]}"
        )
    return model
