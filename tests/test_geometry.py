"""Output sizes, pads and positions along one axis, against the oracle's formula and brute force."""

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import oracle
import pytest

import maxpool_ort as mp
from maxpool_ort.geometry import AutoPad, Axis, Geometry

LARGEST = 2**60  # of an attribute's entries

# (id, size and kernel, arguments of Axis.of, (output, pad begin, pad end), why)
OUTPUT_SIZES: list[tuple[str, tuple[int, int], dict[str, Any], tuple[int, int, int], str]] = [
    # NOTSET, floor: floor((L+b+e-K)/s) + 1
    ("floor, exact", (6, 2), {"stride": 2}, (3, 0, 0), "4/2 + 1"),
    ("floor", (7, 2), {"stride": 2}, (3, 0, 0), "floor(5/2) + 1"),
    ("floor, all numbers", (10, 3), {"stride": 2, "dilation": 3, "pad_begin": 1, "pad_end": 2}, (4, 1, 2), "floor(6/2) + 1"),
    ("floor, stride beyond the kernel", (10, 1), {"stride": 4}, (3, 0, 0), "floor(9/4) + 1"),
    ("floor, below zero", (5, 6), {"stride": 3}, (0, 0, 0), "floor(-1/3) + 1, where truncation says 1"),
    ("floor, one window", (5, 5), {"stride": 3}, (1, 0, 0), "0/3 + 1"),
    ("floor, only padding", (0, 2), {"pad_begin": 1, "pad_end": 2}, (2, 1, 2), "pads may exceed the input"),
    ("floor, pads beyond the kernel", (3, 2), {"stride": 2, "pad_begin": 5, "pad_end": 4}, (6, 5, 4), "any pads >= 0 are legal"),
    # NOTSET, ceil: ceil((L+b+e-K)/s) + 1, minus one where the last window would start at or after L+b
    ("ceil, exact", (6, 2), {"stride": 2, "ceil_mode": 1}, (3, 0, 0), "4/2 + 1"),
    ("ceil", (7, 2), {"stride": 2, "ceil_mode": 1}, (4, 0, 0), "ceil(5/2) + 1"),
    ("ceil, last window starts at L-1", (5, 2), {"stride": 2, "ceil_mode": 1}, (3, 0, 0), "ceil(3/2) + 1, starts at 4"),
    ("ceil, last window starts at L+b-1", (4, 2), {"stride": 2, "pad_begin": 1, "pad_end": 1, "ceil_mode": 1}, (3, 1, 1), "4/2 + 1, starts at 4 of 5"),
    ("ceil, last window starts at L+b", (5, 2), {"stride": 2, "pad_begin": 1, "pad_end": 1, "ceil_mode": 1}, (3, 1, 1), "ceil(5/2) + 1 is 4, starts at 6 of 6"),
    ("ceil, last window starts beyond L+b", (4, 1), {"stride": 3, "pad_end": 3, "ceil_mode": 1}, (2, 0, 3), "6/3 + 1 is 3, starts at 6 of 4"),
    ("ceil, minus one only once", (2, 1), {"pad_end": 3, "ceil_mode": 1}, (4, 0, 3), "4/1 + 1 is 5; the fourth starts at 3 of 2 too"),
    ("ceil, below zero", (2, 3), {"stride": 4, "dilation": 3, "pad_begin": 1, "pad_end": 1, "ceil_mode": 1}, (1, 1, 1), "ceil(-3/4) + 1"),
    ("ceil, legal where floor is not", (2, 3), {"stride": 3, "dilation": 3, "ceil_mode": 1}, (0, 0, 0), "ceil(-5/3) + 1"),
    ("ceil, nothing at all", (0, 1), {"ceil_mode": 1}, (0, 0, 0), "ceil(-1/1) + 1"),
    ("ceil, nothing to start in", (0, 1), {"stride": 2, "pad_end": 1, "ceil_mode": 1}, (0, 0, 1), "0/2 + 1 is 1, starts at 0 of 0"),
    # VALID: ceil((L-K+1)/s)
    ("VALID", (9, 3), {"stride": 2, "dilation": 3, "auto_pad": AutoPad.VALID}, (2, 0, 0), "ceil(3/2)"),
    ("VALID, no room", (3, 3), {"stride": 2, "dilation": 2, "auto_pad": AutoPad.VALID}, (0, 0, 0), "ceil(-1/2)"),
    # SAME: ceil(L/s); total pad max(0, (out-1)*s + K - L)
    ("UPPER, even", (5, 3), {"stride": 2, "auto_pad": AutoPad.SAME_UPPER}, (3, 1, 1), "4 + 3 - 5 is 2"),
    ("UPPER, odd", (6, 3), {"stride": 2, "auto_pad": AutoPad.SAME_UPPER}, (3, 0, 1), "4 + 3 - 6 is 1"),
    ("LOWER, odd", (6, 3), {"stride": 2, "auto_pad": AutoPad.SAME_LOWER}, (3, 1, 0), "4 + 3 - 6 is 1"),
    ("UPPER, odd and more", (5, 4), {"auto_pad": AutoPad.SAME_UPPER}, (5, 1, 2), "4 + 4 - 5 is 3"),
    ("LOWER, odd and more", (5, 4), {"auto_pad": AutoPad.SAME_LOWER}, (5, 2, 1), "4 + 4 - 5 is 3"),
    ("SAME, ceil_mode", (5, 2), {"stride": 2, "auto_pad": AutoPad.SAME_UPPER, "ceil_mode": 1}, (3, 0, 1), "ceil_mode says nothing here"),
    ("SAME, window beyond the input", (2, 5), {"dilation": 4, "auto_pad": AutoPad.SAME_LOWER}, (2, 8, 8), "1 + 17 - 2 is 16"),
    ("SAME, no input", (0, 3), {"stride": 2, "auto_pad": AutoPad.SAME_UPPER}, (0, 0, 1), "-2 + 3 - 0 is 1"),
    # semantics.md, known disagreements that concern shapes: what others give, and we do not
    ("ORT: SAME_LOWER with dilation", (7, 3), {"dilation": 3, "auto_pad": AutoPad.SAME_LOWER}, (7, 3, 3), "ORT: 3"),
    ("ORT: SAME_UPPER with dilation", (5, 3), {"dilation": 2, "auto_pad": AutoPad.SAME_UPPER}, (5, 2, 2), "ORT: 3"),
    ("ORT: VALID with ceil_mode", (5, 2), {"stride": 2, "auto_pad": AutoPad.VALID, "ceil_mode": 1}, (2, 0, 0), "ORT: 3"),
    ("ORT: size 0", (4, 3), {"stride": 2, "dilation": 2}, (0, 0, 0), "floor(-1/2) + 1; ORT: 1"),
    ("ORT: pads of the kernel's size", (5, 2), {"dilation": 4, "pad_begin": 2, "pad_end": 2}, (5, 2, 2), "ORT: refuses the model"),
    ("ORT: SAME of negative total", (6, 1), {"stride": 3, "auto_pad": AutoPad.SAME_UPPER}, (2, 0, 0), "3 + 1 - 6 is -2; ORT: fails, or begins at 1"),
    ("ORT: SAME_LOWER of negative total", (6, 1), {"stride": 3, "auto_pad": AutoPad.SAME_LOWER}, (2, 0, 0), "the same"),
    ("ORT: windows of padding, D1", (4, 4), {"stride": 3, "pad_end": 1, "ceil_mode": 1}, (2, 0, 1), "ceil(1/3) + 1"),
    ("ORT: windows of padding, D2", (2, 3), {"stride": 4, "dilation": 3, "pad_begin": 1, "pad_end": 1, "ceil_mode": 1}, (1, 1, 1), "ceil(-3/4) + 1"),
    ("onnx.reference: SAME_LOWER", (5, 2), {"stride": 2, "auto_pad": AutoPad.SAME_LOWER}, (3, 1, 0), "onnx.reference: 2"),
    ("onnx inference: ceil_mode", (12, 1), {"stride": 2, "ceil_mode": 1}, (6, 0, 0), "ceil(11/2) + 1 is 7, starts at 12 of 12; onnx: 7"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("size_and_kernel", "arguments", "expected"),
    [row[1:4] for row in OUTPUT_SIZES],
    ids=[row[0] for row in OUTPUT_SIZES],
)
def test_sizes_and_pads(
    size_and_kernel: tuple[int, int], arguments: dict[str, Any], expected: tuple[int, int, int]
) -> None:
    """The output size and the explicit pads are what the page's formulas give; what came in is kept."""
    axis = Axis.of(*size_and_kernel, **arguments)
    assert (axis.output, axis.pad_begin, axis.pad_end) == expected
    assert (axis.input, axis.kernel) == size_and_kernel
    assert (axis.stride, axis.dilation) == (arguments.get("stride", 1), arguments.get("dilation", 1))


@st.composite
def axes(draw: st.DrawFn, largest: int = 30, *, same: bool = False) -> tuple[Axis, oracle.Axis, AutoPad, int]:
    """One axis in our words and in the oracle's, its output size of any sign; ``same`` draws SAME only."""

    def positive() -> int:
        return draw(st.integers(1, 9) | st.integers(1, largest))

    size, kernel, stride, dilation = positive() - 1, positive(), positive(), positive()
    auto_pad = draw(st.sampled_from([AutoPad.SAME_UPPER, AutoPad.SAME_LOWER] if same else list(AutoPad)))
    begin, end = (positive() - 1 if auto_pad is AutoPad.NOTSET else 0 for _ in range(2))
    ceil_mode = draw(st.integers(0, 1))
    theirs = oracle.Axis(size, kernel, stride, dilation, begin, end)
    ours = Axis.of(
        size,
        kernel,
        stride=stride,
        dilation=dilation,
        pad_begin=begin,
        pad_end=end,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
    )
    return ours, theirs, auto_pad, ceil_mode


@pytest.mark.parametrize("largest", [12, 30, LARGEST])
@settings(max_examples=1000)
@given(data=st.data())
def test_output_size(data: st.DataObject, largest: int) -> None:
    """The size is the oracle's, which divides exactly and rounds; a negative one is refused by both."""
    ours, theirs, auto_pad, ceil_mode = data.draw(axes(largest))
    if ours.output < 0 and ours.extent <= 2**62:
        with pytest.raises(ValueError, match=f"^negative output size {ours.output}: "):
            oracle.output_size(theirs, auto_pad.value, ceil_mode)
        with pytest.raises(
            mp.InvalidShapeError, match=f"^output size of spatial axis D1 must be >= 0, got {ours.output}: "
        ):
            Geometry((ours,))
    elif ours.output >= 0:
        assert ours.output == oracle.output_size(theirs, auto_pad.value, ceil_mode)
        assert ours.pad_begin == oracle.begin_pad(theirs, ours.output, auto_pad.value)
        if ours.extent <= 2**62:  # wider windows are refused
            assert Geometry((ours,)).output_spatial_shape == (ours.output,)


@pytest.mark.parametrize("largest", [12, LARGEST])
@given(data=st.data())
def test_same_pads(data: st.DataObject, largest: int) -> None:
    """SAME pads just enough; an odd one is at the end for UPPER, at the beginning for LOWER."""
    axis, _, auto_pad, _ = data.draw(axes(largest, same=True))
    total = max(0, (axis.output - 1) * axis.stride + axis.extent - axis.input)
    more, less = (axis.pad_end, axis.pad_begin) if auto_pad is AutoPad.SAME_UPPER else (axis.pad_begin, axis.pad_end)
    assert (more + less, more - less) == (total, total % 2)


@given(axes(same=True))
def test_same_fits(drawn: tuple[Axis, oracle.Axis, AutoPad, int]) -> None:
    """With the pads of SAME, NOTSET gives the size of SAME, as long as any pad is needed."""
    axis = drawn[0]
    if axis.pad_begin + axis.pad_end:
        explicit = Axis.of(
            axis.input,
            axis.kernel,
            stride=axis.stride,
            dilation=axis.dilation,
            pad_begin=axis.pad_begin,
            pad_end=axis.pad_end,
        )
        assert explicit == axis


@st.composite
def huge_axes(draw: st.DrawFn) -> Axis:
    """One axis with few inputs and outputs, and anything else between 1 and far too much."""
    usual = st.integers(1, 9)
    kernel, stride, dilation, begin, end = (draw(usual | st.just(10**9) | st.integers(1, LARGEST)) for _ in range(5))
    if draw(st.booleans()):  # more windows in the input than chance puts there
        begin = draw(st.integers(0, 6)) * stride + draw(usual)
    return Axis(draw(st.integers(0, 9)), kernel, stride, dilation, begin, end, output=draw(st.integers(0, 6)))


def uses(axis: Axis) -> dict[int, list[int]]:
    """For each tap that lies in the input for an output, those outputs: by trying all inputs for all outputs."""
    found: dict[int, list[int]] = {}
    for output in range(axis.output):
        for position in range(axis.input):
            tap, between = divmod(position - (output * axis.stride - axis.pad_begin), axis.dilation)
            if not between and 0 <= tap < axis.kernel:
                found.setdefault(tap, []).append(output)
    return found


@settings(max_examples=1000)
@given(axes(12).map(lambda drawn: drawn[0]).filter(lambda axis: axis.output >= 0) | huge_axes())
def test_positions(axis: Axis) -> None:
    """outputs(tap) and taps are what trying every place gives, and few, however large the attributes are."""
    expected = uses(axis)
    taps = axis.taps
    assert list(taps) == sorted(set(taps))
    assert set(expected) <= set(taps)
    assert not taps or 0 <= taps[0] <= taps[-1] < axis.kernel
    assert set(taps) == set(expected) or len(taps) <= 4 * (axis.input + axis.output)
    for tap in {*taps, *expected, 0, axis.kernel - 1}:
        assert list(axis.outputs(tap)) == expected.get(tap, [])


# (id, axis, taps, outputs of each of these taps)
HUGE: list[tuple[str, Axis, list[int], list[range]]] = [
    ("kernel", Axis.of(4, 10**9, pad_begin=10**9), [*range(10**9 - 4, 10**9)], [range(4, 5), range(3, 5), range(2, 5), range(1, 5)]),
    ("stride", Axis.of(5, 2, stride=10**9), [0, 1], [range(1), range(1)]),
    ("dilation", Axis.of(5, 3, dilation=10**9, auto_pad=AutoPad.SAME_UPPER), [1], [range(5)]),
    ("pads", Axis.of(4, 1, stride=10**9, pad_begin=10**9, pad_end=10**9), [0], [range(1, 2)]),
    ("all", Axis.of(4, 10**9 + 1, stride=10**9, pad_begin=10**9, pad_end=10**9), [0, 1, 2, 3, 10**9], [*[range(1, 2)] * 4, range(1)]),
]  # fmt: skip


@pytest.mark.parametrize(("axis", "taps", "outputs"), [row[1:] for row in HUGE], ids=[row[0] for row in HUGE])
def test_huge_attributes(axis: Axis, taps: list[int], outputs: list[range]) -> None:
    """Kernels, strides, dilations and pads beyond all tensors are a matter of a few taps."""
    assert list(axis.taps) == taps
    assert [axis.outputs(tap) for tap in taps] == outputs


def test_huge_attributes_run() -> None:
    """What the geometry makes of huge attributes runs on arrays."""
    huge = 2**59
    (y,) = mp.max_pool([[[3.0, 1.0, 4.0, 1.0]]], [huge + 1], strides=[huge], pads=[huge, huge])[0]
    assert y.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_huge_stride_along_short_rows(auto_pad: str, size: int) -> None:
    """One window of each row takes no more than its taps, however far the next would be."""
    x = np.arange(4 * size, dtype=np.float32).reshape(2, 2, size)
    given = {"kernel_shape": [3], "strides": [2**60], "auto_pad": auto_pad}
    for mine, expected in zip(
        mp.max_pool(x, **given, return_indices=True), oracle.max_pool_oracle(x, **given), strict=True
    ):
        np.testing.assert_array_equal(mine, expected)


TOO_SMALL = "; use a smaller kernel or dilation, or larger pads"

# (id, axis, text after the name of the axis)
NEGATIVE: list[tuple[str, Axis, str]] = [
    ("floor", Axis.of(1, 5, stride=2), f"got -1: input 1 + pads 0 and 0 is too small for the effective kernel extent 5 (kernel 5, dilation 1) at stride 2{TOO_SMALL}"),
    ("ceil, all numbers", Axis.of(2, 3, stride=3, dilation=8, pad_begin=4, pad_end=1, ceil_mode=1), f"got -2: input 2 + pads 4 and 1 is too small for the effective kernel extent 17 (kernel 3, dilation 8) at stride 3{TOO_SMALL}"),
    ("VALID", Axis.of(3, 3, dilation=4, auto_pad=AutoPad.VALID), f"got -5: input 3 + pads 0 and 0 is too small for the effective kernel extent 9 (kernel 3, dilation 4) at stride 1{TOO_SMALL}"),
    ("no input", Axis.of(0, 2), f"got -1: input 0 + pads 0 and 0 is too small for the effective kernel extent 2 (kernel 2, dilation 1) at stride 1{TOO_SMALL}"),
]  # fmt: skip


@pytest.mark.parametrize(("axis", "text"), [row[1:] for row in NEGATIVE], ids=[row[0] for row in NEGATIVE])
def test_negative_size(axis: Axis, text: str) -> None:
    """A negative output size is refused with the axis and every number, the first such axis first."""
    fits = Axis.of(5, 2)
    for before in range(3):
        expected = f"output size of spatial axis D{before + 1} must be >= 0, {text}"
        with pytest.raises(mp.InvalidShapeError, match=f"^{re.escape(expected)}$"):
            Geometry((*[fits] * before, axis, fits, axis))


# (id, attributes, X's shape, Y's shape)
SHAPES: list[tuple[str, dict[str, Any], tuple[int, ...], tuple[int, ...]]] = [
    ("ORT: SAME_LOWER with dilation", {"kernel_shape": [1, 3], "dilations": [1, 3], "auto_pad": "SAME_LOWER"}, (2, 2, 5, 7), (2, 2, 5, 7)),
    ("ORT: four spatial axes", {"kernel_shape": [2, 1, 3, 2], "strides": [1, 2, 1, 1]}, (1, 2, 2, 5, 4, 3), (1, 2, 1, 3, 2, 2)),
    ("ORT: windows of padding", {"kernel_shape": [4, 3], "strides": [3, 4], "dilations": [1, 3], "pads": [0, 1, 1, 1], "ceil_mode": 1}, (1, 1, 4, 2), (1, 1, 2, 1)),
    ("onnx.reference: SAME_LOWER", {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_LOWER"}, (1, 1, 5, 5), (1, 1, 3, 3)),
    ("onnx inference: ceil_mode", {"kernel_shape": [1, 1], "strides": [2, 2], "ceil_mode": 1}, (1, 1, 12, 12), (1, 1, 6, 6)),
    ("begins before ends", {"kernel_shape": [1, 1, 1], "pads": [1, 2, 3, 10, 20, 30]}, (1, 1, 0, 0, 0), (1, 1, 11, 22, 33)),
    ("each its own", {"kernel_shape": [3, 2], "strides": [1, 3], "dilations": [4, 1]}, (0, 3, 10, 9), (0, 3, 2, 3)),
    ("no output", {"kernel_shape": [3, 2]}, (2, 1, 2, 4), (2, 1, 0, 3)),
    ("no input", {"kernel_shape": [3, 2], "auto_pad": "SAME_UPPER"}, (2, 0, 0, 4), (2, 0, 0, 4)),
]  # fmt: skip


@pytest.mark.parametrize(("attributes", "shape", "expected"), [r[1:] for r in SHAPES], ids=[r[0] for r in SHAPES])
def test_shapes(attributes: dict[str, Any], shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Whole shapes, each axis with its own numbers; max_pool's Y has them, also where it is empty."""
    geometry = mp.MaxPoolAttributes(**attributes).geometry(shape)
    assert geometry.input_spatial_shape == shape[2:]
    assert geometry.output_spatial_shape == expected[2:]
    assert mp.MaxPoolAttributes(**attributes).output_shape(shape) == expected
    assert mp.max_pool(np.zeros(shape, np.int8), **attributes).shape == expected


def test_prints_itself() -> None:
    """One row per spatial axis, numbers to the right, each column as wide as its longest."""
    attributes = mp.MaxPoolAttributes(kernel_shape=[3, 2], strides=[2, 1], dilations=[1, 40], auto_pad="SAME_LOWER")
    assert str(attributes.geometry((1, 1, 112, 7))) == (
        "axis  input  kernel  stride  dilation  extent  pad begin  pad end  output\n"
        "D1      112       3       2         1       3          1        0      56\n"
        "D2        7       2       1        40      41         20       20       7"
    )
    wide = mp.MaxPoolAttributes(kernel_shape=[1], strides=[10**9], pads=[0, 10**9])
    assert str(wide.geometry((1, 1, 0))) == (
        "axis  input  kernel      stride  dilation  extent  pad begin     pad end  output\n"
        "D1        0       1  1000000000         1       1          0  1000000000       1"
    )


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "NOTSET"])
def test_windows_beyond_64_bits(auto_pad: str) -> None:
    """A window that reaches further than positions can be counted is refused, whatever the pads are."""
    pads = [2**60, 2**60] if auto_pad == "NOTSET" else None
    attributes = mp.MaxPoolAttributes(kernel_shape=[5], dilations=[2**60], auto_pad=auto_pad, pads=pads)
    with pytest.raises(
        mp.InvalidShapeError, match=r"effective kernel extent of spatial axis D1 must be at most 2\*\*62, got "
    ):
        attributes.output_shape((1, 1, 9))


def test_the_widest_window() -> None:
    """An extent of 2**62 is legal, and one more is not."""
    widest = Axis(input=4, kernel=2**31, dilation=2**31 + 1)
    assert Geometry((widest,)).axes[0].extent == 2**62
    with pytest.raises(
        mp.InvalidShapeError, match=rf"extent of spatial axis D2 must be .*, got {2**62 + 1} \(kernel 2"
    ):
        Geometry((widest, Axis(input=4, kernel=2, dilation=2**62)))


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_windows_of_64_bits(auto_pad: str) -> None:
    """The widest windows that are legal give what the oracle gives."""
    x = np.arange(9, dtype=np.float32).reshape(1, 1, 9)
    given = {"kernel_shape": [4], "dilations": [2**60], "auto_pad": auto_pad}
    got = mp.max_pool(x, **given, return_indices=True)
    for mine, expected in zip(got, oracle.max_pool_oracle(x, **given), strict=True):
        np.testing.assert_array_equal(mine, expected)
