"""Output sizes, pads and positions along one axis, against the oracle's formula and brute force."""

from hypothesis import assume, given
from hypothesis import strategies as st
import oracle
import pytest

import maxpool_ort as mp
from maxpool_ort.geometry import AutoPad, Axis, Geometry

AUTO_PADS = st.sampled_from(list(AutoPad))
SMALL = st.integers(1, 9)


@st.composite
def axes(draw: st.DrawFn) -> tuple[Axis, oracle.Axis, AutoPad, int]:
    """One axis in our words and in the oracle's, with a size that is not negative."""
    size, kernel, stride, dilation = draw(st.integers(0, 30)), draw(SMALL), draw(SMALL), draw(st.integers(1, 4))
    auto_pad, ceil_mode = draw(AUTO_PADS), draw(st.integers(0, 1))
    begin, end = (draw(st.integers(0, 12)) if auto_pad is AutoPad.NOTSET else 0 for _ in range(2))
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


@given(axes())
def test_output_size(drawn: tuple[Axis, oracle.Axis, AutoPad, int]) -> None:
    """The size is the oracle's, which divides exactly and rounds; a negative one is refused by both."""
    ours, theirs, auto_pad, ceil_mode = drawn
    if ours.output < 0:
        with pytest.raises(ValueError, match=r".+"):
            oracle.output_size(theirs, auto_pad.value, ceil_mode)
        with pytest.raises(mp.InvalidShapeError, match=f"spatial axis D1 must be >= 0, got {ours.output}: "):
            Geometry((ours,))
    else:
        assert ours.output == oracle.output_size(theirs, auto_pad.value, ceil_mode)
        assert ours.pad_begin == oracle.begin_pad(theirs, ours.output, auto_pad.value)


@given(axes())
def test_same_pads(drawn: tuple[Axis, oracle.Axis, AutoPad, int]) -> None:
    """SAME pads just enough; an odd one is at the end for UPPER, at the beginning for LOWER."""
    axis, _, auto_pad, _ = drawn
    assume(auto_pad in (AutoPad.SAME_UPPER, AutoPad.SAME_LOWER))
    total = max(0, (axis.output - 1) * axis.stride + axis.extent - axis.input)
    more, less = (axis.pad_end, axis.pad_begin) if auto_pad is AutoPad.SAME_UPPER else (axis.pad_begin, axis.pad_end)
    assert (more + less, more - less) == (total, total % 2)


@given(axes())
def test_positions(drawn: tuple[Axis, oracle.Axis, AutoPad, int]) -> None:
    """outputs(tap) and taps are what trying every tap of every output gives."""
    axis = drawn[0]
    assume(axis.output >= 0)
    lies_in = {
        tap: [o for o in range(axis.output) if 0 <= o * axis.stride - axis.pad_begin + tap * axis.dilation < axis.input]
        for tap in range(axis.kernel)
    }
    assert {tap: list(axis.outputs(tap)) for tap in range(axis.kernel)} == lies_in
    used = [tap for tap, outputs in lies_in.items() if outputs]
    assert set(used) <= set(axis.taps) <= set(range(axis.kernel))
    assert list(axis.taps) == sorted(set(axis.taps))


def test_huge_attributes_take_no_time() -> None:
    """Kernels, strides and pads beyond all tensors are a matter of a few taps."""
    huge = 2**59
    axis = Axis.of(4, huge + 1, stride=huge, pad_begin=huge, pad_end=huge)
    assert (axis.output, list(axis.taps)) == (2, [0, 1, 2, 3, huge])
    assert [list(axis.outputs(tap)) for tap in axis.taps] == [[1], [1], [1], [1], [0]]
    (y,) = mp.max_pool([[[3.0, 1.0, 4.0, 1.0]]], [huge + 1], strides=[huge], pads=[huge, huge])[0]
    assert y.tolist() == [3.0, 4.0]


def test_prints_itself() -> None:
    """One row per spatial axis, numbers to the right."""
    attributes = mp.MaxPoolAttributes(kernel_shape=[3, 2], strides=[2, 1], dilations=[1, 40], auto_pad="SAME_LOWER")
    assert str(attributes.geometry((1, 1, 112, 7))) == (
        "axis  input  kernel  stride  dilation  extent  pad begin  pad end  output\n"
        "D1      112       3       2         1       3          1        0      56\n"
        "D2        7       2       1        40      41         20       20       7"
    )
