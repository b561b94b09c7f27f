"""max_pool's door: what it takes as X, and what it never does to it."""

from collections.abc import Callable
import re
from typing import Any

import numpy as np
from oracle import assert_same, max_pool_oracle
import pytest

import maxpool_ort as mp

DTYPES = ["float16", "float32", "float64", "int8", "uint8"]
BASE = np.random.default_rng(0).integers(0, 100, (4, 6, 10, 12))

# (id, view of a larger array)
VIEWS: list[tuple[str, Callable[[np.ndarray], np.ndarray]]] = [
    ("transposed", lambda x: x.transpose(1, 0, 3, 2)),
    ("channels last", lambda x: x.transpose(0, 3, 1, 2)),
    ("strided", lambda x: x[::2, 1:5, ::3, ::-1]),
    ("backwards", lambda x: x[::-1, ::-1, ::-1, ::-1]),
    ("broadcast", lambda x: np.broadcast_to(x[:1], (3, *x.shape[1:]))),
    ("broadcast along a spatial axis", lambda x: np.broadcast_to(x[..., :1], x.shape)),
    ("column-major", np.asfortranarray),
    ("unaligned", lambda x: np.frombuffer(b"-" + x.tobytes(), x.dtype, offset=1).reshape(x.shape)),
]

# (id, attributes)
POOLS: list[tuple[str, dict[str, Any]]] = [
    ("usual", {"kernel_shape": [2, 3], "strides": [1, 2], "pads": [1, 0, 0, 1]}),
    ("copy", {"kernel_shape": [1, 1]}),
    ("copy along one axis", {"kernel_shape": [1, 2], "storage_order": 1}),
    ("padding only", {"kernel_shape": [1, 1], "strides": [12, 12], "pads": [12, 12, 12, 12], "ceil_mode": 1}),
]


@pytest.mark.parametrize("attributes", [row[1] for row in POOLS], ids=[row[0] for row in POOLS])
@pytest.mark.parametrize("view", [row[1] for row in VIEWS], ids=[row[0] for row in VIEWS])
@pytest.mark.parametrize("dtype", DTYPES)
def test_views(view: Callable[[np.ndarray], np.ndarray], dtype: str, attributes: dict[str, Any]) -> None:
    """Arrays of any memory layout, read-only too, give what a contiguous copy gives, and are not written to."""
    x = view(BASE.astype(dtype))
    copy = np.array(x, order="C")
    x.flags.writeable = False
    y, indices = mp.max_pool(x, **attributes, return_indices=True)
    expected_y, expected_indices = mp.max_pool(copy, **attributes, return_indices=True)
    assert_same(y, expected_y)
    assert_same(indices, expected_indices)
    assert_same(mp.max_pool(x, **attributes), expected_y)
    np.testing.assert_array_equal(x, copy)


@pytest.mark.parametrize("view", [row[1] for row in VIEWS], ids=[row[0] for row in VIEWS])
def test_views_against_the_oracle(view: Callable[[np.ndarray], np.ndarray]) -> None:
    """Arrays of any memory layout give what the oracle gives."""
    x = view(BASE.astype("float32"))
    y, indices = mp.max_pool(x, **POOLS[0][1], return_indices=True)
    expected_y, expected_indices = max_pool_oracle(x, **POOLS[0][1])
    assert_same(y, expected_y)
    assert_same(indices, expected_indices)


@pytest.mark.parametrize("attributes", [row[1] for row in POOLS], ids=[row[0] for row in POOLS])
@pytest.mark.parametrize("dtype", DTYPES)
def test_outputs_own_their_memory(dtype: str, attributes: dict[str, Any]) -> None:
    """Y and Indices are plain arrays, C-contiguous, writeable, of the right dtype, and no view of X or of each other."""
    x = BASE.astype(dtype)
    alone = mp.max_pool(x, **attributes)
    y, indices = mp.max_pool(x, **attributes, return_indices=True)
    assert [type(array) for array in (alone, y, indices)] == [np.ndarray] * 3
    assert [array.dtype for array in (alone, y, indices)] == [x.dtype, x.dtype, np.int64]
    for array in (alone, y, indices):
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.flags.owndata
        assert not any(np.shares_memory(array, other) for other in (x, alone, y, indices) if other is not array)


def test_results_stay_when_x_changes() -> None:
    """What was returned does not change with X, nor with a later call of the same geometry."""
    x = BASE.astype("float32")
    first = mp.max_pool(x, [1, 1], return_indices=True)
    copies = [array.copy() for array in first]
    x[:] = 7
    mp.max_pool(x, [1, 1], return_indices=True)[1][:] = 9
    assert_same(first[0], copies[0])
    assert_same(first[1], copies[1])


class Subclass(np.ndarray):
    """An array of another type."""


