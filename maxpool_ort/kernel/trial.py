"""Whether several threads pay, by trial.

No figure of the input tells. Where ONNX Runtime's threads look for work, which they do for a while after each of its
own operators, where many sessions run at once, or where a virtual machine has put all threads on one processor, as it
may when they rest, several threads take longer than one.
"""

from collections import deque

__all__ = ["Trial"]

TRIAL_SECONDS = 0.1
"""Of runs of one kind: what they take then is what they will take."""
AGAIN = 24
"""After so many times the seconds of a trial the other kind is tried again: so trials take little of all time."""
KEPT = 25
"""The last runs of a kind, of which the median counts: not the first of a trial, in which threads wake."""
LEAST_GAIN = 0.95
"""The part of the time of one thread that several may take, at most."""


class Trial:
    """What runs of one piece of work take, on one thread and on several: on these first, since it may be the only run.

    Attributes
    ----------
    several
        Whether the next run is to be on several threads.

    Examples
    --------
    >>> trial, kinds = Trial(), []
    >>> for _ in range(10):
    ...     kinds.append(trial.several)
    ...     trial.took(1.0 if trial.several else 1.5, several=trial.several)
    >>> kinds
    [True, False, True, True, True, True, True, True, True, True]
    """

    def __init__(self) -> None:
        self.several = True
        self._is_trial = True
        self._left = TRIAL_SECONDS
        self._spent = 0.0
        self._seconds: dict[bool, deque[float]] = {kind: deque(maxlen=KEPT) for kind in (False, True)}

    def took(self, seconds: float, *, several: bool) -> None:
        """Note a run. Threads may do so at the same time: one that is lost, or counts twice, does no harm."""
        self._seconds[several].append(seconds)
        self._spent += seconds
        if self._spent < self._left:
            return
        spent, self._spent = self._spent, 0.0
        alone, together = (sorted(self._seconds[kind]) for kind in (False, True))
        if self._is_trial and alone and together:
            self.several = together[len(together) // 2] <= LEAST_GAIN * alone[len(alone) // 2]
            self._is_trial, self._left = False, AGAIN * spent
        else:
            self.several = not self.several
            self._seconds[self.several].clear()
            self._is_trial, self._left = True, TRIAL_SECONDS
