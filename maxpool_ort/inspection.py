"""What a model's MaxPool nodes are, their true shapes, and where ONNX Runtime's own operator gives something else."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from onnx import ModelProto, NodeProto, TensorProto, defs

from maxpool_ort import wire
from maxpool_ort.errors import InvalidModelError, InvalidShapeError
from maxpool_ort.geometry import AutoPad, Axis, output_size
from maxpool_ort.graphs import (
    Dims,
    TensorType,
    all_nodes,
    graph_at,
    is_maxpool,
    opset_of,
    refusing_other_encodings,
    tensor_types,
)
from maxpool_ort.inference import analyse, unused_functions
from maxpool_ort.schema import DOMAIN, OP_TYPE, MaxPoolAttributes, describe, type_name

__all__ = ["NodeReport", "built_in_axis", "differences", "differs_in_shape", "inspect_model", "refusal"]

_UNKNOWN = type_name(TensorProto.UNDEFINED)
_FLOATS = ("float16", "float", "double", _UNKNOWN)
_LOSSY = ("float16", "float", _UNKNOWN)
"""Element types that run on its vectorized path, where there are no Indices, no dilations and storage_order is 0."""
_SAME = (AutoPad.SAME_UPPER, AutoPad.SAME_LOWER)
_ROW_BUFFER = 2045
"""Elements of a padded row up to which its vectorized kernels run (MLAS pooling.cpp)."""

_MOST_WINDOWS = 1000
"""At either end of an axis, and in the middle, that are looked at."""
_LARGEST_SIZE_TRIED = 64
"""Sizes of an unknown axis that are looked at for windows of padding only; larger dilations are not in use."""


@dataclass(frozen=True)
class NodeReport:
    """One MaxPool node of a model; dimensions are None where nothing is known.

    ``attributes`` is None for a node in a function that takes them from its callers, and has none.
    """

    node: str
    where: str
    version: int
    opset: int
    attributes: MaxPoolAttributes | None
    element_type: str
    input_dims: Dims | None
    declared_dims: Dims | None
    true_dims: Dims | None
    runs_ours: bool
    built_in_differs: tuple[str, ...]


@refusing_other_encodings
def inspect_model(model: ModelProto) -> tuple[NodeReport, ...]:
    """Report on every MaxPool node of a model, standard or converted.

    Those in model-local functions are reported as the functions' calls see them, those in functions that nothing calls
    at the end.

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
    if not isinstance(model, ModelProto):
        raise TypeError(f"model must be an onnx.ModelProto, got {type(model).__name__}")
    reports = []
    for body, site in analyse(model).walk():
        declared = tensor_types(graph_at(body.graph, site.path))
        x, y = _tensor(site.types, site.node.input), _tensor(declared, site.node.output)
        reports.append(_report(site.node, site.where, body.opset, x, y))
    for function in unused_functions(model):
        where = f"function {function.name!r}, which nothing calls"
        nodes = filter(is_maxpool, all_nodes(function))
        reports += [_report(node, where, opset_of(function), None, None) for node in nodes]
    return tuple(reports)


def _tensor(types: Mapping[str, TensorType], names: Sequence[str]) -> TensorType | None:
    """What is known of the first of a node's inputs or outputs."""
    return types.get(names[0]) if names else None


def _report(node: NodeProto, where: str, opset: int, x: TensorType | None, y: TensorType | None) -> NodeReport:
    if not 0 < opset < 2**31:  # beyond, onnx cannot look it up
        raise InvalidModelError(
            f"{describe(node)}: the model must import a version of ONNX's operators, got {opset or 'none'}"
        )
    ours = node.domain == DOMAIN
    dims = x.dims if x else None
    element_type = type_name(x.element_type) if x else _UNKNOWN
    attributes, true_dims = None, None
    reasons: tuple[str, ...] = ("may differ: the function's callers give the attributes",)
    if not any(attribute.ref_attr_name for attribute in node.attribute):
        attributes = wire.attributes_of(node) if ours else MaxPoolAttributes.from_node(node)
        with_indices = len(node.output) > 1 and bool(node.output[1])
        try:
            true_dims = None if dims is None else attributes.output_dims(dims)
        except InvalidShapeError as error:
            raise InvalidShapeError(f"{describe(node)}: {error}") from error
        reasons = tuple(differences(attributes, element_type, dims, with_indices=with_indices, opset=opset))
    return NodeReport(
        node=describe(node),
        where=where,
        version=defs.get_schema(OP_TYPE, opset).since_version,
        opset=opset,
        attributes=attributes,
        element_type=element_type,
        input_dims=dims,
        declared_dims=y.dims if y else None,
        true_dims=true_dims,
        runs_ours=ours,
        built_in_differs=reasons,
    )


