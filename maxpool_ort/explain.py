"""Explanations of MaxPool nodes: why Y has its shape, what each output sees, what ONNX Runtime does differently."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
import shutil
import textwrap
from typing import Any

from onnx import ModelProto, defs, shape_inference

from maxpool_ort import wire
from maxpool_ort.arithmetic import missing_window, notes_on, size_of
from maxpool_ort.errors import InvalidShapeError, MaxPoolError
from maxpool_ort.geometry import COLUMNS, Axis, Geometry
from maxpool_ort.graphs import Dims, TensorType, graph_at, refusing_other_encodings, tensor_types
from maxpool_ort.inference import Body, Site, analyse
from maxpool_ort.inspection import built_in_axis, differences, refusal
from maxpool_ort.model import make_maxpool_model
from maxpool_ort.picture import as_lines, legend, shown
from maxpool_ort.schema import DOMAIN, LARGEST_ENTRY, MaxPoolAttributes, axes_of, describe, plain_dims, type_name
from maxpool_ort.table import best_table

__all__ = ["Explanation", "as_document", "as_text", "explain", "explain_model", "panels"]

_OLDEST_OPSET = 10
"""The first in which MaxPool has all attributes that shapes depend on."""
_MOST_AXES = 8
"""Different ones of a node, that are told and drawn."""
_LEAST_WIDTH = 40


@dataclass(frozen=True)
class Explanation:
    """What there is to know of one MaxPool node and the shape of its X."""

    node: str
    attributes: MaxPoolAttributes
    element_type: str
    x: Dims
    axes: tuple[Axis, ...]
    built_in_axes: tuple[Axis, ...]
    """As ONNX Runtime's own MaxPool has them; none if it does not run the node."""
    differs: tuple[str, ...]
    """Where ONNX Runtime's own MaxPool differs, or may differ."""
    wrong_shapes: tuple[str, ...] = ()
    """Shapes of Y that the model declares or onnx infers, and that no run has."""

    @property
    def fits(self) -> bool:
        """Whether X is large enough."""
        return all(axis.output >= 0 for axis in self.axes)

    @property
    def y(self) -> Dims:
        """Dimensions of Y."""
        return (*self.x[:2], *(axis.output for axis in self.axes))


def explain(
    attributes: MaxPoolAttributes,
    input_dims: Dims,
    *,
    element_type: str = "float",
    with_indices: bool = False,
    opset: int = 12,
    node: str = "MaxPool",
    declared: Dims | None = None,
) -> Explanation:
    """Explain a MaxPool of these attributes for X of these dimensions; N and C may be unknown.

    ``declared`` is what a model says of Y. Of an X that is too small it is told why.

    Raises
    ------
    InvalidShapeError
        If the rank is not r + 2, or a spatial size is unknown, negative or above 2**60.

    Examples
    --------
    >>> found = explain(MaxPoolAttributes(kernel_shape=[3], dilations=[2], auto_pad="SAME_UPPER"), (1, 1, 5))
    >>> found.y, found.differs[0]
    ((1, 1, 5), 'SAME with dilations: 3 outputs along D1 instead of 5')
    """
    dims = plain_dims(input_dims)
    axes = axes_of(attributes, dims)
    if not all(isinstance(dim, int) and dim <= LARGEST_ENTRY for dim in dims[2:]):
        raise InvalidShapeError(
            f"X must have spatial sizes that are known, and at most 2**60, got shape {_dims(dims)}; give --input-shape"
        )
    Geometry(tuple(replace(axis, output=max(0, axis.output)) for axis in axes))  # refuses windows that are too large
    refused = refusal(attributes, element_type, dims, opset)
    found = Explanation(
        node=node,
        attributes=attributes,
        element_type=element_type,
        x=dims,
        axes=axes,
        built_in_axes=() if refused else tuple(built_in_axis(axis, attributes) for axis in axes),
        differs=(refused,) if refused else (),
    )
    if not found.fits:
        return replace(found, differs=found.differs or tuple(_of_too_small(found)))
    differs = differences(attributes, element_type, dims, with_indices=with_indices, opset=opset)
    return replace(found, differs=tuple(differs), wrong_shapes=tuple(_wrong_shapes(found, opset, declared)))


