"""Absurd sizes are refused before anything is allocated, with what they would need; the limit can be raised."""

from collections.abc import Iterator

import numpy as np
import pytest
from subprocesses import printed

import maxpool_ort as mp
from maxpool_ort import limits

X = np.zeros((1, 2, 4), np.float32)


@pytest.fixture(autouse=True)
def _limit() -> Iterator[None]:
    """Leave the limit as it was."""
    before = limits._limit  # noqa: SLF001
    yield
    limits._limit = before  # noqa: SLF001


# (id, attributes, part of the message)
ABSURD = [
    ("pads of 2**40", {"kernel_shape": [1], "pads": [2**40, 0]}, r"outputs of shape \(1, 2, 1099511627780\) take 8,192.0 GiB"),
    ("kernel and pads of 2**60", {"kernel_shape": [2**60 - 1], "pads": [2**60, 2**60]}, r"outputs of .* take 8,\d{3},\d{3},\d{3}.0 GiB"),
]  # fmt: skip


@pytest.mark.parametrize("with_indices", [False, True])
@pytest.mark.parametrize(("attributes", "text"), [row[1:] for row in ABSURD], ids=[row[0] for row in ABSURD])
def test_absurd(attributes: dict, text: str, *, with_indices: bool) -> None:
    """On arrays and in sessions, with the sizes and what to do; it is a MemoryError too, and the next run is right."""
    text = text.replace("8,192", "24,576").replace("8,", r"2\d,") if with_indices else text
    message = (
        rf"{text}, and the limit is .* GiB; use smaller pads or larger strides, or raise the limit with maxpool_ort"
    )
    with pytest.raises(mp.MemoryLimitError, match=message):
        mp.max_pool(X, **attributes, return_indices=with_indices)
    session = mp.InferenceSession(
        mp.make_maxpool_model(**attributes, input_shape=["N", 2, "L"], with_indices=with_indices, name="pool1")
    )
    with pytest.raises(MemoryError, match=rf"MaxPool 'pool1': {message}"):
        session.run(None, {"X": X})


def test_beyond_floats() -> None:
    """Outputs of more bytes than a float can count are refused like any others."""
    with pytest.raises(mp.MemoryLimitError, match=r" take more than 2\*\*80 bytes, and the limit is .* GiB; use"):
        mp.max_pool(np.zeros([1] * 20, np.float32), [1] * 18, pads=[2**60] * 36)


@pytest.mark.parametrize("with_indices", [False, True])
def test_empty_and_beyond_numpy(*, with_indices: bool) -> None:
    """An empty output takes nothing, but NumPy counts its other sizes: what it cannot count is refused."""
    pads = 2**60 - 2 if with_indices else 2**61 - 2  # of int64, and of float32
    for size, is_refused in ((0, False), (1, True)):
        x = np.zeros((0, 1, size + 1, 1), np.float32)
        given = {"kernel_shape": [1, 1], "pads": [pads // 2, 0, pads // 2, 0], "return_indices": with_indices}
        if is_refused:
            with pytest.raises(
                mp.MemoryLimitError, match=r"outputs of shape \(0, 1, \d+, 1\) are empty, and NumPy has"
            ):
                mp.max_pool(x, **given)
        else:
            mp.max_pool(x, **given)


def test_a_kernel_of_2_to_31() -> None:
    """A window that is far larger than X is no absurd output."""
    y, indices = mp.max_pool(X + 1, [2**31], pads=[2**31 - 4, 0], return_indices=True)
    assert (y.tolist(), indices.tolist()) == ([[[1], [1]]], [[[0], [4]]])
    with pytest.raises(mp.InvalidShapeError, match="output size of spatial axis D1 must be >= 0, got -2147483643"):
        mp.max_pool(X, [2**31])


def test_the_limit() -> None:
    """It is in bytes of outputs, for arrays and sessions alike, at once; Indices count."""
    session = mp.InferenceSession(mp.make_maxpool_model(kernel_shape=[1], input_shape=[1, 2, 4]))
    for limit, fits in ((32, True), (31, False), (32, True)):
        mp.set_memory_limit(limit)
        assert mp.get_memory_limit() == limit
        for run in (lambda: mp.max_pool(X, [1]), lambda: session.run(None, {"X": X})):
            if fits:
                run()
            else:
                with pytest.raises(
                    mp.MemoryLimitError, match=r"outputs of shape \(1, 2, 4\) take 32 bytes, and the limit is 31 bytes;"
                ):
                    run()
    with pytest.raises(mp.MemoryLimitError):
        mp.max_pool(X, [1], return_indices=True)
    mp.set_memory_limit(0)
    assert mp.max_pool(X[:0], [1]).shape == (0, 2, 4)


@pytest.mark.parametrize("value", [-1, 1.5, "1", None])
def test_wrong_limits(value: object) -> None:
    """A limit is an integer."""
    with pytest.raises(mp.MaxPoolError, match="the memory limit must be an integer >= 0, of bytes, got"):
        mp.set_memory_limit(value)


def test_where_the_limit_comes_from(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:  # noqa: ANN001
    """The environment, else the container, else the machine."""
    monkeypatch.setattr(limits, "_limit", None)
    monkeypatch.setenv(limits.VARIABLE, "12345")
    assert mp.get_memory_limit() == 12345
    monkeypatch.setattr(limits, "_limit", None)
    monkeypatch.setenv(limits.VARIABLE, "much")
    with pytest.raises(mp.MaxPoolError, match="MAXPOOL_ORT_MEMORY_LIMIT must be an integer >= 0, of bytes, got 'much'"):
        mp.get_memory_limit()
    monkeypatch.delenv(limits.VARIABLE)
    monkeypatch.setattr(limits, "_CGROUP", tmp_path / "memory.max")
    machine = limits._all()  # noqa: SLF001
    assert machine > 2**28
    for text, expected in (("max\n", machine), ("1000000\n", 1_000_000)):
        (tmp_path / "memory.max").write_text(text)
        monkeypatch.setattr(limits, "_limit", None)
        assert mp.get_memory_limit() == expected


def test_nothing_is_allocated() -> None:
    """Also where the system promises memory that it has not got."""
    code = """
        import resource, numpy as np, maxpool_ort as mp
        x = np.zeros((1, 1, 4), np.float32)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for pads in (2**35, 2**40, 2**50):
            try:
                mp.max_pool(x, [1], pads=[pads, 0], return_indices=True)
            except mp.MemoryLimitError as error:
                print("refused")
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096)
    """
    assert printed(code).split() == ["refused", "refused", "refused", "True"]
