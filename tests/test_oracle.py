"""The oracle against public reports, tables worked out by hand, and the operator's page."""

from math import ceil, floor, inf, nan

from hypothesis import given, settings
import numpy as np
from oracle import Axis, assert_same, max_pool_oracle, output_size
import pytest
from regression import RegressionCase, regression_cases
from strategies import Case, cases

F32, F64 = np.float32, np.float64

# (id, axis, auto_pad, ceil_mode, expected output size); Axis is size, kernel, stride, dilation, begin, end
OUTPUT_SIZES = [
    # NOTSET, floor: floor((L+b+e-K)/s) + 1
    ("floor exact", Axis(6, 2, 2), "NOTSET", 0, 3),
    ("floor rounds", Axis(7, 2, 2), "NOTSET", 0, 3),
    ("floor, empty auto_pad is NOTSET", Axis(7, 2, 2), "", 0, 3),
    ("floor, all numbers", Axis(10, 3, 2, 3, 1, 2), "NOTSET", 0, 4),
    ("floor of a negative quotient, no truncation", Axis(4, 3, 2, 2), "NOTSET", 0, 0),
    ("floor, stride beyond the kernel", Axis(10, 1, 4), "NOTSET", 0, 3),
    ("floor, empty input", Axis(0, 1, 1), "NOTSET", 0, 0),
    ("floor, empty input, only padding", Axis(0, 2, 1, 1, 1, 2), "NOTSET", 0, 2),
    # NOTSET, ceil: one more, minus one (once) where the last window would start at or after L+b
    ("ceil exact", Axis(6, 2, 2), "NOTSET", 1, 3),
    ("ceil rounds", Axis(7, 2, 2), "NOTSET", 1, 4),
    ("ceil, last window starts at L", Axis(12, 1, 2), "NOTSET", 1, 6),
    ("ceil, last window starts just before L+b", Axis(5, 2, 2, 1, 0, 0), "NOTSET", 1, 3),
    ("ceil, last window starts at L+b", Axis(5, 2, 2, 1, 1, 1), "NOTSET", 1, 3),
    ("ceil, pads of 9x9 (pytorch 116420)", Axis(9, 4, 4, 1, 2, 2), "NOTSET", 1, 3),
    ("ceil, minus one only once", Axis(2, 1, 1, 1, 0, 3), "NOTSET", 1, 4),
    ("ceil of a negative quotient", Axis(2, 3, 4, 3, 1, 1), "NOTSET", 1, 1),
    ("ceil, no room", Axis(4, 5, 1), "NOTSET", 1, 0),
    ("ceil, legal where floor is not", Axis(2, 3, 3, 3), "NOTSET", 1, 0),
    # VALID: ceil((L-K+1)/s) under either ceil_mode
    ("valid, floor", Axis(5, 2, 2), "VALID", 0, 2),
    ("valid, ceil", Axis(5, 2, 2), "VALID", 1, 2),
    ("valid, dilated", Axis(9, 3, 2, 3), "VALID", 0, 2),
    ("valid, no room", Axis(3, 3, 2, 2), "VALID", 0, 0),
    # SAME: ceil(L/s) under either ceil_mode, however long the window
    ("same upper", Axis(5, 3, 2), "SAME_UPPER", 0, 3),
    ("same upper, ceil", Axis(5, 3, 2), "SAME_UPPER", 1, 3),
    ("same lower", Axis(5, 2, 2), "SAME_LOWER", 0, 3),
    ("same lower, window longer than the input", Axis(2, 5, 1, 4), "SAME_LOWER", 0, 2),
    ("same, empty input", Axis(0, 3, 2), "SAME_UPPER", 0, 0),
]

# (id, axis, auto_pad, ceil_mode, the size in the message)
NEGATIVE_SIZES = [
    ("floor", Axis(1, 5, 2), "NOTSET", 0, -1),
    ("floor of a true quotient", Axis(2, 5, 2), "NOTSET", 0, -1),
    ("ceil", Axis(1, 5, 2), "NOTSET", 1, -1),
    ("valid", Axis(1, 5, 2), "VALID", 0, -1),
    ("valid, ceil", Axis(3, 3, 1, 4), "VALID", 1, -5),
]


def ramp(*shape: int, dtype: type[np.generic] = F32) -> np.ndarray:
    """Return 0, 1, 2, ...: values that are their own row-major indices."""
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


# twenty rows of seven, each with taps at o-3, o, o+3
DILATED_ROWS = np.reshape([[7 * row + w for w in (3, 4, 5, 6, 4, 5, 6)] for row in range(20)], (2, 2, 5, 7))

