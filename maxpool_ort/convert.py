"""Standard MaxPool nodes to ours and back, at any depth of a model; what was done and what was left is data."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
import os
from pathlib import Path
from typing import Literal, get_args

from onnx import FunctionProto, ModelProto, NodeProto, defs

from maxpool_ort import wire
from maxpool_ort.errors import InvalidModelError, InvalidShapeError, MaxPoolError
from maxpool_ort.files import (
    external_files,
    has_external_data,
    place_external_files,
    read_model,
    remove_files,
    write_model,
)
from maxpool_ort.graphs import (
    Dims,
    GraphPath,
    TensorType,
    all_nodes,
    graph_at,
    is_maxpool,
    refusing_other_encodings,
)
from maxpool_ort.inference import Body, Site, analyse, unused_functions
from maxpool_ort.inspection import differs_in_shape
from maxpool_ort.quantized import Fold, find_folds
from maxpool_ort.recommend import Recommendation, recommend
from maxpool_ort.rewrite import RepairedShape, Replacement, Rewriter, repair_shapes, restore
from maxpool_ort.schema import (
    DOMAIN,
    FUNCTION_DOMAIN,
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


ExternalData = Literal["refuse", "copy", "link"]


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
    repaired: tuple[RepairedShape, ...] = ()
    """Tensors of which the model declared a shape that they have in no run; ``model`` declares the true one."""

    def __str__(self) -> str:
        """One line for each MaxPool node of the model, and for each shape that was repaired."""
        done = [
            f"converted {n.node} in {n.where}: {n.element_type} {n.attributes}" + (f" ({n.reason})" if n.reason else "")
            for n in self.converted
        ]
        left = [f"left {n.node} in {n.where}: {n.reason}" for n in self.skipped]
        repaired = [
            f"repaired the shape of {r.tensor!r} in {r.where}: {r.true}, was {r.declared}" for r in self.repaired
        ]
        return "\n".join([*done, *left, *repaired]) or "no MaxPool node in this model; nothing was converted"


@refusing_other_encodings
def convert_model(model: ModelProto, *, select: Select = "all") -> Conversion:
    """Let the MaxPool nodes of a model run our operator.

    Nodes in the bodies of If, Loop and Scan are converted too, and those in model-local functions, by calling copies of
    the functions. A MaxPool between a DequantizeLinear and a QuantizeLinear of equal parameters takes the integers
    instead. Those whose element type is unknown, or whose version is newer than 22, are left. Names of nodes and
    tensors, graph inputs and outputs stay as they are; declared shapes that are wrong are repaired.

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
    main = analyse(model)
    converter = _Converter(_selector(select))
    for body, site in main.walk():
        converter.decide(body, site)
    for function in unused_functions(model):
        converter.skip_function(function)
    if not isinstance(select, str) and not callable(select):
        _refuse_unknown(set(select), converter.names)
    if not converter.decisions:
        return Conversion(result, (), tuple(converter.skipped))
    converted, replacements = converter.settle()
    repaired = tuple(repair_shapes(result.graph, main, main.where)) if converter.is_proved else ()
    Rewriter(result, replacements).rewrite(main)
    return Conversion(result, converted, tuple(converter.skipped), repaired)


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


@dataclass(frozen=True)
class _Decision:
    """A MaxPool node that will be converted."""

    node: ConvertedNode
    x: TensorType
    fold: Fold | None