def differences(
    attributes: MaxPoolAttributes, element_type: str, input_dims: Dims | None, *, with_indices: bool, opset: int = 12
) -> Iterator[str]:
    """Where ONNX Runtime's own MaxPool (1.32, CPU) gives something else for this node by itself.

    A reason without "may" holds for every X of these dimensions; "may" is said where it depends on X's elements, or
    on sizes that are not known. A size of 0 is thought of only where it is known.
    """
    dims = (None,) * (len(attributes.kernel_shape) + 2) if input_dims is None else input_dims
    refused = refusal(attributes, element_type, dims, opset)
    if refused:
        yield refused
        return
    node = _Node(attributes, element_type, dims, with_indices)
    seen: set[str] = set()
    for number, axis in enumerate(node.axes):
        reasons = node.along(axis, f"D{number + 1}") if node.is_known(number) else node.along_unknown(axis)
        yield from (reason for reason in reasons if reason not in seen)
        seen.update(reasons)
    yield from node.losses()


def refusal(attributes: MaxPoolAttributes, element_type: str, input_dims: Dims, opset: int) -> str | None:
    """Why ONNX Runtime's own MaxPool does not run this node at all, whatever its windows are."""
    if element_type == "bfloat16" or opset < {"float16": 6, "double": 8}.get(element_type, 1):
        return f"refuses the model: no MaxPool for {element_type} at opset {opset}"
    if any(pad >= kernel for pad, kernel in zip(attributes.pads, attributes.kernel_shape * 2, strict=True)):
        return "refuses the model: pads >= kernel_shape"
    if len(attributes.kernel_shape) > 3:
        return "fails at the run: more than 3 spatial axes"
    if 0 in input_dims[1:] and input_dims[0] != 0:
        return "fails at the run: X has a size of 0 that is not N"
    return None


def differs_in_shape(attributes: MaxPoolAttributes, input_dims: Dims) -> bool:
    """Whether ONNX Runtime's own MaxPool has another output size along an axis of known size."""
    axes = _Node(attributes, _UNKNOWN, input_dims, with_indices=False).axes
    known = (axis for axis, dim in zip(axes, input_dims[2:], strict=True) if isinstance(dim, int))
    return any(built_in_axis(axis, attributes).output != axis.output for axis in known)


