"""Memory of large outputs: what is kept from run to run, what is not, and that nobody sees another's."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
import tracemalloc

import numpy as np
from numpy.typing import DTypeLike
from oracle import assert_same
import pytest

import maxpool_ort as mp
from maxpool_ort import outputs

MIB = 1024 * 1024


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    """A test begins with no memory, and leaves none."""
    outputs._kept.clear()  # noqa: SLF001
    yield
    outputs._kept.clear()  # noqa: SLF001


def addresses(*sizes: int, dtype: DTypeLike = np.uint8) -> list[int]:
    """Where the outputs of one run were, of so many elements: Y, and Indices if there are two."""
    empty = outputs.allocator(with_indices=len(sizes) == 2)
    arrays = [empty((size,), dtype) for size in sizes]
    return [array.ctypes.data for array in arrays]


def kept() -> list[int]:
    """Bytes."""
    return [outputs._kept[number].array.size for number in sorted(outputs._kept)]  # noqa: SLF001


def test_the_next_run_gets_it_again() -> None:
    """Also if it needs a little less; two outputs never have the same."""
    first = addresses(3 * MIB, 2 * MIB)
    assert kept() == [3 * MIB, 2 * MIB]
    assert addresses(3 * MIB, 2 * MIB) == first
    assert addresses(2 * MIB, MIB) == first
    assert kept() == [3 * MIB, 2 * MIB]
    assert addresses(3 * MIB // 8, 2 * MIB // 8, dtype=np.float64) == first


# (id, bytes of an output, bytes that are kept after it, and where 2 MiB were kept before)
BOUNDS = [
    ("small", MIB - 1, 0, 0),
    ("at the least", MIB, MIB, 2 * MIB),
    ("larger", 3 * MIB, 3 * MIB, 3 * MIB),
    ("at the most", 32 * MIB, 32 * MIB, 32 * MIB),
    ("too large", 32 * MIB + 1, 0, 0),
]


@pytest.mark.parametrize(("size", "first", "later"), [row[1:] for row in BOUNDS], ids=[row[0] for row in BOUNDS])
def test_bounds(size: int, first: int, later: int) -> None:
    """What is too small for it, or too large, gives it up."""
    addresses(size)
    assert sum(kept()) == first
    outputs._kept.clear()  # noqa: SLF001
    addresses(2 * MIB)
    addresses(size)
    assert sum(kept()) == later


def test_none_lies_idle_beside_a_run() -> None:
    """What does not fit is given up before the run has outputs of its own; what it does not need, before it begins."""
    addresses(32 * MIB, 32 * MIB)
    tracemalloc.start()
    try:
        for sizes in ([30 * MIB], [4 * MIB, 30 * MIB], [4 * MIB], [2 * MIB], [1000]):
            addresses(32 * MIB, 32 * MIB)
            tracemalloc.reset_peak()
            empty = outputs.allocator(with_indices=len(sizes) == 2)
            arrays = [empty((size,), np.uint8) for size in sizes]
            assert tracemalloc.get_traced_memory()[0] < sum(sizes) + 2 * MIB
            del arrays
            assert sum(kept()) <= sum(sizes)
    finally:
        tracemalloc.stop()


def test_not_while_it_is_in_use() -> None:
    """An array, or any view of it, keeps its memory from all others, and has what was put in."""
    empty = outputs.allocator(with_indices=False)
    y = empty((2, MIB), np.float32)
    y[...] = 7
    view = y.view(np.uint32)[1, 3:].reshape(-1, 1)
    del y
    assert not kept()
    addresses(8 * MIB)
    outputs.allocator(with_indices=False)((8 * MIB,), np.uint8)[...] = 0
    assert (view.view(np.float32) == 7).all()
    del view
    assert kept() == [8 * MIB]


@pytest.mark.parametrize("with_indices", [False, True])
def test_steady_state_of_a_session(*, with_indices: bool) -> None:
    """From the second run on, all that is allocated is PyOp's copy of X and, when that is gone, what the run returns."""
    shape = (1, 32, 256, 256)
    session = mp.InferenceSession(
        mp.make_maxpool_model(kernel_shape=[2, 2], strides=[2, 2], input_shape=shape, with_indices=with_indices)
    )
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    before = mp.get_num_threads()
    mp.set_num_threads(1)  # a helper may have nothing to do in the first run, and make its buffers in the second
    try:
        first = session.run(None, {"X": x})
        tracemalloc.start()
        second = session.run(None, {"X": x})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        mp.set_num_threads(before)
    results = sum(each.nbytes for each in second)
    assert peak <= max(x.nbytes, results) + MIB // 4
    for one, other in zip(first, second, strict=True):
        assert_same(one, other)


def test_runs_at_the_same_time() -> None:
    """Threads that share a session, each with an X of its own, never see one another's outputs."""
    shape = (1, 16, 256, 256)
    model = mp.make_maxpool_model(kernel_shape=[2, 2], strides=[2, 2], input_shape=shape, with_indices=True)
    session = mp.InferenceSession(model)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(np.float32) for _ in range(4)]
    expected = [mp.max_pool(x, [2, 2], strides=[2, 2], return_indices=True) for x in inputs]

    def work(number: int) -> None:
        for _ in range(10):
            for got, right in zip(session.run(None, {"X": inputs[number]}), expected[number], strict=True):
                assert_same(got, right)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
