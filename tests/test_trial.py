"""Whether several threads pay, by trial: with seconds that are given, so that no clock decides."""

from collections.abc import Callable, Sequence

import pytest

from maxpool_ort.kernel.trial import AGAIN, TRIAL_SECONDS, Trial


def kinds(trial: Trial, runs: int, seconds: Callable[[int, bool], float]) -> list[bool]:
    """Which runs were on several threads; ``seconds`` says what run of which kind takes how long."""
    found = []
    for number in range(runs):
        found.append(trial.several)
        trial.took(seconds(number, trial.several), several=trial.several)
    return found


# (id, seconds on several threads, on one, runs in a trial, whether several are taken then)
PAYS = [
    ("twice as fast", 0.02, 0.04, (5, 3), True),
    ("slower", 0.02, 0.01, (5, 10), False),
    ("as fast", 0.02, 0.02, (5, 5), False),
    ("little faster", 0.96 * 0.02, 0.02, (6, 5), False),
    ("longer than a trial", 0.2, 0.3, (1, 1), True),
    ("longer than a trial, and slower", 0.3, 0.2, (1, 1), False),
]


@pytest.mark.parametrize(
    ("several", "alone", "runs", "chosen"), [row[1:] for row in PAYS], ids=[row[0] for row in PAYS]
)
def test_what_is_faster_is_taken(several: float, alone: float, runs: Sequence[int], *, chosen: bool) -> None:
    """Several threads first, in case it is the only run; then one; then what has paid, for a while."""
    found = kinds(Trial(), sum(runs) + 20, lambda _, is_several: several if is_several else alone)
    assert found == [True] * runs[0] + [False] * runs[1] + [chosen] * 20


def test_the_median_of_the_last_runs_counts() -> None:
    """Not the first runs, in which programs are made and threads wake, nor what another process has held up."""
    several = iter([*[0.0025] * 20, *[0.001] * 9, 0.03, *[0.001] * 10, 0.002])
    found = kinds(Trial(), 200, lambda _, is_several: next(several, 0.001) if is_several else 0.0013)
    assert found == [True] * 41 + [False] * 77 + [True] * (200 - 41 - 77)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("fast", "slow"), [(0.02, 0.03), (0.5, 4.0)])
def test_the_other_kind_is_tried_again(fast: float, slow: float, *, first: bool) -> None:
    """Things change, either way; trials take a small part of all time, also of runs that are longer than one."""
    change = 2000

    def seconds(number: int, several: bool) -> float:
        return fast if several == (first if number < change else not first) else slow

    found = kinds(Trial(), 2 * change, seconds)
    before, later = found[100:change], found[change + 40 * AGAIN :]
    assert 0 < before.count(not first) * slow < 2 / AGAIN * before.count(first) * fast
    assert later.count(not first) > 0.9 * len(later)


def test_runs_of_other_threads_are_noted_as_what_they_were() -> None:
    """Those that began before the kind changed end after it."""
    trial = Trial()
    trial.took(TRIAL_SECONDS, several=True)
    assert trial.several is False
    for _ in range(3):
        trial.took(TRIAL_SECONDS / 10, several=True)
    trial.took(TRIAL_SECONDS, several=False)
    assert trial.several is True


def test_a_kind_is_tried_anew() -> None:
    """What it took before it was left does not count when it is tried again, however few runs that are."""
    trial = Trial()
    for several, chosen in ((0.02, True), (0.05, False), (0.02, True)):
        found = kinds(trial, 1000, lambda _, is_several, several=several: several if is_several else 0.03)
        assert found[150:300].count(chosen) > 120
