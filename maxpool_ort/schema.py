"""The operator's attributes: their names, defaults, and every check that needs no shape."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
import operator
from typing import Any

from onnx import AttributeProto, NodeProto, TensorProto, defs

from maxpool_ort.errors import InvalidAttributeError, InvalidShapeError, MaxPoolError, UnsupportedTypeError
from maxpool_ort.geometry import AutoPad, Axis, Geometry

__all__ = [
    "DOMAIN",
    "FUNCTION_DOMAIN",
    "HELPER_PREFIX",
    "IMPORTED_VERSION",
    "OP_TYPE",
    "OP_TYPE_WITH_INDICES",
    "MaxPoolAttributes",
    "axes_of",
    "check_version",
    "describe",
    "plain_dims",
    "shown",
]

DOMAIN = "maxpool_ort"
"""Domain of our operators: ours alone, since registering into a domain that a session uses ends the process."""
FUNCTION_DOMAIN = "maxpool_ort.functions"
"""Domain of the copies of a model's functions in which our operators stand."""
IMPORTED_VERSION = 1
"""Of our domains. Models that ONNX Runtime writes import all domains that it knows, with version 1000: those stay."""
OP_TYPE = "MaxPool"
"""Our operator with Y alone."""
OP_TYPE_WITH_INDICES = "MaxPoolWithIndices"
"""Our operator with Y and Indices: PyOp has no optional outputs."""
HELPER_PREFIX = "maxpool_ort/"
"""What the names of all nodes and tensors start with that a conversion adds to a model."""

LARGEST_ENTRY = 2**60
"""Far beyond any tensor, and small enough for positions and pads to be added up in int64."""
NEWEST_VERSION = 22
"""The newest version of MaxPool that is known here; a later one may mean something else."""
ATTRIBUTE_TYPES = {
    "auto_pad": AttributeProto.STRING,
    "ceil_mode": AttributeProto.INT,
    "dilations": AttributeProto.INTS,
    "kernel_shape": AttributeProto.INTS,
    "pads": AttributeProto.INTS,
    "storage_order": AttributeProto.INT,
    "strides": AttributeProto.INTS,
}


def describe(node: NodeProto) -> str:
    """Name a node for a reader: by its own name or, where it has none, by its first output.

    >>> from onnx.helper import make_node
    >>> describe(make_node("MaxPool", ["x"], ["y"], name="pool1")), describe(make_node("MaxPool", ["x"], ["y"]))
    ("MaxPool 'pool1'", "MaxPool with output 'y'")
    """
    if node.name:
        return f"MaxPool {node.name!r}"
    return f"MaxPool with output {node.output[0]!r}" if node.output else "MaxPool without name and output"


def shown(values: Sequence[Any]) -> str:
    """Values for a message, on one line: not all of very many, nor all of a long text.

    >>> shown((1, 2)), shown(tuple(range(100)))
    ('(1, 2)', '(0, 1, 2, 3, 4, 5, 6, 7, ... 100 in all)')
    """
    most = 200 if isinstance(values, str | bytes) else 8
    text = repr(values[:most]).replace("\n", "")  # NumPy's arrays have lines
    return text if len(values) <= most else f"{text[:-1]}, ... {len(values)} in all{text[-1]}"


def _integers(name: str, value: Any, count: int | None, minimum: int) -> tuple[int, ...]:
    """Check one list attribute; ``count`` is None for kernel_shape, whose length is the number of spatial axes."""
    what = "one per spatial axis" if name != "pads" else "all begins, then all ends"
    try:
        given: tuple[Any, ...] | None = None if isinstance(value, str | bytes) else tuple(value)
    except TypeError:  # not by isinstance(value, Iterable): NumPy's array(3) says that it is, and is not
        given = None
    if given is None:
        raise InvalidAttributeError(f"{name} must be a list of integers, {what}, got {value!r}")
    try:
        integers = tuple(map(operator.index, given))
    except TypeError:
        raise InvalidAttributeError(f"{name} must hold integers only, got {shown(given)}") from None
    if count is None and not integers:
        raise InvalidAttributeError(f"{name} must have at least 1 entry, {what}, got none")
    if count is not None and len(integers) != count:
        entries = "1 entry" if count == 1 else f"{count} entries"
        raise InvalidAttributeError(f"{name} must have {entries}, {what}, got {len(integers)}: {shown(integers)}")
    if not all(minimum <= i <= LARGEST_ENTRY for i in integers):
        raise InvalidAttributeError(f"{name} must have entries from {minimum} to 2**60, got {shown(integers)}")
    return integers