# (id, what NumPy makes a float array of)
ARRAY_LIKE: list[tuple[str, Any]] = [
    ("list", [[[1.0, 3.0, 2.0]]]),
    ("tuple", (((1.0, 3, 2),),)),
    ("list of arrays", [[np.array([1.0, 3.0, 2.0])]]),
    ("subclass", np.array([[[1.0, 3.0, 2.0]]]).view(Subclass)),
    ("memoryview", memoryview(np.array([[[1.0, 3.0, 2.0]]]))),
]


@pytest.mark.parametrize("x", [row[1] for row in ARRAY_LIKE], ids=[row[0] for row in ARRAY_LIKE])
def test_takes_what_numpy_makes_an_array_of(x: Any) -> None:
    """Lists and the like are taken if their dtype is, and give plain arrays of float64, as in NumPy."""
    y = mp.max_pool(x, [2])
    assert type(y) is np.ndarray
    assert_same(y, np.array([[[3.0, 3.0]]]))


# (id, X, how its dtype is shown)
OTHER_DTYPES: list[tuple[str, Any, str]] = [
    ("int16", np.zeros((1, 1, 4), np.int16), "int16"),
    ("uint16", np.zeros((1, 1, 4), np.uint16), "uint16"),
    ("bool", np.zeros((1, 1, 4), bool), "bool"),
    ("complex", np.zeros((1, 1, 4), np.complex64), "complex64"),
    ("object", np.zeros((1, 1, 4), object), "object"),
    ("text", np.zeros((1, 1, 4), "U1"), "<U1"),
    ("fields", np.zeros((1, 1, 4), [("a", "f4")]), "[('a', '<f4')]"),
    ("list of integers", [[[1, 2, 3]]], "int64"),
    ("foreign byte order, float32", np.zeros((1, 1, 4), ">f4"), ">f4"),
    ("foreign byte order, float16", np.zeros((1, 1, 4), ">f2"), ">f2"),
    ("foreign byte order, float64", np.zeros((1, 1, 4), ">f8"), ">f8"),
    ("before the rank", np.zeros(4, np.int32), "int32"),
]


@pytest.mark.parametrize(("x", "shown"), [row[1:] for row in OTHER_DTYPES], ids=[row[0] for row in OTHER_DTYPES])
def test_other_dtypes(x: Any, shown: str) -> None:
    """Other dtypes, also of foreign byte order, are named beside those that run; a TypeError and a ValueError."""
    text = f"X must have one of the dtypes float16, float32, float64, int8, uint8, got {shown}"
    with pytest.raises(mp.UnsupportedTypeError, match=f"^{re.escape(text)}$") as caught:
        mp.max_pool(x, [2])
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_one_byte_has_no_byte_order(dtype: str) -> None:
    """A byte order on a dtype of one byte says nothing and is taken."""
    assert mp.max_pool(np.zeros((1, 1, 4), np.dtype(dtype).newbyteorder()), [2]).dtype == dtype


# (id, X, text after the rank that is expected)
RANKS: list[tuple[str, Any, str]] = [
    ("0", np.float32(1), "got rank 0: shape ()"),
    ("1", np.zeros(3), "got rank 1: shape (3,)"),
    ("2", np.zeros((1, 3)), "got rank 2: shape (1, 3)"),
    ("4", np.zeros((4, 6, 10, 12)), "got rank 4: shape (4, 6, 10, 12)"),
    ("empty", np.zeros((0, 0)), "got rank 2: shape (0, 0)"),
]


@pytest.mark.parametrize(("x", "got"), [row[1:] for row in RANKS], ids=[row[0] for row in RANKS])
def test_ranks(x: Any, got: str) -> None:
    """A rank that does not go with kernel_shape is refused with both."""
    text = f"X must have rank 3 (N, C and one axis for each entry of kernel_shape (2,)), {got}"
    with pytest.raises(mp.InvalidShapeError, match=f"^{re.escape(text)}$"):
        mp.max_pool(x, [2])


def test_what_does_not_fit() -> None:
    """Attributes are refused before shapes, with the texts that MaxPoolAttributes gives."""
    x = np.zeros((1, 1, 2), np.float32)
    with pytest.raises(mp.InvalidAttributeError, match=r"^strides must have entries from 1 to 2\*\*60, got \(0,\)$"):
        mp.max_pool(x, [9], strides=[0])
    text = (
        "output size of spatial axis D1 must be >= 0, got -6: input 2 + pads 0 and 0 is too small for the effective "
        "kernel extent 9 (kernel 9, dilation 1) at stride 1; use a smaller kernel or dilation, or larger pads"
    )
    with pytest.raises(mp.InvalidShapeError, match=f"^{re.escape(text)}$"):
        mp.max_pool(x, [9])
