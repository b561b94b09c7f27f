"""The kernel's fast paths: against the slow ones, on both sides of every switch-over, and what they keep and take."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from math import prod
import os
import threading
import time
import tracemalloc

from hypothesis import example, given, settings
from hypothesis import strategies as st
import numpy as np
from oracle import assert_same, max_pool_oracle
import pytest
from strategies import Case, cases
from subprocesses import run_python

import maxpool_ort as mp
from maxpool_ort import kernel
from maxpool_ort.geometry import Axis
from maxpool_ort.kernel import gather, passes, plan, program, taps, threads, workspace
from maxpool_ort.kernel.positions import grid
from maxpool_ort.kernel.trial import Trial


def forget_plans() -> None:
    """Clear what was made for sizes of pieces that hold no longer."""
    for cached in (kernel.pooling, plan.make_plan, plan._work):  # noqa: SLF001
        cached.cache_clear()


class AlwaysSeveral(Trial):
    """Threads wherever there may be some: what they give must not hang on how fast they are."""

    def took(self, seconds: float, *, several: bool) -> None:
        """Change nothing."""


@pytest.fixture(autouse=True)
def no_cached_plans(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test that changes how pieces are cut sees plans of its own, and leaves none; it takes threads and passes where it can."""
    monkeypatch.setattr(kernel, "Trial", AlwaysSeveral)
    monkeypatch.setattr(gather, "MOST_TAPS", 0)
    monkeypatch.setattr(threads, "_chosen", 1)  # where a test does not say how many
    forget_plans()
    yield
    forget_plans()


