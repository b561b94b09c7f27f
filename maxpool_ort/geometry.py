"""From attributes and sizes to explicit pads, extents and output sizes, one spatial axis at a time, in plain integers.

``auto_pad`` ends here: below this module there are only pads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from maxpool_ort.errors import InvalidShapeError
from maxpool_ort.table import table

__all__ = ["AutoPad", "Axis", "Geometry"]


LARGEST_EXTENT = 2**62
"""Positions and pads of such windows can still be added up in int64."""


COLUMNS = ("axis", "input", "kernel", "stride", "dilation", "extent", "pad begin", "pad end", "output")
"""Of the table of a geometry."""


class AutoPad(str, Enum):
    """The values of ``auto_pad``, as the operator's page spells them."""

    NOTSET = "NOTSET"
    VALID = "VALID"
    SAME_UPPER = "SAME_UPPER"
    SAME_LOWER = "SAME_LOWER"


def output_size(
    size: int, extent: int, stride: int, pad_begin: int, pad_end: int, auto_pad: AutoPad, ceil_mode: int
) -> int:
    """Output size of one spatial axis; a negative one says that the attributes do not fit the input.

    ``extent`` is the effective kernel extent, ``(kernel - 1) * dilation + 1``. The last window is dropped when it
    would start in the end pad: not in the page of version 12, but what ONNX decided later (onnx/onnx#5711).

    >>> output_size(12, 1, 2, 0, 0, AutoPad.NOTSET, ceil_mode=1)
    6
    """
    if auto_pad is AutoPad.VALID:
        return -((extent - 1 - size) // stride)
    if auto_pad is not AutoPad.NOTSET:
        return -(-size // stride)
    span = size + pad_begin + pad_end - extent
    if not ceil_mode:
        return span // stride + 1
    output = -(-span // stride) + 1
    return output - 1 if (output - 1) * stride >= size + pad_begin else output


@dataclass(frozen=True)
class Axis:
    """One spatial axis: what lies along it, in elements.

    Output ``o``'s window has its tap ``t`` at input position ``o * stride - pad_begin + t * dilation``; positions
    outside of ``range(input)`` are padding.
    """

    input: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    pad_begin: int = 0
    pad_end: int = 0
    output: int = 0

    @classmethod
    def of(
        cls,
        size: int,
        kernel: int,
        *,
        stride: int = 1,
        dilation: int = 1,
        pad_begin: int = 0,
        pad_end: int = 0,
        auto_pad: AutoPad = AutoPad.NOTSET,
        ceil_mode: int = 0,
    ) -> "Axis":
        """Apply the output-size rule and turn SAME into explicit pads.

        >>> Axis.of(6, 3, stride=2, auto_pad=AutoPad.SAME_LOWER)
        Axis(input=6, kernel=3, stride=2, dilation=1, pad_begin=1, pad_end=0, output=3)
        """
        extent = (kernel - 1) * dilation + 1
        output = output_size(size, extent, stride, pad_begin, pad_end, auto_pad, ceil_mode)
        if auto_pad in (AutoPad.SAME_UPPER, AutoPad.SAME_LOWER):
            total = max(0, (output - 1) * stride + extent - size)
            pad_begin = total // 2 if auto_pad is AutoPad.SAME_UPPER else total - total // 2
            pad_end = total - pad_begin
        return cls(size, kernel, stride, dilation, pad_begin, pad_end, output)

    @property
    def extent(self) -> int:
        """Effective kernel extent: input positions from a window's first tap to its last, both included."""
        return (self.kernel - 1) * self.dilation + 1

    def row(self) -> tuple[int, ...]:
        """What the table of a geometry says of it."""
        return (
            self.input, self.kernel, self.stride, self.dilation, self.extent, self.pad_begin, self.pad_end, self.output
        )  # fmt: skip

    def outputs(self, tap: int) -> range:
        """Outputs whose tap ``tap`` lies in the input; for every other output that tap is padding.

        >>> [Axis.of(5, 3, pad_begin=1, pad_end=1).outputs(tap) for tap in range(3)]
        [range(1, 5), range(0, 5), range(0, 4)]
        """
        offset = self.pad_begin - tap * self.dilation
        first = max(0, -(-offset // self.stride))
        last = min(self.output - 1, (self.input - 1 + offset) // self.stride)
        return range(first, max(first, last + 1))

    def window(self, output: int) -> range:
        """Input positions that an output sees; ranges are equal where they hold the same numbers.

        >>> Axis.of(5, 3, dilation=2, pad_begin=1, pad_end=1).window(0)
        range(1, 4, 2)
        """
        start = output * self.stride - self.pad_begin
        first = max(0, -(start // self.dilation))
        last = min(self.kernel - 1, (self.input - 1 - start) // self.dilation)
        return range(start + first * self.dilation, start + last * self.dilation + 1, self.dilation)

    @property
    def taps(self) -> Sequence[int]:
        """Taps that lie in the input for at least one output, in order (for common strides a range, with rare gaps).

        Never more than the input and the outputs can reach, however large the kernel is.

        >>> Axis.of(4, 10**9, pad_begin=10**9).taps
        range(999999996, 1000000000)
        >>> Axis.of(4, 10**9 + 1, stride=10**9, pad_begin=10**9, pad_end=10**9).taps
        (0, 1, 2, 3, 1000000000)
        """

        def of_output(output: int) -> range:
            offset = self.pad_begin - output * self.stride
            first = max(0, -(-offset // self.dilation))
            return range(first, min(self.kernel, (self.input - 1 + offset) // self.dilation + 1))

        taps = range(of_output(self.output - 1).start, of_output(0).stop)
        if len(taps) <= 4 * (self.input + self.output):
            return taps
        return tuple(sorted({tap for output in range(self.output) for tap in of_output(output)}))


@dataclass(frozen=True)
class Geometry:
    """All spatial axes of one MaxPool: what shape inference, the kernel and the tests share.

    >>> print(Geometry((Axis.of(224, 7, stride=2, pad_begin=3, pad_end=3), Axis.of(10, 2, stride=2))))
    axis  input  kernel  stride  dilation  extent  pad begin  pad end  output
    D1      224       7       2         1       7          3        3     112
    D2       10       2       2         1       2          0        0       5
    """

    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        """Refuse a negative output size, with every number that leads to it, and windows beyond 64-bit positions."""
        for number, axis in enumerate(self.axes, start=1):
            if axis.extent > LARGEST_EXTENT:
                raise InvalidShapeError(
                    f"effective kernel extent of spatial axis D{number} must be at most 2**62, got {axis.extent} "
                    f"(kernel {axis.kernel}, dilation {axis.dilation}); use a smaller kernel or dilation"
                )
            if axis.output < 0:
                raise InvalidShapeError(
                    f"output size of spatial axis D{number} must be >= 0, got {axis.output}: input {axis.input} "
                    f"+ pads {axis.pad_begin} and {axis.pad_end} is too small for the effective kernel extent "
                    f"{axis.extent} (kernel {axis.kernel}, dilation {axis.dilation}) at stride {axis.stride}; "
                    "use a smaller kernel or dilation, or larger pads"
                )

    @property
    def input_spatial_shape(self) -> tuple[int, ...]:
        """Sizes of X's spatial axes."""
        return tuple(axis.input for axis in self.axes)

    @property
    def output_spatial_shape(self) -> tuple[int, ...]:
        """Sizes of Y's spatial axes."""
        return tuple(axis.output for axis in self.axes)

    def __str__(self) -> str:
        """Print as a table, one row per spatial axis."""
        return table(COLUMNS, ((f"D{number}", *axis.row()) for number, axis in enumerate(self.axes, start=1)))
