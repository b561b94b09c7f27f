"""Explanations of MaxPool nodes, of attributes and a shape or of a model: their axes, and what others make of them."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from onnx import ModelProto, defs, shape_inference

from maxpool_ort.convert import restore_model
from maxpool_ort.errors import InvalidShapeError, MaxPoolError
from maxpool_ort.geometry import Axis, Geometry
from maxpool_ort.graphs import Dims, TensorType, graph_at, refusing_other_encodings, tensor_types
from maxpool_ort.inference import Body, Site, analyse
from maxpool_ort.inspection import built_in_axis, differences, refusal
from maxpool_ort.model import make_maxpool_model
from maxpool_ort.schema import LARGEST_ENTRY, MaxPoolAttributes, axes_of, describe, plain_dims, type_name

__all__ = ["Explanation", "explain", "explain_model", "plain_text"]

_OLDEST_OPSET = 10
"""The first in which MaxPool has all attributes that shapes depend on."""


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
            f"X must have known spatial sizes of at most 2**60, got shape {plain_text(dims)}; give --input-shape"
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
    for who, dims in (("declared by the model", declared), (f"inferred by onnx for opset {opset}", inferred)):
        wrong = [
            f"{dim} along D{number} instead of {axis.output}"
            for number, (dim, axis) in enumerate(zip((dims or ())[2:], found.axes, strict=False), start=1)
            if isinstance(dim, int) and dim != axis.output
        ]
        if wrong:
            yield f"{who}: {', '.join(wrong)}"


def plain_text(dims: Dims | None) -> str:
    """Dimensions as text."""
    return "?" if dims is None else f"({', '.join('?' if dim is None else str(dim) for dim in dims)})"


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
    standard = restore_model(model)
    sites = [(site.node.name or next(iter(site.node.output), ""), b, site) for b, site in analyse(standard).walk()]
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
    attributes = MaxPoolAttributes(**{**asdict(MaxPoolAttributes.from_node(node)), **changes})
    x = (site.types.get(node.input[0]) if node.input else None) or TensorType(0, None)
    dims = x.dims if input_dims is None else input_dims
    y = tensor_types(graph_at(body.graph, site.path)).get(node.output[0]) if node.output else None
    try:
        return explain(
            attributes,
            dims if dims is not None else (None,) * (len(attributes.kernel_shape) + 2),
            element_type=element_type or type_name(x.element_type),
            with_indices=with_indices or any(node.output[1:]),
            opset=body.opset,
            node=f"{describe(node)} in {site.where}",
            declared=None if changes or input_dims or y is None else y.dims,
        )
    except InvalidShapeError as error:
        raise InvalidShapeError(f"{describe(node)}: {error}") from error
