"""Hypothesis strategies for legal MaxPool-12 cases, rich in ties, NaN, infinities, padding and empty outputs."""

from dataclasses import dataclass
from math import prod
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
import numpy as np
from oracle import Axis, output_size

DTYPES = (np.float32, np.float64, np.float16, np.int8, np.uint8)
LARGEST_SIZE = {1: 9, 2: 6, 3: 4}  # by rank; more axes have at most 3
LARGEST_PAD = {1: 6, 2: 4}  # by rank; more axes have at most 2
PERIOD = 251  # of the values in X: a prime, so that no two planes or rows of a small X are equal
MOST_COMPARISONS = 20_000  # the oracle takes about two microseconds for each


@dataclass(frozen=True, eq=False)
class Case:
    """An input X and the keyword arguments of a max_pool that is legal for it."""

    x: np.ndarray
    attributes: dict[str, Any]


@st.composite
def cases(draw: st.DrawFn, max_rank: int = 4) -> Case:
    """Draw a case with 1 to max_rank spatial axes; an attribute at its default is written or absent."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    values, special = draw(_values(dtype)), draw(_special(dtype))
    rank = draw(st.integers(1, max_rank))
    auto_pad = draw(st.sampled_from(["NOTSET", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    ceil_mode = draw(st.integers(0, 1))
    empty = draw(st.sampled_from(["never"] * 7 + ["N or C", "size"] + ["window"] * 3))
    n, c = (draw(st.integers(0, 3) if empty == "N or C" else st.sampled_from([1, 2, 2, 3, 3])) for _ in "NC")
    axis = _axes(
        largest_size=LARGEST_SIZE.get(rank, 3),
        largest_pad=LARGEST_PAD.get(rank, 2) if auto_pad == "NOTSET" and draw(st.booleans()) else 0,
        largest_stride=draw(st.sampled_from([1, 4])),
        largest_dilation=draw(st.sampled_from([1, 4])),
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
        smallest_size=0 if empty == "size" else 1,
        may_lack_windows=empty == "window",
    )
    axes = [draw(axis) for _ in range(rank)]
    output_spatial_shape = [output_size(axis, auto_pad, ceil_mode) for axis in axes]
    assume(n * c * prod(output_spatial_shape) * prod(axis.kernel for axis in axes) <= MOST_COMPARISONS)

    attributes: dict[str, Any] = {"kernel_shape": tuple(axis.kernel for axis in axes)}
    optional = {
        "auto_pad": (auto_pad, "NOTSET"),
        "ceil_mode": (ceil_mode, 0),
        "dilations": (tuple(axis.dilation for axis in axes), (1,) * rank),
        "pads": (tuple(axis.begin for axis in axes) + tuple(axis.end for axis in axes), (0, 0) * rank),
        "storage_order": (draw(st.integers(0, 1)), 0),
        "strides": (tuple(axis.stride for axis in axes), (1,) * rank),
    }
    for name, (value, default) in optional.items():
        if value != default or draw(st.booleans()):
            attributes[name] = value
    if attributes.get("auto_pad") == "NOTSET" and draw(st.booleans()):
        attributes["auto_pad"] = ""  # its other spelling
    shape = (n, c, *(axis.size for axis in axes))
    x = values[np.arange(prod(shape)) % len(values)].reshape(shape)
    if x.size and draw(st.booleans()):
        depth = draw(st.integers(1, x.ndim - 1))  # a batch, ..., a row
        x[tuple(draw(st.integers(0, size - 1)) for size in shape[:depth])] = special
    return Case(x, attributes)


@st.composite
def _axes(
    draw: st.DrawFn,
    *,
    largest_size: int,
    largest_pad: int,
    largest_stride: int,
    largest_dilation: int,
    auto_pad: str,
    ceil_mode: int,
    smallest_size: int,
    may_lack_windows: bool,
) -> Axis:
    """Draw one axis; the kernel comes last, since its extent is what makes an output size negative."""
    size = draw(st.integers(smallest_size, largest_size))
    begin, end = draw(st.integers(0, largest_pad)), draw(st.integers(0, largest_pad))
    stride = draw(st.integers(1, largest_stride))
    if auto_pad.startswith("SAME"):
        longest = 17  # any extent is legal; this is kernel 5 at dilation 4
    else:
        beyond = 2 * stride - 1 if ceil_mode and auto_pad == "NOTSET" else stride
        longest = size + begin + end + (beyond if may_lack_windows or not size else 0)
    kernel = draw(st.sampled_from([kernel for kernel in (2, 3, 1, 4, 5) if kernel <= longest]))  # 2: simplest of use
    dilation = draw(st.integers(1, min(largest_dilation, (longest - 1) // (kernel - 1) if kernel > 1 else 4)))
    return Axis(size, kernel, stride, dilation, begin, end)


@st.composite
def _values(draw: st.DrawFn, dtype: np.dtype) -> np.ndarray:
    """Draw what X repeats: few values, so that windows tie.

    The number of draws is fixed and depends on no other draw: where a mutation shifts or resizes draws, Hypothesis
    puts the simplest ones in their place, which made every second X constant.
    """
    if dtype.kind == "f":
        # bounds keep NaN out: st.floats also draws signaling ones, whose cast to a smaller float warns
        usual = st.floats(float(np.finfo(dtype).min), float(np.finfo(dtype).max), width=dtype.itemsize * 8)
    else:
        usual = st.integers(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    alphabet = np.array(draw(st.tuples(*[_special(dtype) | usual] * 8)), dtype)
    letters = np.frombuffer(draw(st.binary(min_size=PERIOD, max_size=PERIOD)), np.uint8)
    return alphabet[letters % draw(st.integers(1, len(alphabet)))]


def _special(dtype: np.dtype) -> st.SearchStrategy[float]:
    """Choose from the values at which a maximum goes wrong."""
    if dtype.kind == "f":
        lowest, highest = float(np.finfo(dtype).min), float(np.finfo(dtype).max)
        return st.sampled_from([0.0, np.nan, -np.inf, -0.0, np.nan, np.inf, lowest, highest])
    return st.sampled_from([0, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)])