def _flag(name: str, value: Any) -> int:
    try:
        flag = operator.index(value)
    except TypeError:
        flag = -1
    if flag not in (0, 1):
        raise InvalidAttributeError(f"{name} must be 0 or 1, got {value!r}")
    return flag


def _auto_pad(value: object) -> AutoPad:
    try:
        return AutoPad(value or "NOTSET")  # the empty string means NOTSET too
    except ValueError:
        expected = ", ".join(AutoPad.__members__)
        raise InvalidAttributeError(f"auto_pad must be one of {expected}, got {value!r}") from None


@dataclass(frozen=True, init=False)
class MaxPoolAttributes:
    """The attributes of one MaxPool-12, checked, with the defaults of the operator's page filled in.

    Parameters
    ----------
    kernel_shape
        Window size along each of the r spatial axes, entries >= 1.
    auto_pad
        ``NOTSET`` (also the empty string), ``VALID``, ``SAME_UPPER`` or ``SAME_LOWER``.
    ceil_mode, storage_order
        0 or 1. ``storage_order`` 1 counts Indices column-major over the spatial axes.
    dilations, strides
        r entries >= 1, 1 by default.
    pads
        2r entries >= 0, all begins, then all ends; 0 by default, and beside any ``auto_pad`` but NOTSET.

    Raises
    ------
    InvalidAttributeError
        If a value is not what the page allows.

    Examples
    --------
    >>> attributes = MaxPoolAttributes(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    >>> attributes.output_shape((1, 64, 112, 112))
    (1, 64, 56, 56)
    >>> print(attributes.geometry((1, 64, 112, 112)))
    axis  input  kernel  stride  dilation  extent  pad begin  pad end  output
    D1      112       3       2         1       3          1        1      56
    D2      112       3       2         1       3          1        1      56
    """

    kernel_shape: tuple[int, ...]
    auto_pad: AutoPad
    ceil_mode: int
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    storage_order: int
    strides: tuple[int, ...]

    def __init__(
        self,
        *,
        kernel_shape: Sequence[int],
        auto_pad: AutoPad | str = AutoPad.NOTSET,
        ceil_mode: int = 0,
        dilations: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        storage_order: int = 0,
        strides: Sequence[int] | None = None,
    ) -> None:
        """Check, and keep tuples, plain integers and an AutoPad: equal attributes compare equal and hash equal."""
        kernel_shape = _integers("kernel_shape", kernel_shape, None, 1)
        rank = len(kernel_shape)
        checked: dict[str, object] = {
            "kernel_shape": kernel_shape,
            "auto_pad": _auto_pad(auto_pad),
            "ceil_mode": _flag("ceil_mode", ceil_mode),
            "dilations": _integers("dilations", [1] * rank if dilations is None else dilations, rank, 1),
            "pads": _integers("pads", [0] * 2 * rank if pads is None else pads, 2 * rank, 0),
            "storage_order": _flag("storage_order", storage_order),
            "strides": _integers("strides", [1] * rank if strides is None else strides, rank, 1),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.auto_pad is not AutoPad.NOTSET and any(self.pads):
            raise InvalidAttributeError(
                f"pads must be absent or all 0 beside auto_pad {self.auto_pad.value}, got {shown(self.pads)}; "
                "drop one of the two"
            )

    @classmethod
    def from_node(cls, node: NodeProto) -> "MaxPoolAttributes":
        """Read the attributes of a standard MaxPool node.

        Raises
        ------
        InvalidAttributeError
            With the node's name, if the node is no MaxPool, or holds an attribute that MaxPool-12 does not know, twice,
            with another attribute type, or with a value that is not allowed.

        Examples
        --------
        >>> from onnx.helper import make_node
        >>> MaxPoolAttributes.from_node(make_node("MaxPool", ["X"], ["Y"], kernel_shape=[2])).strides
        (1,)
        """
        if node.op_type not in {OP_TYPE, OP_TYPE_WITH_INDICES}:
            raise InvalidAttributeError(f"expected a MaxPool node, got a {node.op_type} node {node.name!r}")
        try:
            return cls(**_read(node))
        except MaxPoolError as error:
            raise InvalidAttributeError(f"{describe(node)}: {error}") from error

    def output_shape(self, input_shape: Sequence[int]) -> tuple[int, ...]:
        """Shape of Y (and Indices) for X of shape (N, C, D1, ..., Dr).

        Raises
        ------
        InvalidShapeError
            If the rank is not r + 2, or an output size would be negative.

        Examples
        --------
        >>> MaxPoolAttributes(kernel_shape=[2], strides=[2]).output_shape((1, 3, 7))
        (1, 3, 3)
        """
        spatial = self.geometry(input_shape).output_spatial_shape
        return (*map(operator.index, input_shape[:2]), *spatial)

    def geometry(self, input_shape: Sequence[int]) -> Geometry:
        """Explicit pads, extents and output sizes along each spatial axis, for X of shape (N, C, D1, ..., Dr).

        Cached, and raises, as ``output_shape``.
        """
        dims = plain_dims(input_shape)
        if not all(isinstance(dim, int) for dim in dims):
            raise InvalidShapeError(f"X must have sizes that are known, got shape {dims}; use output_dims")
        return _geometry(self, dims)

    def output_dims(self, input_dims: Sequence[int | str | None]) -> tuple[int | str | None, ...]:
        """``output_shape`` where sizes may be unknown: None or the name of a symbolic dimension.

        N and C stay what they are; an unknown spatial size gives an unknown one.

        >>> MaxPoolAttributes(kernel_shape=[2, 2]).output_dims(("N", 3, None, 8))
        ('N', 3, None, 7)
        """
        dims = plain_dims(input_dims)
        sizes = _geometry(self, dims).output_spatial_shape
        spatial = (size if isinstance(dim, int) else None for dim, size in zip(dims[2:], sizes, strict=True))
        return (*dims[:2], *spatial)

    def as_text(self) -> dict[str, str]:
        """Every attribute as text, lists with commas.

        >>> MaxPoolAttributes(kernel_shape=[3, 2]).as_text()["kernel_shape"]
        '3,2'
        """
        return {field.name: _text(getattr(self, field.name)) for field in fields(self)}

    def __str__(self) -> str:
        """kernel_shape, and the attributes that differ from their defaults.

        >>> print(MaxPoolAttributes(kernel_shape=[3, 2], strides=[1, 1], ceil_mode=1))
        kernel_shape=3,2 ceil_mode=1
        """
        defaults = MaxPoolAttributes(kernel_shape=self.kernel_shape).as_text()
        given = {name: text for name, text in self.as_text().items() if text != defaults[name]}
        return " ".join(f"{name}={text}" for name, text in {"kernel_shape": defaults["kernel_shape"], **given}.items())


def _text(value: object) -> str:
    if isinstance(value, AutoPad):
        return value.value
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def type_name(element_type: int) -> str:
    """Name of an element type as ONNX writes it in ``tensor(...)``.

    >>> type_name(1), type_name(0), type_name(999)
    ('float', 'undefined', 'unknown type 999')
    """
    try:
        return str(TensorProto.DataType.Name(element_type)).lower()
    except ValueError:
        return f"unknown type {element_type}"


def check_version(node: NodeProto, opset: int, element_type: int | None) -> None:
    """Hold a standard MaxPool node against the version of MaxPool that an opset has, as ``onnx.defs`` defines it.

    ``element_type`` is that of X, None where it is not known.

    Raises
    ------
    InvalidAttributeError
        If the node has an attribute, inputs or outputs that this version does not have.
    UnsupportedTypeError
        If this version does not take the element type.
    """
    schema = defs.get_schema(OP_TYPE, opset)
    version = f"MaxPool-{schema.since_version} (opset {opset})"
    for attribute in node.attribute:
        if attribute.name not in schema.attributes:
            raise InvalidAttributeError(
                f"{describe(node)}: {version} has no attribute {attribute.name!r}, only {', '.join(schema.attributes)}"
            )
    if len(node.input) != 1 or not node.input[0]:
        raise InvalidAttributeError(f"{describe(node)}: {version} takes 1 input, X, got {shown(list(node.input))}")
    if not 1 <= len(node.output) <= schema.max_output or not node.output[0]:
        expected = ["Y", "Y or Y and Indices"][schema.max_output - 1]
        raise InvalidAttributeError(f"{describe(node)}: {version} puts out {expected}, got {shown(list(node.output))}")
    takes = sorted(schema.type_constraints[0].allowed_type_strs)
    got = "" if element_type is None else f"tensor({type_name(element_type)})"
    if got and got not in takes:
        raise UnsupportedTypeError(f"{describe(node)}: {version} takes X of type {', '.join(takes)}, got {got}")


def plain_dims(dims: Sequence[int | str | None]) -> tuple[int | str | None, ...]:
    """Dimensions of X with their sizes as plain integers: as keys of a cache, 8 and 8.0 would be the same."""
    try:
        return tuple(dim if dim is None or isinstance(dim, str) else operator.index(dim) for dim in dims)
    except TypeError:
        got = f"shape {tuple(dims)}" if isinstance(dims, Iterable) else repr(dims)
        raise InvalidShapeError(f"X must have sizes that are integers, got {got}") from None


@lru_cache(maxsize=1024)
def _geometry(attributes: MaxPoolAttributes, input_dims: tuple[int | str | None, ...]) -> Geometry:
    """The geometry for these dimensions."""
    return Geometry(axes_of(attributes, input_dims))


def axes_of(attributes: MaxPoolAttributes, input_dims: tuple[int | str | None, ...]) -> tuple[Axis, ...]:
    """The spatial axes for these dimensions, be their output sizes negative; one of unknown size has one window's.

    Raises
    ------
    InvalidShapeError
        If the rank is not r + 2, or a size is negative.
    """
    rank = len(attributes.kernel_shape)
    if len(input_dims) != rank + 2:
        raise InvalidShapeError(
            f"X must have rank {rank + 2} (N, C and one axis for each entry of kernel_shape "
            f"{shown(attributes.kernel_shape)}), got rank {len(input_dims)}: shape {input_dims}"
        )
    if any(isinstance(dim, int) and dim < 0 for dim in input_dims):
        raise InvalidShapeError(f"X must have sizes >= 0, got shape {input_dims}")
    return tuple(
        Axis.of(
            dim if isinstance(dim, int) else (attributes.kernel_shape[i] - 1) * attributes.dilations[i] + 1,
            attributes.kernel_shape[i],
            stride=attributes.strides[i],
            dilation=attributes.dilations[i],
            pad_begin=attributes.pads[i],
            pad_end=attributes.pads[rank + i],
            auto_pad=attributes.auto_pad,
            ceil_mode=attributes.ceil_mode,
        )
        for i, dim in enumerate(input_dims[2:])
    )


def _read(node: NodeProto) -> dict[str, Any]:
    """Python values of a node's attributes, each of the attribute type that the page gives it."""
    values: dict[str, Any] = {}
    for attribute in node.attribute:
        name = attribute.name
        if name not in ATTRIBUTE_TYPES:
            raise InvalidAttributeError(f"unknown attribute {name!r}; MaxPool-12 has {', '.join(ATTRIBUTE_TYPES)}")
        if name in values:
            raise InvalidAttributeError(f"attribute {name} stands on the node twice; keep one")
        if attribute.ref_attr_name:
            raise InvalidAttributeError(
                f"{name} refers to the attribute {attribute.ref_attr_name!r} of a function; inline the function first"
            )
        if attribute.type != ATTRIBUTE_TYPES[name]:
            expected = AttributeProto.AttributeType.Name(ATTRIBUTE_TYPES[name])
            got = AttributeProto.AttributeType.Name(attribute.type)
            raise InvalidAttributeError(f"{name} must be an attribute of type {expected}, got {got}")
        values[name] = _VALUE[attribute.type](attribute)
    if "kernel_shape" not in values:
        raise InvalidAttributeError("kernel_shape is required, and is missing")
    return values


_VALUE: dict[int, Callable[[AttributeProto], object]] = {
    AttributeProto.INT: lambda attribute: attribute.i,
    AttributeProto.INTS: lambda attribute: tuple(attribute.ints),
    AttributeProto.STRING: lambda attribute: attribute.s.decode("utf-8", "replace"),
}