# (id, X, attributes, Y, Indices): semantics.md, "Known disagreements", what we give
KNOWN_DISAGREEMENTS = [
    (
        "ORT float32 loses NaN",
        np.array([[[nan, 1, 2, nan, nan, nan, 3, 1]]], F32),
        {"kernel_shape": (2,), "strides": (2,)},
        [[[nan, nan, nan, 3]]],
        [[[0, 3, 4, 6]]],
    ),
    (
        "ORT float32 raises -inf to the lowest finite",
        np.full((1, 1, 4), -inf, F32),
        {"kernel_shape": (3,), "pads": (1, 1)},
        [[[-inf, -inf, -inf, -inf]]],
        [[[0, 0, 1, 2]]],
    ),
    (
        "ORT forgets the dilation in SAME_LOWER",
        ramp(2, 2, 5, 7),
        {"kernel_shape": (1, 3), "dilations": (1, 3), "auto_pad": "SAME_LOWER"},
        DILATED_ROWS,
        DILATED_ROWS,
    ),
    (
        "ORT forgets the dilation in SAME_UPPER",
        ramp(1, 1, 5),
        {"kernel_shape": (3,), "dilations": (2,), "auto_pad": "SAME_UPPER"},
        [[[2, 3, 4, 3, 4]]],
        [[[2, 3, 4, 3, 4]]],
    ),
    (
        "ORT counts one more under VALID with ceil_mode",
        ramp(1, 1, 5),
        {"kernel_shape": (2,), "strides": (2,), "auto_pad": "VALID", "ceil_mode": 1},
        [[[1, 3]]],
        [[[1, 3]]],
    ),
    (
        "ORT truncates where the page floors",
        ramp(1, 1, 4),
        {"kernel_shape": (3,), "dilations": (2,), "strides": (2,)},
        [[[]]],
        [[[]]],
    ),
    (
        "ORT refuses pads of the kernel's size",
        ramp(1, 1, 5),
        {"kernel_shape": (2,), "dilations": (4,), "pads": (2, 2)},
        [[[2, 3, 4, 1, 2]]],
        [[[2, 3, 4, 1, 2]]],
    ),
    (
        "ORT has no fourth spatial axis",
        ramp(1, 2, 2, 1, 2, 3),
        {"kernel_shape": (2, 1, 2, 2)},
        [[[[[[10, 11]]]], [[[[22, 23]]]]]],
        [[[[[[10, 11]]]], [[[[22, 23]]]]]],
    ),
    (
        "ORT lets SAME_UPPER pad by less than nothing",
        ramp(1, 1, 6),
        {"kernel_shape": (1,), "strides": (3,), "auto_pad": "SAME_UPPER"},
        [[[0, 3]]],
        [[[0, 3]]],
    ),
    (
        "ORT indexes windows of padding only",
        ramp(1, 1, 4, 2, dtype=F64),
        {
            "kernel_shape": (4, 3),
            "strides": (3, 4),
            "dilations": (1, 3),
            "pads": (0, 1, 1, 1),
            "ceil_mode": 1,
        },
        [[[[-inf], [-inf]]]],
        [[[[-1], [-1]]]],
    ),
    (
        "onnx.reference makes SAME_LOWER smaller",
        ramp(1, 1, 5, 5),
        {"kernel_shape": (2, 2), "strides": (2, 2), "auto_pad": "SAME_LOWER"},
        [[[[0, 2, 4], [10, 12, 14], [20, 22, 24]]]],
        [[[[0, 2, 4], [10, 12, 14], [20, 22, 24]]]],
    ),
    (
        "onnx.reference counts Indices within a plane",
        ramp(2, 2, 2, 2),
        {"kernel_shape": (2, 2)},
        [[[[3]], [[7]]], [[[11]], [[15]]]],
        [[[[3]], [[7]]], [[[11]], [[15]]]],
    ),
    (
        "onnx infers one output too many under ceil_mode",
        ramp(1, 1, 12, 12),
        {"kernel_shape": (1, 1), "strides": (2, 2), "ceil_mode": 1},
        [[[[12 * h + w for w in range(0, 12, 2)] for h in range(0, 12, 2)]]],
        [[[[12 * h + w for w in range(0, 12, 2)] for h in range(0, 12, 2)]]],
    ),
]