def _of_too_small(found: Explanation) -> Iterator[str]:
    """What ONNX Runtime's own does with an X that is too small for a window."""
    if any(axis.output < 0 for axis in found.built_in_axes):
        yield "fails at the run too"
        return
    for number, (axis, theirs) in enumerate(zip(found.axes, found.built_in_axes, strict=True), start=1):
        if axis.output < 0:
            yield f"X smaller than a window: {theirs.output} outputs along D{number} instead of an error"


def _wrong_shapes(found: Explanation, opset: int, declared: Dims | None) -> Iterator[str]:
    """Along which axes the model or onnx has another output size."""
    attributes = found.attributes
    defaults = asdict(MaxPoolAttributes(kernel_shape=attributes.kernel_shape))
    given = {name: value for name, value in asdict(attributes).items() if value != defaults[name]}
    opset = min(max(opset, _OLDEST_OPSET), defs.onnx_opset_version())
    model = make_maxpool_model(attributes.kernel_shape, (1, 1, *found.x[2:]), opset=opset, **given)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    inferred = tensor_types(shape_inference.infer_shapes(model).graph)["Y"].dims
    for who, dims in (("the model declares", declared), (f"onnx infers for opset {opset}", inferred)):
        wrong = [
            f"{dim} along D{number} instead of {axis.output}"
            for number, (dim, axis) in enumerate(zip((dims or ())[2:], found.axes, strict=False), start=1)
            if isinstance(dim, int) and dim != axis.output
        ]
        if wrong:
            yield f"{who} {', '.join(wrong)}"


@refusing_other_encodings
def explain_model(
    model: ModelProto,
    names: Collection[str] = (),
    *,
    changes: Mapping[str, Any] | None = None,
    input_dims: Dims | None = None,
    element_type: str | None = None,
    with_indices: bool = False,
) -> list[Explanation]:
    """Explain the MaxPool nodes of these names, or all of a model, standard or converted, in its order.

    Those in functions are explained as each call sees them. ``changes`` to attributes, ``input_dims``, ``element_type``
    and ``with_indices`` take the place of what the model says.

    Raises
    ------
    MaxPoolError
        If there is no such node, it is invalid, or nothing says what sizes its X has.
    """
    sites = [(site.node.name or next(iter(site.node.output), ""), body, site) for body, site in analyse(model).walk()]
    there = {name: None for name, _, _ in sites}
    if not there:
        raise MaxPoolError("the model must hold a MaxPool node that runs, got none")
    unknown = [name for name in names if name not in there]
    if unknown:
        raise MaxPoolError(
            f"--node must name MaxPool nodes of the model, got {', '.join(map(repr, unknown))}; "
            f"there are {', '.join(map(repr, there))}"
        )
    if input_dims is not None and len(names or there) > 1:
        raise MaxPoolError(f"--input-shape is the shape of one node's X, got {len(names or there)} nodes; use --node")
    chosen = ((body, site) for name, body, site in sites if not names or name in names)
    return [
        _of_site(body, site, changes or {}, input_dims, element_type, with_indices=with_indices)
        for body, site in chosen
    ]


def _of_site(
    body: Body,
    site: Site,
    changes: Mapping[str, Any],
    input_dims: Dims | None,
    element_type: str | None,
    *,
    with_indices: bool,
) -> Explanation:
    """The explanation of a node, with what takes the place of what the model says."""
    node = site.node
    is_ours = node.domain == DOMAIN
    attributes = wire.attributes_of(node) if is_ours else MaxPoolAttributes.from_node(node)
    attributes = MaxPoolAttributes(**{**asdict(attributes), **changes})
    x = (site.types.get(node.input[0]) if node.input else None) or TensorType(0, None)
    y = tensor_types(graph_at(body.graph, site.path)).get(node.output[0]) if node.output else None
    try:
        return explain(
            attributes,
            input_dims or x.dims or (None,) * (len(attributes.kernel_shape) + 2),
            element_type=element_type or type_name(x.element_type),
            with_indices=with_indices or any(node.output[1:]),
            opset=body.opset,
            node=f"{describe(node)} in {site.where}",
            declared=None if changes or input_dims or y is None else y.dims,
        )
    except InvalidShapeError as error:
        raise InvalidShapeError(f"{describe(node)}: {error}") from error


