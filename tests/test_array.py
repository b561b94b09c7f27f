"""max_pool's door: what it takes as X, and what it never does to it."""

from collections.abc import Callable
from typing import Any

import numpy as np
from oracle import assert_same, max_pool_oracle
import pytest

import maxpool_ort as mp

BASE = np.random.default_rng(0).integers(-50, 50, (4, 6, 10, 12)).astype(np.float32)

# (id, view of a larger array)
VIEWS: list[tuple[str, Callable[[np.ndarray], np.ndarray]]] = [
    ("transposed", lambda x: x.transpose(1, 0, 3, 2)),
    ("strided", lambda x: x[::2, 1:5, ::3, ::-1]),
    ("broadcast", lambda x: np.broadcast_to(x[:1], (3, *x.shape[1:]))),
    ("column-major", np.asfortranarray),
]


@pytest.mark.parametrize("view", [row[1] for row in VIEWS], ids=[row[0] for row in VIEWS])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_views(view: Callable[[np.ndarray], np.ndarray], dtype: str) -> None:
    """Arrays of any memory layout, read-only too, give what the oracle gives, and are not written to."""
    x = view(BASE.astype(dtype))
    x.flags.writeable = False
    before = x.copy()
    attributes = {"kernel_shape": [2, 3], "strides": [1, 2], "pads": [1, 0, 0, 1]}
    y, indices = mp.max_pool(x, **attributes, return_indices=True)
    expected = max_pool_oracle(x, **attributes)
    assert_same(y, expected[0])
    assert_same(indices, expected[1])
    np.testing.assert_array_equal(x, before)
    assert y.flags.c_contiguous
    assert indices.flags.c_contiguous


def test_outputs_own_their_memory() -> None:
    """Even where Y equals X it is no view of it."""
    y = mp.max_pool(BASE, [1, 1])
    np.testing.assert_array_equal(y, BASE)
    assert not np.shares_memory(y, BASE)


def test_takes_nested_lists() -> None:
    """What NumPy makes an array of is fine, if its dtype is."""
    assert mp.max_pool([[[1.0, 3.0, 2.0]]], [2]).tolist() == [[[3.0, 3.0]]]


@pytest.mark.parametrize("dtype", ["int16", "int64", "bool", "complex64", "object", ">f4", "U1"])
def test_other_dtypes(dtype: str) -> None:
    """Other dtypes, also of foreign byte order, are named beside those that run; a TypeError too."""
    with pytest.raises(
        TypeError, match=r"X must have one of the dtypes float16, float32, float64, int8, uint8, got "
    ) as caught:
        mp.max_pool(np.zeros((1, 1, 4), dtype), [2])
    assert isinstance(caught.value, mp.UnsupportedTypeError)


@pytest.mark.parametrize(("x", "rank"), [(np.float32(1), 0), (np.zeros(3), 1), (np.zeros((1, 3)), 2), (BASE, 4)])
def test_ranks(x: Any, rank: int) -> None:
    """A rank that does not go with kernel_shape is refused with both."""
    with pytest.raises(mp.InvalidShapeError, match=f"X must have rank 3 .*got rank {rank}: "):
        mp.max_pool(x, [2])
