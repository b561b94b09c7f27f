"""The operator against the oracle: drawn cases and public regression cases, on arrays and in sessions."""

from collections.abc import Iterator

from hypothesis import HealthCheck, given, settings
import numpy as np
from oracle import assert_same, max_pool_oracle
import pytest
from regression import RegressionCase, regression_cases
from strategies import Case, cases

import maxpool_ort as mp
from maxpool_ort import kernel
from maxpool_ort.kernel import gather


def run_in_session(x: np.ndarray, attributes: dict, *, with_indices: bool, symbolic: bool) -> list[np.ndarray]:
    """Run a model of one MaxPool; with symbolic dimensions a guard stands behind the operator."""
    shape = [f"d{axis}" for axis in range(x.ndim)] if symbolic else x.shape
    model = mp.make_maxpool_model(**attributes, input_shape=shape, dtype=x.dtype, with_indices=with_indices)
    session = mp.InferenceSession(model)
    assert [node.is_guarded for node in session.converted] == [symbolic]
    with mp.record_calls() as calls:
        outputs = session.run(None, {"X": x})
    assert len(calls) == 1
    return outputs


@pytest.fixture(params=[gather.MOST_TAPS, 0], ids=["tiny all at once", "all by passes"])
def most_taps(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways of what is tiny, as nearly all drawn cases are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gather, "MOST_TAPS", request.param)
        kernel.pooling.cache_clear()
        yield
    kernel.pooling.cache_clear()


@pytest.mark.usefixtures("most_taps")
@settings(max_examples=3000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases())
def test_array(case: Case) -> None:
    """max_pool gives what the oracle gives, with and without Indices."""
    y, indices = max_pool_oracle(case.x, **case.attributes)
    got_y, got_indices = mp.max_pool(case.x, **case.attributes, return_indices=True)
    assert_same(got_y, y, case)
    assert_same(got_indices, indices, case)
    assert_same(mp.max_pool(case.x, **case.attributes), y, case)


@pytest.mark.parametrize("symbolic", [False, True])
@settings(max_examples=400)
@given(case=cases())
def test_session(case: Case, *, symbolic: bool) -> None:
    """A session gives what the oracle gives, with and without Indices, with static and with symbolic shapes."""
    y, indices = max_pool_oracle(case.x, **case.attributes)
    got_y, got_indices = run_in_session(case.x, case.attributes, with_indices=True, symbolic=symbolic)
    assert_same(got_y, y, case)
    assert_same(got_indices, indices, case)
    (got_y,) = run_in_session(case.x, case.attributes, with_indices=False, symbolic=symbolic)
    assert_same(got_y, y, case)


@pytest.mark.usefixtures("most_taps")
@pytest.mark.parametrize("case", regression_cases(), ids=lambda case: case.name)
def test_regression_case(case: RegressionCase) -> None:
    """Cases from public reports have their right answers, on arrays and in sessions."""
    y, indices = mp.max_pool(case.x, **case.attributes, return_indices=True)
    in_session = run_in_session(case.x, case.attributes, with_indices=case.indices is not None, symbolic=False)
    assert_same(y, case.y, case.source)
    assert_same(in_session[0], case.y, case.source)
    if case.indices is not None:
        assert_same(indices, case.indices, case.source)
        assert_same(in_session[1], case.indices, case.source)


def test_large_windows_need_wide_codes() -> None:
    """Windows of more than 256 and of more than 65,536 taps keep their Indices apart."""
    rng = np.random.default_rng(0)
    for shape, kernel_shape in (((2, 2, 40, 41), [17, 16]), ((1, 2, 300, 301), [280, 290])):
        x = rng.permutation(np.prod(shape)).reshape(shape).astype(np.float32)
        y, indices = mp.max_pool(x, kernel_shape, return_indices=True)
        windows = np.lib.stride_tricks.sliding_window_view(x, kernel_shape, axis=(2, 3))
        assert_same(y, windows.max(axis=(4, 5)))
        assert_same(x.ravel()[indices], y)  # all values differ, so this proves the index


@pytest.mark.usefixtures("most_taps")
@pytest.mark.parametrize(("dtype", "bits"), [("float16", np.uint16), ("float32", np.uint32), ("float64", np.uint64)])
def test_any_nan(dtype: str, bits: type[np.unsignedinteger]) -> None:
    """Every NaN is a NaN, whatever its sign and payload, and the first of a window is its maximum."""
    x = np.array([[[np.inf, np.nan, 1, np.nan, np.nan, np.inf]]], dtype)
    x.view(bits)[0, 0, 1] |= bits(1) << bits(x.itemsize * 8 - 1)  # negative
    x.view(bits)[0, 0, 3] += bits(1)  # another payload
    y, indices = mp.max_pool(x, [3], return_indices=True)
    assert np.isnan(y).all()
    assert indices.tolist() == [[[1, 1, 3, 3]]]
    assert np.isnan(mp.max_pool(x, [3])).all()