@dataclass(frozen=True)
class Panel:
    """Axes of one node that are equal, or what ONNX Runtime's own MaxPool makes of them: what is told, and drawn."""

    title: str
    axis: Axis
    dropped: int | None
    lines: tuple[str, ...]


def panels(found: Explanation) -> list[Panel]:
    """What is told and drawn of a node's axes: of at most 8 different ones."""
    pairs = zip(found.axes, found.built_in_axes or found.axes, strict=True)
    alike: dict[tuple[Axis, Axis], list[str]] = {}
    for number, pair in enumerate(pairs, start=1):
        alike.setdefault(pair, []).append(f"D{number}")
    made = []
    for (axis, theirs), names in list(alike.items())[:_MOST_AXES]:
        title = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        lines = (*size_of(axis, found.attributes), *notes_on(axis))
        auto_pad = found.attributes.auto_pad
        made.append(Panel(title, axis, missing_window(axis, auto_pad), lines))
        if theirs != axis and theirs.output >= 0:
            title, line = f"{title} in ONNX Runtime's own MaxPool", f"pads {theirs.pad_begin} and {theirs.pad_end}"
            made.append(Panel(title, theirs, missing_window(theirs, auto_pad), (line,)))
    return made


def as_text(explanations: Sequence[Explanation]) -> str:
    """Explanations for the terminal: tables, sentences and drawings, as wide as it is."""
    width = max(shutil.get_terminal_size((80, 24)).columns, _LEAST_WIDTH)
    return "\n\n\n".join("\n\n".join(_parts(found, width)) for found in explanations)


def _parts(found: Explanation, width: int) -> Iterator[str]:
    """The paragraphs of an explanation."""
    y = f"Y {_dims(found.y)}" if found.fits else "no Y: X is too small"
    heading = [found.node, str(found.attributes), f"X {found.element_type} {_dims(found.x)} -> {y}"]
    yield "\n".join(textwrap.fill(line, width) for line in heading)
    yield best_table(COLUMNS, [(f"D{number}", *axis.row()) for number, axis in enumerate(found.axes, start=1)])
    drawn: list[str] = []
    for panel in panels(found):
        lines = list(as_lines(panel.axis, panel.dropped, width - 2))
        drawn += lines
        outputs = f"{panel.axis.output} output{'s' * (panel.axis.output != 1)}"
        title = f"{panel.title}: {outputs if panel.axis.output >= 0 else 'X is too small'}"
        yield _paragraph(title, panel.lines, width)
        yield shown(f"  {line}".rstrip() for line in lines)
    different = len(set(found.axes))
    if different > _MOST_AXES:
        yield f"... {different - _MOST_AXES} more axes that differ from these"
    yield shown(legend(drawn, width))
    yield _paragraph("ONNX Runtime's own MaxPool:", found.differs or ("gives the same",), width)
    if found.wrong_shapes:
        yield _paragraph("Shapes that no run has:", found.wrong_shapes, width)


def _paragraph(title: str, lines: Iterable[str], width: int) -> str:
    """Sentences under a title."""
    told = (textwrap.fill(line, width, initial_indent="  ", subsequent_indent="    ") for line in lines)
    return "\n".join([textwrap.fill(title, width), *told])


def _dims(dims: Dims) -> str:
    return f"({', '.join('?' if dim is None else str(dim) for dim in dims)})"


def as_document(found: Explanation) -> dict[str, Any]:
    """What can be kept as JSON."""
    auto_pad = found.attributes.auto_pad
    return {
        "node": found.node,
        "attributes": found.attributes.as_text(),
        "element_type": found.element_type,
        "x": found.x,
        "y": found.y if found.fits else None,
        "axes": [
            asdict(axis)
            | {
                "extent": axis.extent,
                "dropped": missing_window(axis, auto_pad),
                "size": list(size_of(axis, found.attributes)),
                "notes": list(notes_on(axis)),
            }
            for axis in found.axes
        ],
        "built_in_axes": [asdict(axis) for axis in found.built_in_axes],
        "differs": found.differs,
        "wrong_shapes": found.wrong_shapes,
    }
