"""What a model's MaxPool nodes are, their true shapes, and where ONNX Runtime's own operator gives something else."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import trunc

from onnx import ModelProto, TensorProto, defs

from maxpool_ort import wire
from maxpool_ort.geometry import AutoPad, Axis, output_size
from maxpool_ort.graphs import Dims, TensorType, maxpool_nodes, opset_of, refusing_other_encodings, with_inferred_types
from maxpool_ort.schema import DOMAIN, OP_TYPE, MaxPoolAttributes, describe, type_name

__all__ = ["NodeReport", "differences", "inspect_model"]

_FLOATS = ("float16", "float", "double", "bfloat16")
_LOSSY = ("float16", "float")
"""Element types that run on its vectorized path, where there are no Indices and no dilations."""
_SAME = (AutoPad.SAME_UPPER, AutoPad.SAME_LOWER)


@dataclass(frozen=True)
class NodeReport:
    """One MaxPool node of a model; dimensions are None where nothing is known."""

    node: str
    where: str
    version: int
    opset: int
    attributes: MaxPoolAttributes
    element_type: str
    input_dims: Dims | None
    declared_dims: Dims | None
    true_dims: Dims | None
    runs_ours: bool
    built_in_differs: tuple[str, ...]


@refusing_other_encodings()
def inspect_model(model: ModelProto) -> tuple[NodeReport, ...]:
    """Report on every MaxPool node in a model's graphs, standard or converted.

    Raises
    ------
    MaxPoolError
        With the node's name, if a MaxPool node is invalid.

    Examples
    --------
    >>> from maxpool_ort.model import make_maxpool_model
    >>> (report,) = inspect_model(make_maxpool_model(kernel_shape=[3], input_shape=[1, 1, 5], dilations=[2],
    ...                                              auto_pad="SAME_UPPER", dtype="int8"))
    >>> report.true_dims, report.built_in_differs
    ((1, 1, 5), ('SAME with dilations: 3 outputs along D1 instead of 5',))
    """
    opset = opset_of(model)
    version = defs.get_schema(OP_TYPE, opset or 1).since_version
    declared = [_tensor(types, node.output) for node, _, types in maxpool_nodes(model.graph, "")]
    reports = []
    graph = with_inferred_types(model).graph
    for (node, where, types), shown in zip(maxpool_nodes(graph, f"graph {graph.name!r}"), declared, strict=True):
        ours = node.domain == DOMAIN
        attributes = wire.attributes_of(node) if ours else MaxPoolAttributes.from_node(node)
        x = _tensor(types, node.input)
        dims = x.dims if x else None
        element_type = type_name(x.element_type if x else TensorProto.UNDEFINED)
        with_indices = len(node.output) > 1 and bool(node.output[1])
        reports.append(
            NodeReport(
                node=describe(node),
                where=where,
                version=version,
                opset=opset,
                attributes=attributes,
                element_type=element_type,
                input_dims=dims,
                declared_dims=shown.dims if shown else None,
                true_dims=None if dims is None else attributes.output_dims(dims),
                runs_ours=ours,
                built_in_differs=tuple(differences(attributes, element_type, dims, with_indices=with_indices)),
            )
        )
    return tuple(reports)


def _tensor(types: Mapping[str, TensorType], names: Sequence[str]) -> TensorType | None:
    """What is known of the first of a node's inputs or outputs."""
    return types.get(names[0]) if names else None


def differences(
    attributes: MaxPoolAttributes, element_type: str, input_dims: Dims | None, *, with_indices: bool
) -> Iterator[str]:
    """Where ONNX Runtime's own MaxPool (1.32) gives something else for this node; "may" where that depends on data.

    A reason without "may" holds for every X of these dimensions; README has the table that they come from.
    """
    if element_type in _LOSSY and not with_indices:
        yield "may lose NaN and -inf"
    if len(attributes.kernel_shape) > 3:
        yield "fails: more than 3 spatial axes"
        return
    pads = zip(attributes.pads, attributes.kernel_shape * 2, strict=True)
    if any(pad >= kernel for pad, kernel in pads):
        yield "refuses pads >= kernel_shape"
        return
    sizes = tuple(dim for dim in (input_dims or ())[2:] if isinstance(dim, int))
    if input_dims is None or len(sizes) != len(attributes.kernel_shape):
        yield from _differences_of_any_shape(attributes)
        return
    axes = attributes.geometry((1, 1, *sizes)).axes
    for number, axis in enumerate(axes, start=1):
        yield from _differences_along(axis, f"D{number}", attributes, element_type, with_indices=with_indices)


def _differences_of_any_shape(attributes: MaxPoolAttributes) -> Iterator[str]:
    if attributes.auto_pad in _SAME and max(attributes.dilations) > 1:
        yield "may give another shape: SAME with dilations"
    if attributes.auto_pad in _SAME and any(
        s > k for s, k in zip(attributes.strides, attributes.kernel_shape, strict=True)
    ):
        yield "may fail: SAME with a stride beyond the kernel"
    if attributes.auto_pad is AutoPad.VALID and attributes.ceil_mode:
        yield "may give one output too many: VALID with ceil_mode"


def _differences_along(
    axis: Axis, name: str, attributes: MaxPoolAttributes, element_type: str, *, with_indices: bool
) -> Iterator[str]:
    theirs = _built_in_axis(axis, attributes)
    vectorized = element_type in _LOSSY and not with_indices and set(attributes.dilations) == {1}
    if attributes.auto_pad in _SAME:
        cause = "SAME with dilations" if axis.dilation > 1 else "SAME where the stride skips input"
    else:
        cause = "VALID with ceil_mode" if attributes.auto_pad is AutoPad.VALID else "size rounded towards zero"
    if vectorized and min(theirs.pad_begin, theirs.pad_end) < 0:
        yield f"{cause}: fails at the run, negative pads along {name}"
    elif theirs.output != axis.output:
        yield f"{cause}: {theirs.output} outputs along {name} instead of {axis.output}"
    elif theirs.pad_begin != axis.pad_begin and _windows(theirs) != _windows(axis):
        yield f"{cause}: other windows along {name}"
    if [] in _windows(axis) and (with_indices or element_type in _FLOATS):
        yield f"windows of padding only along {name}: lowest finite value, stray index"


def _built_in_axis(axis: Axis, attributes: MaxPoolAttributes) -> Axis:
    """The axis as the built-in sees it: pads of SAME ignore dilations, quotients are truncated, VALID is rounded up."""
    pad_begin, pad_end = axis.pad_begin, axis.pad_end
    if attributes.auto_pad in _SAME:
        total = (-(-axis.input // axis.stride) - 1) * axis.stride + axis.kernel - axis.input
        pad_begin = trunc((total + (attributes.auto_pad is AutoPad.SAME_LOWER)) / 2)
        pad_end = total - pad_begin
    if attributes.ceil_mode:
        output = output_size(axis.input, axis.extent, axis.stride, pad_begin, pad_end, AutoPad.NOTSET, 1)
    else:
        output = trunc((axis.input + pad_begin + pad_end - axis.extent) / axis.stride) + 1
    return replace(axis, pad_begin=pad_begin, pad_end=pad_end, output=output)


def _windows(axis: Axis) -> list[list[int]]:
    """The input positions that each output sees."""
    starts = [output * axis.stride - axis.pad_begin for output in range(axis.output)]
    return [
        [position for position in range(start, start + axis.extent, axis.dilation) if 0 <= position < axis.input]
        for start in starts
    ]