# (id, X, attributes, Y, Indices): what else semantics.md says of values and indices
VALUES_AND_INDICES = [
    # ties, NaN and the lowest values; row-major order of the window decides under either storage_order
    (
        "first of equals, row-major",
        np.array([[[[1, 2], [2, 1]]]], F32),
        {"kernel_shape": (2, 2)},
        [[[[2]]]],
        [[[[1]]]],
    ),
    (
        "first of equals, column-major",
        np.array([[[[1, 2], [2, 1]]]], F32),
        {"kernel_shape": (2, 2), "storage_order": 1},
        [[[[2]]]],
        [[[[2]]]],
    ),
    (
        "first NaN, before and after inf",
        np.array([[[inf, nan, 1, nan, inf]]], np.float16),
        {"kernel_shape": (3,)},
        [[[nan, nan, nan]]],
        [[[1, 1, 3]]],
    ),
    (
        "zeros are equal",
        np.array([[[-0.0, 0.0, -0.0]]], F64),
        {"kernel_shape": (2,)},
        [[[0, 0]]],
        [[[0, 1]]],
    ),
    (
        "a lowest element beats padding",
        np.array([[[-inf, 7]]], F32),
        {"kernel_shape": (1,), "pads": (1, 1)},
        [[[-inf, -inf, 7, -inf]]],
        [[[-1, 0, 1, -1]]],
    ),
    (
        "int8, negative and padded",
        np.array([[[-128, -5, -3]]], np.int8),
        {"kernel_shape": (2,), "pads": (2, 0)},
        [[[-128, -128, -5, -3]]],
        [[[-1, 0, 1, 2]]],
    ),
    (
        "uint8 beyond 127",
        np.array([[[0, 200, 100]]], np.uint8),
        {"kernel_shape": (2,), "pads": (0, 2)},
        [[[200, 200, 100, 0]]],
        [[[1, 1, 2, -1]]],
    ),
    (
        "float64 that float32 cannot tell apart",
        np.array([[[1, 1 + 2**-52]]], F64),
        {"kernel_shape": (2,)},
        [[[1 + 2**-52]]],
        [[[1]]],
    ),
    # column-major turns the spatial axes around, N and C stay
    (
        "column-major, N and C of two, non-square",
        ramp(2, 2, 2, 3),
        {"kernel_shape": (1, 2), "storage_order": 1},
        [[[[1, 2], [4, 5]], [[7, 8], [10, 11]]], [[[13, 14], [16, 17]], [[19, 20], [22, 23]]]],
        [[[[2, 4], [3, 5]], [[8, 10], [9, 11]]], [[[14, 16], [15, 17]], [[20, 22], [21, 23]]]],
    ),
    (
        "column-major, one axis is row-major",
        ramp(1, 2, 3),
        {"kernel_shape": (2,), "storage_order": 1},
        [[[1, 2], [4, 5]]],
        [[[1, 2], [4, 5]]],
    ),
    # pads: all begins first, then all ends
    (
        "asymmetric pads, non-square",
        ramp(1, 1, 2, 3),
        {"kernel_shape": (2, 2), "pads": (1, 0, 0, 2)},
        [[[[1, 2, 2, -inf], [4, 5, 5, -inf]]]],
        [[[[1, 2, 2, -1], [4, 5, 5, -1]]]],
    ),
    (
        "odd total pad, extra one at the end",
        ramp(1, 1, 3),
        {"kernel_shape": (2,), "auto_pad": "SAME_UPPER"},
        [[[1, 2, 2]]],
        [[[1, 2, 2]]],
    ),
    (
        "odd total pad, extra one at the beginning",
        ramp(1, 1, 3),
        {"kernel_shape": (2,), "auto_pad": "SAME_LOWER", "pads": (0, 0)},
        [[[0, 1, 2]]],
        [[[0, 1, 2]]],
    ),
    # empty outputs
    ("N = 0", np.zeros((0, 2, 3), F32), {"kernel_shape": (2,)}, np.zeros((0, 2, 2)), np.zeros((0, 2, 2))),
    ("C = 0", np.zeros((2, 0, 3), F32), {"kernel_shape": (2,)}, np.zeros((2, 0, 2)), np.zeros((2, 0, 2))),
    ("no window", ramp(1, 1, 2, 3), {"kernel_shape": (3, 1)}, np.zeros((1, 1, 0, 3)), np.zeros((1, 1, 0, 3))),
]