def pool_by_taps(x: np.ndarray, attributes: mp.MaxPoolAttributes) -> tuple[np.ndarray, np.ndarray]:
    """The slow twin: X in one piece, tap after tap, row-major Indices; no float16, no windows without a tap."""
    axes = attributes.geometry(x.shape).axes
    planes = x.reshape(-1, *x.shape[2:])
    index = grid([np.arange(size) for size in planes.shape], [*(s // x.itemsize for s in planes.strides)])
    shape = attributes.output_shape(x.shape)
    y, indices = taps.maxima_and_positions(planes, index, axes)
    assert_same(taps.maxima(planes, axes), y)
    return y.reshape(shape), indices.reshape(shape)


def uses_passes(x: np.ndarray, attributes: mp.MaxPoolAttributes) -> bool:
    """Whether no piece goes tap by tap."""
    made = plan.make_plan(attributes.geometry(x.shape), 1, x.itemsize, 1, with_indices=False)
    return all(piece.work.layout is not None for piece in made.pieces)


# (id, shape of X, attributes): each of two blocks and more, or of several pieces a plane
LARGE = [
    ("many planes", (3, 70, 61, 57), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("even rows", (2, 64, 64, 62), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("cut along rows' axis", (1, 2, 900, 901), {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}),
    ("cut along both axes", (1, 1, 40, 40000), {"kernel_shape": [13, 13], "pads": [6, 6, 6, 6]}),
    ("cut, large windows", (1, 1, 1100, 1000), {"kernel_shape": [128, 100], "strides": [3, 1], "pads": [64, 10, 64, 89]}),
    ("cut, dilated", (1, 2, 800, 799), {"kernel_shape": [3, 4], "dilations": [7, 5], "strides": [1, 2]}),
    ("one axis, long", (2, 1, 700001), {"kernel_shape": [5], "strides": [2], "pads": [2, 2]}),
    ("three axes", (1, 3, 60, 71, 83), {"kernel_shape": [2, 3, 4], "strides": [2, 1, 3], "auto_pad": "SAME_LOWER"}),
    ("strides of 4 and 8", (1, 9, 255, 256), {"kernel_shape": [5, 9], "strides": [4, 8], "pads": [2, 4, 2, 4]}),
    ("rows of more than 256 taps", (1, 3, 40, 2000), {"kernel_shape": [2, 300], "strides": [1, 7]}),
    ("wide pads", (1, 3, 60, 70), {"kernel_shape": [25, 40], "pads": [12, 20, 12, 19]}),
    ("dilated, wide pads", (2, 2, 60, 61), {"kernel_shape": [11, 4], "dilations": [2, 9], "pads": [12, 18, 8, 9], "strides": [3, 1]}),
    ("large windows in short rows", (1, 2, 1000, 84), {"kernel_shape": [3, 64]}),
    ("few outputs", (1, 2, 900, 900), {"kernel_shape": [2, 2], "strides": [300, 300]}),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8"])
@pytest.mark.parametrize(("shape", "attributes"), [row[1:] for row in LARGE], ids=[row[0] for row in LARGE])
def test_large(shape: tuple[int, ...], attributes: dict, dtype: str) -> None:
    """Large inputs, cut in pieces on one thread and on two, give what tap after tap gives on the whole."""
    rng = np.random.default_rng(0)
    x = rng.integers(-100 if dtype != "uint8" else 0, 100, shape).astype(dtype)  # many ties
    y, indices = pool_by_taps(x, mp.MaxPoolAttributes(**attributes))
    before = mp.get_num_threads()
    for count in (1, 2):
        mp.set_num_threads(count)
        try:
            got_y, got_indices = mp.max_pool(x, **attributes, return_indices=True)
            assert_same(got_y, y)
            assert_same(got_indices, indices)
            assert_same(mp.max_pool(x, **attributes), y)
        finally:
            mp.set_num_threads(before)


def test_large_covers_both_ways() -> None:
    """The table above has pieces with passes, pieces tap by tap, planes that are cut and planes that go together."""
    kinds = set()
    for _, shape, attributes in LARGE:
        x, read = np.zeros(shape, np.float32), mp.MaxPoolAttributes(**attributes)
        made = plan.make_plan(read.geometry(shape), shape[0] * shape[1], 4, 1, with_indices=True)
        kinds.add((uses_passes(x, read), len(made.pieces) > 1, made.planes > 1))
    assert kinds == {(True, True, False), (True, False, True), (True, False, False), (False, False, False)}


@pytest.mark.parametrize("waste", [0, 10**9], ids=["tap by tap", "passes"])
@settings(max_examples=400)
@given(case=cases())
def test_both_ways(case: Case, waste: int) -> None:
    """Either way gives what the oracle gives, wherever the predicate sends a case otherwise."""
    y, indices = max_pool_oracle(case.x, **case.attributes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "WASTE", waste)
        forget_plans()
        got_y, got_indices = mp.max_pool(case.x, **case.attributes, return_indices=True)
        assert_same(got_y, y, case)
        assert_same(got_indices, indices, case)
        assert_same(mp.max_pool(case.x, **case.attributes), y, case)


@settings(max_examples=600)
@given(case=cases())
def test_tap_by_tap_at_outputs(case: Case) -> None:
    """As where runs of neighbours are long; rows, and what has no stride, go on as elsewhere."""
    y, _ = max_pool_oracle(case.x, **case.attributes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "LONG_RUN", 0)
        patch.setattr(passes, "WASTE", 10**9)
        forget_plans()
        assert_same(mp.max_pool(case.x, **case.attributes), y, case)


@pytest.mark.parametrize(("size", "most_read"), [(1, 10**9), (7, 10**9), (40, 8), (400, 8)])
@settings(max_examples=200)
@given(case=cases())
def test_pieces(case: Case, size: int, most_read: int) -> None:
    """The size of the pieces, down to one output each, and the number of threads change nothing."""
    y, indices = max_pool_oracle(case.x, **case.attributes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "PIECE_SIZE", size)
        patch.setattr(plan, "MOST_READ", most_read)
        patch.setattr(plan, "THREAD_SIZE", 1)
        patch.setattr(kernel, "THREADED_BYTES", 64)
        patch.setattr(threads, "_chosen", 3)
        forget_plans()
        got_y, got_indices = mp.max_pool(case.x, **case.attributes, return_indices=True)
        assert_same(got_y, y, case)
        assert_same(got_indices, indices, case)
        assert_same(mp.max_pool(case.x, **case.attributes), y, case)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize(("shape", "attributes"), [row[1:] for row in LARGE], ids=[row[0] for row in LARGE])
def test_buffers_of_pieces(shape: tuple[int, ...], attributes: dict, dtype: str) -> None:
    """They take what the plan was made for: by that, all threads together keep within its bound."""
    x, geometry = np.zeros(shape, dtype), mp.MaxPoolAttributes(**attributes).geometry(shape)
    for with_indices in (False, True):
        run = partial(mp.max_pool, x, **attributes, return_indices=with_indices)
        with ThreadPoolExecutor(1) as executor:
            space = executor.submit(lambda run=run: (run(), workspace.thread_workspace())[1]).result()
        made = plan.make_plan(geometry, prod(shape[:2]), x.itemsize, 1, with_indices=with_indices)
        size = max(piece.work.size for piece in made.pieces) * min(made.planes, prod(shape[:2]))
        expected = plan._element_bytes(geometry, x.itemsize, with_indices=with_indices) * size  # noqa: SLF001
        assert sum(buffer.nbytes for buffer in space._buffers.values()) <= 1.01 * expected  # noqa: SLF001 (ends of rows)


@pytest.mark.parametrize(("size", "kernel_size"), [(1000, 700), (1000, 725), (1000, 990), (900, 450)])
def test_windows_larger_than_a_piece(size: int, kernel_size: int) -> None:
    """All pieces together read X a few times, not once for each output."""
    attributes = mp.MaxPoolAttributes(kernel_shape=[kernel_size, kernel_size])
    made = plan.make_plan(attributes.geometry((1, 1, size, size)), 1, 4, 1, with_indices=True)
    assert sum(piece.work.size for piece in made.pieces) <= 8 * size**2
    x = np.random.default_rng(0).standard_normal((1, 1, size, size)).astype(np.float32)
    y = x
    for axis in (2, 3):
        y = np.lib.stride_tricks.sliding_window_view(y, kernel_size, axis).max(axis=-1)
    got, indices = mp.max_pool(x, attributes.kernel_shape, return_indices=True)
    assert_same(got, y)
    assert_same(x.reshape(-1)[indices], y)


@given(st.integers(1, 600), st.integers(1, 600))
@example(256, 1)
@example(257, 1)
def test_shifts(kernel_size: int, width: int) -> None:
    """Windows grow to the kernel, to at most twice what they were at each step."""
    shifts = passes._shifts(kernel_size, width)  # noqa: SLF001
    assert len(shifts) == max(0, int(np.ceil(np.log2(kernel_size / width))))
    for shift in shifts:
        assert 1 <= shift <= width
        width += shift
    assert width >= kernel_size
    assert width == kernel_size or not shifts


Window = set[int] | None


def grown(along: passes.Pass) -> list[Window]:
    """The windows at all positions of an axis after its steps, as sets of positions; None: nobody knows."""

    def joined(windows: list[Window], earlier: int, later: int) -> Window:
        first, second = (windows[each] if 0 <= each < along.size else None for each in (earlier, later))
        return None if first is None or second is None else first | second

    windows: list[Window] = [{position} for position in range(along.size)]
    for step in along.steps:
        after = [joined(windows, position - step.back, position + step.ahead) for position in range(along.size)]
        for mend in along.mends(step):
            earlier, later = (
                [*others] * (len(mend.windows) if len(others) == 1 else 1)
                for others in (mend.earlier, mend.later or mend.earlier)
            )
            for position, first, second in zip(mend.windows, earlier, later, strict=True):
                assert first <= second, "of equals, the first would not stay"
                after[position] = joined(windows, first, second)
        windows = after
    return windows


def test_windows_grow_to_what_outputs_see() -> None:
    """The window of each output that sees some input holds, after all steps, what the output sees: no more, no less."""
    few = {"size": range(1, 9), "kernel": (1, 2, 3, 5), "stride": (1, 2, 3), "dilation": (1, 2, 5)}
    many = {"size": (30, 31), "kernel": (12, 23), "stride": (1, 4), "dilation": (1, 2)}
    checked = 0
    for table, pads in ((few, range(8)), (many, (0, 5, 11, 22, 30))):
        for size, kernel_size, stride, dilation in product(*table.values()):
            for pad_begin, pad_end in product(pads, repeat=2):
                axis = Axis.of(
                    size, kernel_size, stride=stride, dilation=dilation, pad_begin=pad_begin, pad_end=pad_end
                )
                seen = passes.seen_outputs(axis)
                if seen.start == seen.stop or axis.output < 1:
                    continue
                for is_along_rows in (False, True):
                    along = passes._pass(1, axis, is_along_rows=is_along_rows)  # noqa: SLF001
                    windows = grown(along)
                    for output, anchor in zip(range(seen.start, seen.stop), along.anchors, strict=True):
                        expected = set(axis.window(output))
                        if expected:  # others are filled in later
                            assert {each for each in windows[anchor] if each < size} == expected, (axis, output)
                            checked += 1
                    directly = [{anchor} for anchor in along.anchors]
                    for outputs, taps_of_all in along.joins():
                        for output, tap in zip(outputs, taps_of_all, strict=True):
                            directly[output].add(tap)
                    assert [{each for each in window if each < size} for window in directly] == [
                        set(axis.window(output)) for output in range(seen.start, seen.stop)
                    ]
    assert checked > 50_000


@pytest.mark.parametrize("is_along_rows", [False, True])
def test_steps_are_as_few_as_can_be(is_along_rows: bool) -> None:
    """Windows of k taps, half of them in the pads at most, take ceil(log2 k) steps."""
    for kernel_size in range(1, 140):
        least = int(np.ceil(np.log2(kernel_size)))
        for pad_begin in range(kernel_size // 2 + 1):
            axis = Axis.of(200, kernel_size, pad_begin=pad_begin, pad_end=kernel_size // 2)
            along = passes._pass(1, axis, is_along_rows=is_along_rows)  # noqa: SLF001
            assert len(along.steps) == least, axis


@pytest.mark.parametrize("kernel_size", [255, 256, 257, 258])
def test_offsets_of_more_than_8_bits(kernel_size: int) -> None:
    """Around the windows whose offsets no longer fit a byte, and with dilations."""
    x = np.random.default_rng(1).permutation(3 * 700).reshape(1, 3, 700).astype(np.float32)
    for dilation in (1, 2):
        y, indices = mp.max_pool(x, [kernel_size], dilations=[dilation], pads=[9, 4], return_indices=True)
        expected = pool_by_taps(x, mp.MaxPoolAttributes(kernel_shape=[kernel_size], dilations=[dilation], pads=[9, 4]))
        assert_same(y, expected[0])
        assert_same(indices, expected[1])


def check_with_strides(kernel_shape: list[int], dilation: int, shape: list[int]) -> None:
    """Passes, with strides of 2 and pads, give what their slow twin does."""
    x = np.random.default_rng(2).permutation(np.prod(shape)).reshape(shape).astype(np.float64)
    pads = [*(min(size - 1, 3) for size in kernel_shape), *(size // 2 for size in kernel_shape)]
    attributes = {
        "kernel_shape": kernel_shape, "strides": [2] * len(kernel_shape), "pads": pads,
        "dilations": [dilation] * len(kernel_shape),
    }  # fmt: skip
    y, indices = mp.max_pool(x, **attributes, return_indices=True)
    expected = pool_by_taps(x, mp.MaxPoolAttributes(**attributes))
    assert_same(y, expected[0])
    assert_same(indices, expected[1])
    assert uses_passes(x, mp.MaxPoolAttributes(**attributes))


@pytest.mark.parametrize(
    ("kernel_shape", "bits"),
    [
        ([16, 16], 8), ([17, 16], 9), ([16, 17], 9), ([8, 1, 32], 8), ([3, 9, 8], 9), ([2, 2, 2], 3),
        ([256, 200], 16), ([257, 256], 17),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dilation", [1, 2])
def test_numbers_of_taps_of_more_bits(kernel_shape: list[int], bits: int, dilation: int) -> None:
    """Around the windows whose taps no longer fit a byte, or two: with strides, they are numbered along all axes."""
    assert sum((size - 1).bit_length() for size in kernel_shape) == bits
    shape = [1, 2, *(dilation * (size - 1) + 8 for size in kernel_shape)]
    check_with_strides(kernel_shape, dilation, shape)


@pytest.mark.parametrize(
    ("kernel_shape", "dilation", "sizes", "reach"),
    [
        ([3, 4], 1, [10, 126], 255), ([3, 5], 1, [10, 126], 256), ([3, 4], 2, [12, 62], 254), ([3, 5], 2, [12, 62], 256),
        ([1, 256], 1, [8, 260], 255), ([1, 257], 1, [8, 260], 256), ([2, 9], 1, [9, 8], 16),
        ([2, 3, 4], 1, [9, 12, 18], 255), ([2, 3, 5], 1, [9, 12, 18], 256),
        ([257, 256], 1, [264, 255], 65535), ([257, 257], 1, [264, 255], 65536),
    ],
)  # fmt: skip
def test_windows_that_reach_far(kernel_shape: list[int], dilation: int, sizes: list[int], reach: int) -> None:
    """Around those whose last tap no longer fits a byte, or two: with strides, places are counted along all axes."""
    strides = [int(np.prod(sizes[axis + 1 :])) for axis in range(len(sizes))]
    assert sum((size - 1) * dilation * stride for size, stride in zip(kernel_shape, strides, strict=True)) == reach
    shape = [1, 2, *sizes]
    check_with_strides(kernel_shape, dilation, shape)


@pytest.mark.parametrize(
    "bits",
    [(8, 8), (10, 20), (30, 2), (31, 2), (31, 31), (20, 20, 24), (20, 21, 24), (30, 30, 30), (4, 60), (60, 4)],
)  # fmt: skip
@pytest.mark.parametrize("stride", [1, 2])
def test_windows_with_more_taps_than_integers_hold(
    bits: tuple[int, ...], stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of pads, nearly all: each output sees the inputs up to one, and of these the greatest is the last."""
    monkeypatch.setattr(passes, "WASTE", 10**9)
    x = np.arange(2 * 3 ** len(bits), dtype=np.float32).reshape(1, 2, *[3] * len(bits))
    kernel_shape, pads = [2**each for each in bits], [2**each - 1 for each in bits] + [0] * len(bits)
    seen = (Ellipsis, *[slice(None, None, stride)] * len(bits))
    y, indices = mp.max_pool(x, kernel_shape, pads=pads, strides=[stride] * len(bits), return_indices=True)
    assert_same(y, np.ascontiguousarray(x[seen]))
    assert_same(indices, x[seen].astype(np.int64))
    assert uses_passes(x, mp.MaxPoolAttributes(kernel_shape=kernel_shape, pads=pads)) == (sum(bits) <= 64)


def test_windows_that_reach_beyond_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """One tap along the first axis is more elements of X than integers count; it is of padding."""
    monkeypatch.setattr(passes, "WASTE", 10**9)
    x = np.arange(27, dtype=np.float32).reshape(1, 1, 3, 3, 3)
    attributes = {
        "kernel_shape": [2, 2**20, 2**14], "dilations": [2**60, 1, 1], "strides": [2, 2, 2],
        "pads": [2**60, 2**20 - 1, 2**14 - 1, 0, 0, 0],
    }  # fmt: skip
    y, indices = mp.max_pool(x, **attributes, return_indices=True)
    assert_same(y, np.ascontiguousarray(x[..., ::2, ::2, ::2]))
    assert_same(indices, y.astype(np.int64))
    assert uses_passes(x, mp.MaxPoolAttributes(**attributes))


# (planes of 256 x 64, threads, planes of the first block); as many as 32 fit in one
FIRST_BLOCKS = [
    (50, 2, 27), (26, 2, 14), (4, 2, 2), (3, 2, 2), (2, 2, 1), (1, 2, 1), (60, 2, 32), (64, 2, 32), (66, 2, 17),
    (30, 3, 10), (30, 1, 30),
]  # fmt: skip


@pytest.mark.parametrize(("planes", "count", "first"), FIRST_BLOCKS)
def test_the_first_of_two_threads_does_more(planes: int, count: int, first: int) -> None:
    """Where each does one block, which never gets too large by that; else all blocks are alike."""
    geometry = mp.MaxPoolAttributes(kernel_shape=[2, 2]).geometry((1, planes, 256, 64))
    assert plan.make_plan(geometry, planes, 4, count, with_indices=False).planes == first


@pytest.mark.parametrize("pads", [(2, 2), (2, 0)])
@pytest.mark.parametrize("size", [253, 254, 255, 256, 65534, 65535, 65536, 65537])
def test_positions_of_more_bits(size: int, pads: tuple[int, int]) -> None:
    """Around the rows and planes whose positions need one more byte, with pads in front."""
    x = np.arange(2 * size, dtype=np.float64).reshape(1, 2, size)
    for shape in ((1, 2, size), (1, 2, 1, size), (1, 2, size, 1)):
        rank = len(shape) - 2
        attributes = {"kernel_shape": [3] * rank, "pads": [pads[0]] * rank + [pads[1]] * rank}
        y, indices = mp.max_pool(x.reshape(shape), **attributes, return_indices=True)
        expected = pool_by_taps(x.reshape(shape), mp.MaxPoolAttributes(**attributes))
        assert_same(y, expected[0])
        assert_same(indices, expected[1])


@pytest.mark.parametrize("size", [127, 128, 129, 130])
def test_positions_of_more_bits_with_strides(size: int) -> None:
    """Likewise where the last window that is kept along rows begins before the end."""
    x = np.arange(4 * size, dtype=np.float32).reshape(1, 2, 2, size)
    attributes = {"kernel_shape": [2, 3], "strides": [1, 2]}
    y, indices = max_pool_oracle(x, **attributes)
    got_y, got_indices = mp.max_pool(x, **attributes, return_indices=True)
    assert_same(got_y, y)
    assert_same(got_indices, indices)


@pytest.mark.parametrize("first", [2**28 - 2, 2**28 - 1, 2**28])
def test_positions_beyond_4_bytes(first: int) -> None:
    """Two planes of 16, of which the number of the first is given, as if of an X of some 2^32 elements."""
    x = np.random.default_rng(0).standard_normal((2, 4, 4)).astype(np.float32)
    geometry = mp.MaxPoolAttributes(kernel_shape=[2, 2]).geometry((1, first + 2, 4, 4))
    pooling = kernel.Pooling(geometry, (1, first + 2, 4, 4), 0, with_indices=True)
    (piece,) = plan.make_plan(geometry, 2, x.itemsize, 1, with_indices=True).pieces
    assert piece.work.layout is not None
    y, indices = np.empty((2, 3, 3), np.float32), np.empty((2, 3, 3), np.int64)
    pooling._put(x, piece, y, indices, first)  # noqa: SLF001 (an X like that is large)
    expected_y, expected = max_pool_oracle(x[np.newaxis], [2, 2])
    assert_same(y, expected_y[0])
    assert_same(indices, expected[0] + 16 * first)


@pytest.mark.parametrize("dilation", [200, 300, 2**30, 2**33, 2**60])
@pytest.mark.parametrize("axis", [0, 1])
def test_dilations_far_beyond_the_input(axis: int, dilation: int) -> None:
    """Positions are small where what a window reaches over is not, along rows and across them."""
    x = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    pads = [0, 0, 0, 0]
    pads[axis] = dilation
    given = {"kernel_shape": [2, 2], "dilations": [1, 1], "pads": pads}
    given["dilations"][axis] = dilation
    y, indices = max_pool_oracle(x, **given)
    got_y, got_indices = mp.max_pool(x, **given, return_indices=True)
    assert_same(got_y, y)
    assert_same(got_indices, indices)
    assert_same(mp.max_pool(x, **given), y)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8", "uint8"])
def test_maxima_as_low_as_padding(dtype: str) -> None:
    """Where all elements are the lowest there are, the index is that of the first tap in the input."""
    low = -np.inf if np.dtype(dtype).kind == "f" else np.iinfo(dtype).min
    x = np.full((2, 3, 5, 6), low, dtype)
    x[1, 1, 2, 3] = 5
    attributes = {"kernel_shape": (3, 4), "pads": (2, 3, 2, 1), "strides": (1, 2)}
    y, indices = max_pool_oracle(x, **attributes)
    got_y, got_indices = mp.max_pool(x, **attributes, return_indices=True)
    assert_same(got_y, y)
    assert_same(got_indices, indices)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_nan_anywhere(dtype: str) -> None:
    """One NaN in a large input: its windows have it, no other has."""
    x = np.random.default_rng(0).standard_normal((1, 5, 120, 130)).astype(dtype)
    x[0, 3, 60, 70] = np.nan
    y, indices = mp.max_pool(x, [3, 3], pads=[1, 1, 1, 1], return_indices=True)
    found = np.argwhere(np.isnan(y)).tolist()
    assert found == [[0, 3, i, j] for i, j in product((59, 60, 61), (69, 70, 71))]
    assert set(indices[np.isnan(y)].tolist()) == {(3 * 120 + 60) * 130 + 70}
    assert_same(mp.max_pool(x, [3, 3], pads=[1, 1, 1, 1]), y)


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_views(dtype: str) -> None:
    """Arrays that are not contiguous, not aligned, read-only or in another byte order give what their copies give."""
    base = np.random.default_rng(0).integers(0, 100, (4, 6, 40, 42)).astype(dtype)
    raw = np.empty(base.nbytes + 1, np.uint8)
    unaligned = raw[1:].view(dtype).reshape(base.shape)
    unaligned[...] = base
    fixed = base.copy()
    fixed.flags.writeable = False
    views = [base[::2, ::-1], base.transpose(1, 0, 3, 2), base[..., ::-2], unaligned, fixed, np.asfortranarray(base)]
    views.append(np.broadcast_to(base[:1, :1], (2, 3, 40, 42)))
    for view in views:
        before = view.copy()
        expected = mp.max_pool(np.ascontiguousarray(view), [3, 2], strides=[2, 1], return_indices=True)
        got = mp.max_pool(view, [3, 2], strides=[2, 1], return_indices=True)
        assert_same(got[0], expected[0])
        assert_same(got[1], expected[1])
        assert_same(view, before)


# (id, shape, dtype, attributes, MiB that may be taken beside X and the outputs)
MEMORY = [
    ("1 GiB, one plane", (1, 1, 32768, 32768), "uint8", {"kernel_shape": [3, 3], "strides": [16, 16]}, 16),
    ("1 GiB, one row", (1, 1, 2**30), "uint8", {"kernel_shape": [5], "strides": [32], "pads": [2, 2]}, 16),
    ("float64, many planes", (64, 64, 40, 40), "float64", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}, 16),
    ("float32, many planes", (64, 64, 33, 33), "float32", {"kernel_shape": [3, 3], "pads": [1] * 4}, 16),
    ("float16", (8, 64, 112, 112), "float16", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}, 16),
    ("large planes", (1, 3, 1012, 1012), "float32", {"kernel_shape": [3, 300], "pads": [1, 150, 1, 149]}, 16),
    ("wide windows", (1, 8, 256, 256), "float32", {"kernel_shape": [128, 128], "auto_pad": "SAME_UPPER"}, 16),
]  # fmt: skip


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("row", MEMORY, ids=[row[0] for row in MEMORY])
def test_memory(row: tuple, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that begins with nothing takes 16 MiB at most beside X and the outputs, helpers included."""
    _, shape, dtype, attributes, most = row
    monkeypatch.setattr(threads, "_chosen", count)
    x = np.zeros(shape, dtype)
    found = []

    def trace(*, with_indices: bool) -> None:
        tracemalloc.start()
        made = mp.max_pool(x, **attributes, return_indices=with_indices)
        kept = sum(array.nbytes for array in (made if with_indices else (made,)))
        found.append((tracemalloc.get_traced_memory()[1] - kept) / 2**20)
        tracemalloc.stop()

    for with_indices in (False, True):
        thread = threading.Thread(target=trace, kwargs={"with_indices": with_indices})
        thread.start()
        thread.join()
    assert len(found) == 2
    assert max(found) <= most


def test_steady_state_takes_nothing() -> None:
    """From the second call on, only what is returned is allocated."""
    x = np.random.default_rng(0).standard_normal((4, 16, 112, 112)).astype(np.float32)
    pool = kernel.pooling(
        mp.MaxPoolAttributes(kernel_shape=[3, 3], pads=[1, 1, 1, 1]).geometry(x.shape), x.shape, 0, with_indices=True
    )
    pool(x)
    tracemalloc.start()
    made = pool(x)
    peak = tracemalloc.get_traced_memory()[1] - sum(array.nbytes for array in made)
    tracemalloc.stop()
    assert peak < 160 * 1024  # 132 KiB on Python 3.10


def test_outputs_of_padding_only() -> None:
    """Each output of which no tap lies in the input is found once, and pads far beyond the input are one slice each."""
    sizes = range(4), range(1, 4), range(1, 4), (1, 2, 5), range(-3, 9), (0,), range(7)
    for axis in map(Axis, *zip(*product(*sizes), strict=True)):
        outputs = np.arange(axis.output)
        found = [int(output) for part in plan._empty_outputs(axis) for output in outputs[part]]  # noqa: SLF001
        assert sorted(found) == sorted(set(outputs.tolist()).difference(*map(axis.outputs, range(axis.kernel)))), axis
    axis = Axis.of(4, 2, pad_begin=10**9, pad_end=10**9)
    assert plan._empty_outputs(axis) == [slice(0, 10**9 - 1), slice(10**9 + 4, 2 * 10**9 + 3)]  # noqa: SLF001


def test_what_is_worked_out_for_a_shape_is_small() -> None:
    """However many outputs are padding only, because windows reach over X, what stays of them after a call is little."""
    x = np.ones((1, 1, 4), np.float32)
    mp.max_pool(x, [2], dilations=[300_000], pads=[300_000, 300_000])
    tracemalloc.start()
    for more in range(1, 11):
        y, indices = mp.max_pool(x, [2], dilations=[300_000], pads=[300_000, 300_000 + more], return_indices=True)
        assert (int((indices >= 0).sum()), int(y[np.isfinite(y)].sum())) == (8, 8)
    del y, indices
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 2**20


def test_anchors_behind_the_input_up_to_a_bound() -> None:
    """Where outputs whose anchors lie behind the input are many, tap after tap takes less."""
    assert passes.MOST_POSITIONS == 4
    assert passes.is_dense((Axis.of(4, 2, dilation=12, pad_begin=12, pad_end=12),))
    assert not passes.is_dense((Axis.of(4, 2, dilation=13, pad_begin=13, pad_end=13),))
    assert passes.is_dense((Axis.of(1000, 2, pad_begin=10**9),))  # of padding only, which nothing is done for


def test_one_shape_of_two_dtypes() -> None:
    """Pieces are cut for the size of the elements, though what is worked out for a shape serves all dtypes."""
    shape = (64, 64, 56, 56)
    pool = kernel.pooling(mp.MaxPoolAttributes(kernel_shape=[3, 3]).geometry(shape), shape, 0, with_indices=False)
    assert pool._plan(1, 1).planes > pool._plan(8, 1).planes  # noqa: SLF001


def test_workspace_is_bounded() -> None:
    """Many shapes leave no more than the largest of them needs, and a bounded number of programs."""

    def pool_many() -> None:
        for size in range(20, 120):
            mp.max_pool(np.zeros((1, 2, size, size), np.float32), [3, 3], return_indices=True)
        space = workspace.thread_workspace()
        assert len(space._programs) <= workspace.MOST_PROGRAMS  # noqa: SLF001
        assert sum(buffer.nbytes for buffer in space._buffers.values()) < 2**20  # noqa: SLF001

    with ThreadPoolExecutor(1) as executor:
        executor.submit(pool_many).result()


def test_a_smaller_buffer_is_not_kept() -> None:
    """Where a shape needs more than those before it, no program and no owner keeps what they had."""

    def pool_growing() -> float:
        shapes = [(1, 1, size, size) for size in (900, 950, 1000)]
        mp.max_pool(np.zeros((1, 1, 8, 8), np.float64), [3, 3], pads=[1, 1, 1, 1])
        tracemalloc.start()
        for shape in shapes:
            mp.max_pool(np.zeros(shape, np.float16), [3, 3], pads=[1, 1, 1, 1])
        kept = tracemalloc.get_traced_memory()[0] / 2**20
        tracemalloc.stop()
        return kept

    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(pool_growing).result() < 5


def test_a_huge_window_is_not_kept() -> None:
    """A window larger than any buffer that is kept works, and its memory goes."""

    def pool_huge() -> None:
        x = np.zeros((1, 1, 1200, 1200), np.float64)
        x[0, 0, 7, 9] = 1
        y, indices = mp.max_pool(x, [1200, 1100], return_indices=True)
        assert y.shape == (1, 1, 1, 101)
        assert indices.ravel()[:10].tolist() == [7 * 1200 + 9] * 10
        space = workspace.thread_workspace()
        assert all(buffer.nbytes <= workspace.MOST_BYTES for buffer in space._buffers.values())  # noqa: SLF001
        assert not space._programs  # noqa: SLF001

    with ThreadPoolExecutor(1) as executor:
        executor.submit(pool_huge).result()


def test_a_huge_layout_is_not_kept() -> None:
    """An input that is small beside its dilation works, and neither its buffers nor the program that has them stay."""

    def pool_padded() -> None:
        space = workspace.thread_workspace()
        for _ in range(2):
            y = mp.max_pool(np.ones((1, 1, 150_000)), [2], dilations=[400_000], pads=[400_000, 400_000])
            assert (y.shape, int((y == 1).sum())) == ((1, 1, 550_000), 300_000)
            assert all(buffer.nbytes <= workspace.MOST_BYTES for buffer in space._buffers.values())  # noqa: SLF001
            assert not space._programs  # noqa: SLF001

    with ThreadPoolExecutor(1) as executor:
        executor.submit(pool_padded).result()


def test_calls_at_the_same_time() -> None:
    """Many threads that pool at the same time, each with helpers, do not get into one another's buffers."""
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((2, 3 + n % 3, 60 + n, 64)).astype(np.float32) for n in range(24)]
    run = lambda x: mp.max_pool(x, [3, 3], pads=[1, 1, 1, 1], return_indices=True)  # noqa: E731
    expected = [run(x) for x in inputs]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "THREADED_BYTES", 64)
        patch.setattr(plan, "THREAD_SIZE", 1)
        patch.setattr(threads, "_chosen", 3)
        forget_plans()
        with ThreadPoolExecutor(8) as executor:
            got = list(executor.map(run, inputs * 4))
    for (y, indices), (expected_y, expected_indices) in zip(got, expected * 4, strict=True):
        assert_same(y, expected_y)
        assert_same(indices, expected_indices)


def test_a_call_within_a_call() -> None:
    """What interrupts a call in its own thread, as a signal's handler may, and pools, does not touch its buffers."""
    x = np.random.default_rng(0).standard_normal((1, 3, 20, 20)).astype(np.float32)
    run = lambda array: mp.max_pool(array, [3, 3], strides=[2, 2], pads=[1, 1, 1, 1], return_indices=True)  # noqa: E731
    expected = run(x)
    copy, calls = program.copy, []

    def interrupted(array: np.ndarray, out: np.ndarray) -> None:
        if not calls:
            calls.append(1)
            run(x[:, ::-1, ::-1].copy())
        copy(array, out=out)

    workspace.thread_workspace()._programs.clear()  # noqa: SLF001
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "copy", interrupted)
        got = run(x)
    workspace.thread_workspace()._programs.clear()  # noqa: SLF001
    assert calls
    assert_same(got[0], expected[0])
    assert_same(got[1], expected[1])


@pytest.mark.parametrize("value", [0, -1, 1.5, "2", None, True + 0.0])
def test_set_num_threads_refuses(value: object) -> None:
    """A number of threads is an integer of 1 and more."""
    with pytest.raises(mp.MaxPoolError, match=r"the number of threads must be an integer >= 1, got"):
        mp.set_num_threads(value)


def test_num_threads_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """set_num_threads goes before the environment variable, that before the processors that the process may use."""
    monkeypatch.setattr(threads, "_chosen", None)
    monkeypatch.delenv("MAXPOOL_ORT_NUM_THREADS", raising=False)
    assert mp.get_num_threads() == len(os.sched_getaffinity(0))
    monkeypatch.setenv("MAXPOOL_ORT_NUM_THREADS", "7")
    assert mp.get_num_threads() == 7
    mp.set_num_threads(3)
    assert mp.get_num_threads() == 3
    monkeypatch.setattr(threads, "_chosen", None)
    for wrong in ("0", "'two'", "'-3'", "'1.5'"):
        monkeypatch.setenv("MAXPOOL_ORT_NUM_THREADS", wrong.strip("'"))
        with pytest.raises(
            mp.MaxPoolError, match=rf"the environment variable MAXPOOL_ORT_NUM_THREADS must be .* {wrong}$"
        ):
            mp.get_num_threads()


def test_affinity_is_obeyed() -> None:
    """A process that may use one processor starts no thread."""
    code = """
        import os, threading
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        import numpy as np, maxpool_ort as mp
        assert mp.get_num_threads() == 1
        mp.max_pool(np.zeros((8, 64, 64, 64), np.float32), [3, 3])
        print(threading.active_count())
    """
    result = run_python(code)
    assert (result.returncode, result.stdout.strip()) == (0, "1"), result.stderr


def test_threads_start_late_and_few() -> None:
    """No thread at import nor for a small input; as many as were set for a large one."""
    code = """
        import threading
        import numpy as np, maxpool_ort as mp
        mp.set_num_threads(3)
        counts = [threading.active_count()]
        mp.max_pool(np.zeros((1, 4, 64, 64), np.float32), [3, 3])
        counts.append(threading.active_count())
        for _ in range(3):
            mp.max_pool(np.zeros((12, 64, 64, 64), np.float32), [3, 3])
            counts.append(threading.active_count())
        print(counts)
    """
    result = run_python(code)
    assert (result.returncode, result.stdout.strip()) == (0, "[1, 1, 3, 3, 3]"), result.stderr


@pytest.mark.parametrize(
    ("planes", "with_indices", "expected"), [(8, False, 2), (7, False, 1), (4, True, 2), (3, True, 1)]
)
def test_large_enough_for_two_threads(
    planes: int, with_indices: bool, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From 512 KiB on there are more threads, with Indices from 256 KiB on."""
    given = []
    monkeypatch.setattr(threads, "_chosen", 2)
    monkeypatch.setattr(kernel, "run_all", lambda _work, _items, count: given.append(count))
    x = np.zeros((1, planes, 128, 128), np.float32)
    mp.max_pool(x, [2, 2], return_indices=with_indices)
    assert given == [expected]


def test_fork() -> None:
    """A child of a process that has used threads pools with threads of its own."""
    code = """
        import os, threading, warnings
        import numpy as np, maxpool_ort as mp
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any fork beside threads
        mp.set_num_threads(2)
        x = np.arange(8 * 64 * 64 * 64, dtype=np.float32).reshape(8, 64, 64, 64)
        expected = mp.max_pool(x, [3, 3], return_indices=True)
        child = os.fork()
        got = mp.max_pool(x, [3, 3], return_indices=True)
        right = all(np.array_equal(a, b) for a, b in zip(expected, got)) and threading.active_count() == 2
        if child == 0:
            os._exit(0 if right else 1)
        _, status = os.waitpid(child, 0)
        print(right, os.waitstatus_to_exitcode(status))
    """
    result = run_python(code)
    assert (result.returncode, result.stdout.strip()) == (0, "True 0"), result.stderr


def test_an_error_in_a_helper_is_raised_once_all_are_done() -> None:
    """What one thread raises ends the others after their piece, and comes out of the call."""
    finished = []

    def work(number: int) -> None:
        if number == 1:
            raise ZeroDivisionError("in a piece")
        time.sleep(0.001)
        finished.append(number)

    with pytest.raises(ZeroDivisionError, match="in a piece"):
        threads.run_all(work, [(number,) for number in range(1000)], 3)
    assert len(finished) < 500
    threads.run_all(work, [(number,) for number in range(2, 50)], 3)
    assert max(finished[-48:]) == 49


def test_no_threads_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no thread can be started, the caller does it all."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(threads, "_started", 0)
    done = []
    threads.run_all(done.append, [(number,) for number in range(5)], 4)
    assert done == [0, 1, 2, 3, 4]