@dataclass(frozen=True)
class _Node:
    """What is known of one node that the built-in does not refuse outright."""

    attributes: MaxPoolAttributes
    element_type: str
    dims: Dims
    with_indices: bool

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Spatial axes; one of unknown size is as long as the longest window."""
        longest = max(
            (k - 1) * d + 1 for k, d in zip(self.attributes.kernel_shape, self.attributes.dilations, strict=True)
        )
        sizes = [dim if isinstance(dim, int) else longest for dim in self.dims]
        return self.attributes.geometry(sizes).axes

    def is_known(self, number: int) -> bool:
        """Whether the size of a spatial axis is known."""
        return isinstance(self.dims[2 + number], int)

    @property
    def is_vectorized(self) -> bool:
        """Whether the built-in takes its vectorized path, which starts from the lowest finite value."""
        is_plain = not (self.with_indices or self.attributes.storage_order) and set(self.attributes.dilations) == {1}
        return self.element_type in _LOSSY and is_plain

    @property
    def is_empty(self) -> bool:
        """Whether Y is known to have no elements."""
        return self.dims[0] == 0 or any(a.output == 0 for i, a in enumerate(self.axes) if self.is_known(i))

    def along(self, axis: Axis, name: str) -> list[str]:
        """Reasons that lie in one axis of known size."""
        theirs = built_in_axis(axis, self.attributes)
        if self.attributes.auto_pad in _SAME:
            cause = "SAME with dilations" if axis.dilation > 1 else "SAME where the stride skips input"
        else:
            cause = "VALID with ceil_mode" if axis.input >= axis.extent else "X smaller than a window"
        if theirs.output != axis.output:
            return [f"{cause}: {theirs.output} outputs along {name} instead of {axis.output}"]
        if self.is_empty:
            return []
        if self.is_vectorized and min(theirs.pad_begin, theirs.pad_end) < 0:
            return [f"{cause}: fails at the run, negative pads along {name}"]
        windows = _windows(axis)
        reasons = [f"{cause}: other windows along {name}"] if _windows(theirs) != windows else []
        if not all(windows) and self.of_padding:
            reasons.append(f"windows of padding only along {name}: {self.of_padding}")
        return reasons

    def along_unknown(self, axis: Axis) -> list[str]:
        """Reasons that there are for some sizes of an axis."""
        kernel, stride, missing = axis.kernel, axis.stride, axis.extent - axis.pad_begin - axis.pad_end
        is_same, is_valid = self.attributes.auto_pad in _SAME, self.attributes.auto_pad is AutoPad.VALID
        reasons = []
        if is_same and axis.extent > kernel:
            reasons.append("may give another shape: SAME with dilations")
        elif is_same and stride > kernel and self.is_vectorized:
            reasons.append("may fail at the run: SAME with a stride beyond the kernel")
        elif is_same and stride > kernel + 1 + (self.attributes.auto_pad is AutoPad.SAME_LOWER):
            reasons.append("may see other windows: SAME with a stride beyond the kernel")
        if is_valid and self.attributes.ceil_mode and stride > 1 and kernel > 1:
            reasons.append("may give one output too many: VALID with ceil_mode")
        if (is_valid or not (is_same or self.attributes.ceil_mode)) and stride > 1 and missing > 1:
            reasons.append("may give 1 output instead of 0: X smaller than a window")
        if self.of_padding and self.may_lack_windows(axis):
            reasons.append(f"may have windows of padding only: {self.of_padding}")
        return reasons

    def may_lack_windows(self, axis: Axis) -> bool:
        """Whether at some size of an axis a window is of padding only: pads < kernel, so only where size < dilation."""
        tried = (
            Axis.of(
                size,
                axis.kernel,
                stride=axis.stride,
                dilation=axis.dilation,
                pad_begin=axis.pad_begin,
                pad_end=axis.pad_end,
                auto_pad=self.attributes.auto_pad,
                ceil_mode=self.attributes.ceil_mode,
            )
            for size in range(1, min(axis.dilation, _LARGEST_SIZE_TRIED))
        )
        return not all(window for each in tried for window in _windows(each))

    @property
    def of_padding(self) -> str:
        """What the built-in gives for a window of padding only, where that is wrong."""
        lowest = "lowest finite value" if self.element_type in ("float", "double", _UNKNOWN) else ""
        is_stray = self.with_indices and (len(self.attributes.kernel_shape) > 1 or self.dims[:2] != (1, 1))
        return ", ".join(filter(None, [lowest, "stray index" if is_stray else ""]))

    def losses(self) -> Iterator[str]:
        """Elements that are no numbers, or not finite, and do not come out where they should."""
        if self.element_type not in _FLOATS or self.is_empty:
            return
        from_lowest = self.is_vectorized and not self.starts_from_x
        if from_lowest and self.element_type != "float16":  # a float32 in between: its lowest is float16's -inf
            yield "may lose NaN and -inf"
        elif not self.sees_nothing and (
            from_lowest or any(self.has_windows_of_two(i, axis) for i, axis in enumerate(self.axes))
        ):
            yield "may lose NaN"

    @property
    def sees_nothing(self) -> bool:
        """Whether all windows are known to be of padding only."""
        return any(self.is_known(i) and not any(map(len, _windows(axis))) for i, axis in enumerate(self.axes))

    def has_windows_of_two(self, number: int, axis: Axis) -> bool:
        """Whether a window may hold two elements along an axis: the second one can be a NaN that is lost."""
        return axis.kernel > 1 and (not self.is_known(number) or max(map(len, _windows(axis)), default=0) > 1)

    @property
    def starts_from_x(self) -> bool:
        """Whether the vectorized path for two axes runs, and no window of it reaches beyond a row."""
        row = self.axes[-1]
        if len(self.axes) != 2 or row.stride > 2 or max(self.attributes.kernel_shape) > 32:
            return False
        if not self.is_known(1):
            may_reach = row.kernel > 1 and (self.attributes.auto_pad in _SAME or self.attributes.ceil_mode)
            return not (row.pad_begin or row.pad_end or may_reach)
        is_global = all(
            axis.kernel == axis.input and axis.stride == 1 and not (axis.pad_begin or axis.pad_end)
            for axis in self.axes
        )
        end = (row.output - 1) * row.stride - row.pad_begin + row.extent
        return not (is_global or row.pad_begin or end > row.input or row.input > _ROW_BUFFER)


def built_in_axis(axis: Axis, attributes: MaxPoolAttributes) -> Axis:
    """The axis as the built-in sees it: pads of SAME ignore dilations, quotients are truncated, VALID is rounded up."""
    pad_begin, pad_end = axis.pad_begin, axis.pad_end
    if attributes.auto_pad in _SAME:
        total = (-(-axis.input // axis.stride) - 1) * axis.stride + axis.kernel - axis.input
        pad_begin = _truncated(total + (attributes.auto_pad is AutoPad.SAME_LOWER), 2)
        pad_end = total - pad_begin
    if attributes.ceil_mode:
        output = output_size(axis.input, axis.extent, axis.stride, pad_begin, pad_end, AutoPad.NOTSET, 1)
    else:
        output = _truncated(axis.input + pad_begin + pad_end - axis.extent, axis.stride) + 1
    return replace(axis, pad_begin=pad_begin, pad_end=pad_end, output=output)


def _truncated(dividend: int, divisor: int) -> int:
    """Quotient rounded towards zero, as C has it."""
    return dividend // divisor if dividend >= 0 else -(-dividend // divisor)


def _windows(axis: Axis) -> list[range]:
    """The input positions that each output sees.

    Of very many outputs only the first, the last and some in the middle: in between, windows are full and alike.
    """
    outputs: Iterable[int] = range(axis.output)
    if axis.output > 3 * _MOST_WINDOWS:
        starts = (0, axis.output // 2, axis.output - _MOST_WINDOWS)
        outputs = chain.from_iterable(range(start, start + _MOST_WINDOWS) for start in starts)
    return list(map(axis.window, outputs))