class _Converter:
    """Decides for each MaxPool of one model what is to become of it, and keeps account."""

    def __init__(self, choose: Callable[[ConvertedNode, int], Recommendation]) -> None:
        self.choose = choose
        self.names: set[str] = set()
        self.decisions: dict[tuple[int, GraphPath, int], _Decision] = {}
        self.skipped: list[SkippedNode] = []
        self.folds: dict[tuple[int, GraphPath], dict[int, Fold]] = {}
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
        if node.domain == DOMAIN:
            wire.attributes_of(node)
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
        x = site.types.get(node.input[0] if node.input else "")
        check_version(node, body.opset, x.element_type if x and x.element_type else None)
        if x is not None:
            x = self._checked(node, attributes, x, site.types.get(node.output[0]))
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
        self.decisions[id(body), site.path, site.index] = _Decision(candidate, x, fold)

    def _checked(
        self, node: NodeProto, attributes: MaxPoolAttributes, x: TensorType, y: TensorType | None
    ) -> TensorType:
        """X with dimensions that fit the attributes, and with proved ones that fit what was inferred for Y."""
        if x.proved is not None:
            try:
                true = attributes.output_dims(x.proved)
            except InvalidShapeError as error:
                raise InvalidShapeError(f"{describe(node)}: {error}") from error
            if y is not None and y.proved is not None and true != y.proved and x.is_static:
                self.is_proved = False  # onnx has inferred something else, and gone on with it
        try:
            attributes.output_dims(x.dims or x.proved or [None] * (len(attributes.kernel_shape) + 2))
        except InvalidShapeError:  # what is declared and not proved may be wrong
            return replace(x, dims=x.proved)
        return x

    def _leave(self, attributes: MaxPoolAttributes, x: TensorType | None) -> None:
        if x is not None and x.proved is not None and differs_in_shape(attributes, x.proved):
            self.is_proved = False

    def _fold(self, body: Body, site: Site) -> Fold | None:
        """The integers that a node can take instead of X, if it stands in between what quantizes."""
        key = id(body), site.path
        if key not in self.folds:
            self.folds[key] = find_folds(graph_at(body.graph, site.path), body.types[site.path])
        return self.folds[key].get(site.index)

    def settle(self) -> tuple[tuple[ConvertedNode, ...], dict[tuple[int, GraphPath, int], Replacement]]:
        """What was decided, as it will be reported and done, now that it is known what is proved."""
        converted, replacements = [], {}
        for key, decision in self.decisions.items():
            can_fail = not (decision.x.is_static and self.is_proved)
            converted.append(replace(decision.node, is_guarded=can_fail))
            replacements[key] = Replacement(decision.node.attributes, decision.x, can_fail, decision.fold)
        return tuple(converted), replacements


@refusing_other_encodings
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
    if any(node.domain in {DOMAIN, FUNCTION_DOMAIN} for node in all_nodes(result.graph)):
        restore(result)
    return result


def convert_file(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    select: Select = "all",
    external_data: ExternalData = "refuse",
) -> Conversion:
    """``convert_model`` from file to file; ``dst``, which may be ``src``, is written whole or not at all.

    Parameters
    ----------
    src, dst
        Paths.
    select
        As for ``convert_model``.
    external_data
        What to do if the model keeps tensors in files beside it, and ``dst`` is in another folder: ``"refuse"``,
        ``"copy"`` the files, or ``"link"`` them (hard links: the folders must be on one file system; ONNX Runtime
        follows such links, ``onnx.load`` does not). In the same folder both models share them, and they are not read.

    Raises
    ------
    OSError
        If ``src`` cannot be read or ``dst`` cannot be written, or another file is where one is to be copied to.
    InvalidModelError
        If ``src`` holds no ONNX model, or refers to files outside of its folder, or ``external_data`` refuses.
    MaxPoolError
        As ``convert_model``.
    """
    model = read_model(src)
    conversion = convert_model(model, select=select)
    _write_beside(model, src, conversion.model, dst, external_data)
    return conversion


def restore_file(
    src: str | os.PathLike[str], dst: str | os.PathLike[str], *, external_data: ExternalData = "refuse"
) -> ModelProto:
    """``restore_model`` from file to file; takes external data, raises, and writes, as ``convert_file``."""
    model = read_model(src)
    restored = restore_model(model)
    _write_beside(model, src, restored, dst, external_data)
    return restored


def _write_beside(
    before: ModelProto,
    src: str | os.PathLike[str],
    after: ModelProto,
    dst: str | os.PathLike[str],
    external_data: ExternalData,
) -> None:
    """Write what was made of a model, and put beside it what it refers to."""
    if external_data not in get_args(ExternalData):
        raise MaxPoolError(f"external_data must be one of {', '.join(get_args(ExternalData))}, got {external_data!r}")
    folders = Path(src).absolute().parent.resolve(), Path(dst).resolve().parent  # dst may be a link, which stays one
    made: list[Path] = []
    if folders[0] != folders[1] and has_external_data(before):
        if external_data == "refuse":
            raise InvalidModelError(
                f"{os.fspath(src)}: keeps tensors in files beside it, which {os.fspath(dst)} would not find; "
                f"write to the same folder, {folders[0]}, or let the files be copied or linked"
            )
        files = external_files(before, src)
        made = place_external_files(files, folders[1], as_links=external_data == "link")
    try:
        write_model(after, dst)
    except BaseException:
        remove_files(made)
        raise
