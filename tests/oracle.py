"""MaxPool-12 by brute force: the operator's page in plain Python loops, slow and readable, no line of the package."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import ceil, floor, inf, isnan
from typing import NamedTuple

import numpy as np


class Axis(NamedTuple):
    """One spatial axis of X, and what the attributes say of it."""

    size: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    begin: int = 0
    end: int = 0

    @property
    def extent(self) -> int:
        """The effective kernel extent: from the first tap to the last, both counted."""
        return (self.kernel - 1) * self.dilation + 1


def output_size(axis: Axis, auto_pad: str = "NOTSET", ceil_mode: int = 0) -> int:
    """Count the windows along one axis; 0 is legal, less raises ValueError."""
    match auto_pad:
        case "NOTSET" | "":
            steps = Fraction(axis.size + axis.begin + axis.end - axis.extent, axis.stride)
            out = (ceil(steps) if ceil_mode else floor(steps)) + 1
            if ceil_mode and (out - 1) * axis.stride >= axis.size + axis.begin:
                out -= 1  # the last window would start in the end padding (onnx issue 5711); once, not until it fits
        case "VALID":
            out = ceil(Fraction(axis.size - axis.extent + 1, axis.stride))
        case "SAME_UPPER" | "SAME_LOWER":
            out = ceil(Fraction(axis.size, axis.stride))
        case _:
            raise ValueError(f"unknown auto_pad {auto_pad!r}")
    if out < 0:
        raise ValueError(f"negative output size {out}: {axis}, auto_pad {auto_pad!r}, ceil_mode {ceil_mode}")
    return out


def begin_pad(axis: Axis, out: int, auto_pad: str) -> int:
    """How far the first window starts before the input."""
    total = max(0, (out - 1) * axis.stride + axis.extent - axis.size)
    return {"SAME_UPPER": floor(Fraction(total, 2)), "SAME_LOWER": ceil(Fraction(total, 2))}.get(auto_pad, axis.begin)


def flat_index(position: Sequence[int], shape: Sequence[int], storage_order: int) -> int:
    """Count a (n, c, d1, ..., dn) position; column-major turns the spatial axes around and leaves N and C."""
    turn = slice(None, None, -1 if storage_order else 1)
    index = 0
    for place, size in zip((*position[:2], *position[2:][turn]), (*shape[:2], *shape[2:][turn]), strict=True):
        index = index * size + place
    return index


def max_pool_oracle(
    x: np.ndarray,
    kernel_shape: Sequence[int],
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    storage_order: int = 0,
    strides: Sequence[int] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return Y and Indices of X: (N, C, D1, ..., Dn), comparing one element at a time."""
    rank = x.ndim - 2
    ones, pads = (1,) * rank, pads or (0, 0) * rank
    columns = (x.shape[2:], kernel_shape, strides or ones, dilations or ones, pads[:rank], pads[rank:])
    axes = [Axis(*column) for column in zip(*columns, strict=True)]
    output_spatial_shape = [output_size(axis, auto_pad, ceil_mode) for axis in axes]
    begins = [begin_pad(axis, out, auto_pad) for axis, out in zip(axes, output_spatial_shape, strict=True)]

    lowest = -inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    y = np.full((*x.shape[:2], *output_spatial_shape), lowest, x.dtype)
    indices = np.full(y.shape, -1, np.int64)
    for n, c, *window in product(*map(range, y.shape)):
        best = None
        for tap in product(*map(range, kernel_shape)):
            steps = zip(window, tap, axes, begins, strict=True)
            position = [w * axis.stride + t * axis.dilation - begin for w, t, axis, begin in steps]
            if not all(0 <= place < axis.size for place, axis in zip(position, axes, strict=True)):
                continue  # padding never takes part
            value = x[(n, c, *position)].item()
            if best is None or (not isnan(best) and (isnan(value) or value > best)):
                best = y[(n, c, *window)] = value
                indices[(n, c, *window)] = flat_index((n, c, *position), x.shape, storage_order)
    return y, indices


def assert_same(got: np.ndarray, expected: np.ndarray, context: object = "") -> None:
    """Assert one dtype, one shape and the same values: NaN is NaN and -0.0 is 0.0, nothing else is forgiven."""
    assert isinstance(got, np.ndarray), f"got {type(got)}, no array: {context}"
    assert got.dtype == expected.dtype, f"got dtype {got.dtype}, expected {expected.dtype}: {context}"
    assert got.shape == expected.shape, f"got shape {got.shape}, expected {expected.shape}: {context}"
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    differing = [tuple(map(int, position)) for position in np.argwhere(~same)]
    lines = [f"\n  at {at}: got {got[at]!r}, expected {expected[at]!r}" for at in differing[:10]]
    assert not differing, f"{len(differing)} of {expected.size} values differ: {context}{''.join(lines)}"