# (id, got, expected, what the message says)
DIFFERENCES = [
    ("value", ramp(1, 3), np.array([[0, 1, 3]], F32), r"1 of 3 .* here\n  at \(0, 2\): got .*2\.0.*, expected .*3\.0"),
    ("NaN", np.array([nan], F32), np.array([0], F32), r"got .*nan.*, expected .*0\.0"),
    ("infinity", np.array([inf], F32), np.array([-inf], F32), r"got .*inf.*, expected .*-inf"),
    ("dtype", ramp(3), ramp(3, dtype=F64), "got dtype float32, expected float64: here"),
    ("shape", ramp(1, 3), ramp(3, 1), r"got shape \(1, 3\), expected \(3, 1\): here"),
    ("broadcast", ramp(1), np.zeros(3, F32), r"got shape \(1,\), expected \(3,\): here"),
    ("list", [0.0], np.zeros(1, F32), "no array: here"),
]


@pytest.mark.parametrize("row", [pytest.param(row, id=row[0]) for row in OUTPUT_SIZES])
def test_output_size(row: tuple[str, Axis, str, int, int]) -> None:
    """Count windows with floors and ceilings of true quotients."""
    _, axis, auto_pad, ceil_mode, expected = row
    assert output_size(axis, auto_pad, ceil_mode) == expected


@pytest.mark.parametrize("row", [pytest.param(row, id=row[0]) for row in NEGATIVE_SIZES])
def test_negative_output_size(row: tuple[str, Axis, str, int, int]) -> None:
    """Refuse a size below zero, and say all its numbers."""
    _, axis, auto_pad, ceil_mode, size = row
    with pytest.raises(ValueError, match=rf"negative output size {size}: Axis\(size={axis.size}, .*'{auto_pad}'"):
        output_size(axis, auto_pad, ceil_mode)


def test_unknown_auto_pad() -> None:
    """Refuse a spelling that the page does not know."""
    with pytest.raises(ValueError, match="unknown auto_pad 'SAME'"):
        output_size(Axis(5, 2), "SAME")


@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("kernel", [1, 2, 3])
def test_output_size_is_the_same_in_both_wordings_of_the_page(kernel: int, stride: int, dilation: int) -> None:
    """Agree with the page's floor wording of VALID and SAME as well as with its ceil wording."""
    for size in range(kernel * dilation, 20):
        axis = Axis(size, kernel, stride, dilation)
        valid, same = output_size(axis, "VALID"), output_size(axis, "SAME_UPPER")
        assert valid == floor((size - ((kernel - 1) * dilation + 1)) / stride) + 1
        assert valid == ceil((size - ((kernel - 1) * dilation + 1) + 1) / stride)
        assert same == floor((size - 1) / stride) + 1
        assert same == ceil(size / stride)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in regression_cases()])
def test_regression_case(case: RegressionCase) -> None:
    """Give the right answer to each public report."""
    y, indices = max_pool_oracle(case.x, **case.attributes)
    assert_same(y, case.y, case.source)
    assert_same(indices, case.indices, case.source)


@pytest.mark.parametrize("row", [pytest.param(row, id=row[0]) for row in KNOWN_DISAGREEMENTS + VALUES_AND_INDICES])
def test_hand_computed(row: tuple[str, np.ndarray, dict, list, list]) -> None:
    """Give what semantics.md gives, worked out by hand."""
    name, x, attributes, expected_y, expected_indices = row
    y, indices = max_pool_oracle(x, **attributes)
    assert_same(y, np.array(expected_y, x.dtype), name)
    assert_same(indices, np.array(expected_indices, np.int64), name)


@settings(deadline=None)
@given(cases())
def test_drawn_case(case: Case) -> None:
    """Point at the element that Y holds, in every case that the strategies draw."""
    y, indices = max_pool_oracle(case.x, **(case.attributes | {"storage_order": 0}))
    found = indices >= 0
    assert_same(case.x.ravel()[indices[found]], y[found], case)
    assert_same(y, max_pool_oracle(case.x, **case.attributes)[0], case)


@pytest.mark.parametrize("row", [pytest.param(row, id=row[0]) for row in DIFFERENCES])
def test_assert_same_notices(row: tuple[str, np.ndarray, np.ndarray, str]) -> None:
    """Fail, and name positions and values, when two arrays differ in anything that counts."""
    _, got, expected, message = row
    with pytest.raises(AssertionError, match=message):
        assert_same(got, expected, "here")


def test_assert_same_forgives() -> None:
    """Take any NaN for any NaN and a zero of either sign for zero."""
    other_nan = np.array([0x7FC00001], np.uint32).view(F32)[0]
    assert_same(np.array([other_nan, -0.0], F32), np.array([nan, 0.0], F32))
