"""The conformance kit: test vectors for MaxPool-12, and what a runtime makes of each.

Every runtime runs in a process of its own, which may end or hang without harm.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import metadata
from itertools import count, takewhile
import json
from multiprocessing import Pipe
import os
from pathlib import Path
import shlex
import signal
import subprocess
import sys
import tempfile
from typing import Any, Literal

from numpy.typing import NDArray

from maxpool_ort.compare import difference
from maxpool_ort.errors import MaxPoolError, MissingDependencyError
from maxpool_ort.feed import load_arrays
from maxpool_ort.runtimes import RUNTIMES
from maxpool_ort.table import track

__all__ = [
    "COMMAND",
    "OUTCOMES",
    "Case",
    "Held",
    "Verdict",
    "choose",
    "default_kit",
    "hold",
    "judge",
    "read_kit",
    "try_command",
    "try_runtime",
]

Array = NDArray[Any]
Outcome = Literal["pass", "fail", "refused", "crashed", "n/a"]
OUTCOMES: tuple[Outcome, ...] = ("pass", "fail", "refused", "crashed", "n/a")
COMMAND = "command"
"""What a command of the user's is called among the runtimes."""
_DATA = "test_data_set_0"


@dataclass(frozen=True)
class Case:
    """One test vector: a folder in the layout of ONNX's backend tests."""

    name: str
    feature: str
    pins: str
    """What it pins down."""
    source: str
    silent: str
    """What of it the operator's page leaves open; empty where the page decides all."""
    folder: Path

    @property
    def model(self) -> Path:
        """A standard model of one MaxPool-12."""
        return self.folder / "model.onnx"

    @property
    def data(self) -> Path:
        """The folder of inputs and expected outputs."""
        return self.folder / _DATA

    def inputs(self) -> dict[str, Array]:
        """An array for each graph input."""
        return dict(zip(["X"], _arrays(self.data, "input"), strict=True))

    def expected(self) -> list[Array]:
        """The right Y, or Y and Indices."""
        return _arrays(self.data, "output")


@dataclass(frozen=True)
class Verdict:
    """What a runtime made of a case; ``detail`` says what was got and what expected, or what it said."""

    case: str
    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True)
class Held:
    """A runtime, its version, and its verdicts by the names of cases."""

    runtime: str
    version: str
    verdicts: Mapping[str, Verdict]

    def score(self, cases: Sequence[Case]) -> tuple[int, int]:
        """How many of these cases it passes, of those that apply to it."""
        outcomes = [self.verdicts[case.name].outcome for case in cases]
        return outcomes.count("pass"), len(outcomes) - outcomes.count("n/a")


def default_kit() -> Path:
    """The kit that comes with the package: in a wheel beside this module, in a checkout in models/."""
    package = Path(__file__).parent
    kits = [package / "conformance_kit", package.parent / "models" / "conformance"]
    return next((kit for kit in kits if (kit / "cases.json").is_file()), kits[0])


def read_kit(folder: str | os.PathLike[str]) -> list[Case]:
    """Read which cases a kit has.

    Raises
    ------
    OSError
        If the list of its cases cannot be read.
    MaxPoolError
        If that is something else.

    Examples
    --------
    >>> case = next(case for case in read_kit(default_kit()) if case.name == "ceil_partial_window")
    >>> case.feature, case.inputs()["X"].shape, case.expected()[0].shape
    ('ceil_mode', (1, 2, 6, 8), (1, 2, 3, 4))
    """
    index = Path(folder) / "cases.json"
    try:
        rows = json.loads(index.read_text(encoding="utf-8"))
        return [Case(**row, folder=index.parent / row["name"]) for row in rows]
    except OSError:
        raise
    except (ValueError, TypeError, KeyError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise MaxPoolError(f"{index} must be the index of a conformance kit, got something else: {reason}") from error


def choose(cases: Sequence[Case], names: Sequence[str], features: Sequence[str]) -> list[Case]:
    """The cases whose name matches one of these patterns, and whose feature is one of these; none given: all.

    Raises
    ------
    MaxPoolError
        If no case is left.
    """
    chosen = [
        case
        for case in cases
        if (not names or any(fnmatchcase(case.name, name) for name in names))
        and (not features or case.feature in features)
    ]
    if not chosen:
        asked = " and ".join([*(f"--case {name}" for name in names), *(f"--feature {name!r}" for name in features)])
        there = ", ".join(dict.fromkeys(case.feature for case in cases))
        raise MaxPoolError(f"no case is {asked}; the features of the kit are: {there}")
    return chosen


def hold(cases: Sequence[Case], runtimes: Sequence[str], command: str | None, timeout: float) -> list[Held]:
    """Hold runtimes against cases, and a command if there is one; neither named: all runtimes that are installed.

    Raises
    ------
    MaxPoolError
        If a runtime is not installed or does not start, or the command cannot be run.
    """
    installed = [name for name, runtime in RUNTIMES.items() if runtime.is_installed]
    versions = {name: _version_of(name) for name in runtimes or ([] if command else installed)}
    held = [
        Held(name, version, {v.case: v for v in try_runtime(name, track(cases, name), timeout)})
        for name, version in versions.items()
    ]
    if command:
        held.append(Held(COMMAND, "", {v.case: v for v in try_command(command, track(cases, COMMAND), timeout)}))
    return held


def _version_of(runtime: str) -> str:
    found = RUNTIMES[runtime]
    if not found.is_installed:
        raise MissingDependencyError(f"runtime {runtime} must be installed, and is not; pip install {found.package}")
    packages = metadata.packages_distributions().get(found.module, [found.package])
    return metadata.version(packages[0])


def try_runtime(runtime: str, cases: Iterable[Case], timeout: float) -> Iterator[Verdict]:
    """Run cases by one of ``RUNTIMES``, at most so many seconds each."""
    process: _Process | None = None
    try:
        for case in cases:
            process = process or _Process(runtime)
            verdict = process.run(case, timeout)
            if verdict.outcome == "crashed":
                process.end()
                process = None
            yield verdict
    finally:
        if process is not None:
            process.end()


class _Process:
    """A runtime in a process of its own."""

    def __init__(self, runtime: str) -> None:
        self._connection, theirs = Pipe()
        command = [sys.executable, "-m", "maxpool_ort.runtimes", runtime, str(theirs.fileno())]
        nowhere = subprocess.DEVNULL  # what a runtime prints is not for our tables
        self._process = subprocess.Popen(  # noqa: S603 (ourselves)
            command, pass_fds=[theirs.fileno()], stdin=nowhere, stdout=nowhere, stderr=nowhere
        )
        theirs.close()
        try:
            refusal = self._connection.recv()
        except EOFError:
            refusal = _ended(self._process.wait())
        if refusal:
            self.end()
            said = _one_line(refusal)
            raise MaxPoolError(f"runtime {runtime} does not start: {said}; try to import it in Python")

    def run(self, case: Case, timeout: float) -> Verdict:
        try:
            self._connection.send((case.model, case.inputs()))
            if not self._connection.poll(timeout):
                return Verdict(case.name, "crashed", f"no answer in {timeout:g} seconds")
            outcome, found = self._connection.recv()
        except (EOFError, ConnectionError):
            return Verdict(case.name, "crashed", _ended(self._process.wait()))
        return judge(case, found) if outcome == "pass" else Verdict(case.name, outcome, _one_line(found))

    def end(self) -> None:
        self._connection.close()
        self._process.kill()
        self._process.wait()


def try_command(command: str, cases: Iterable[Case], timeout: float) -> Iterator[Verdict]:
    """Run cases by a command, in which {model}, {inputs} and {outputs} stand for a file and two folders.

    The folder of inputs holds ``input_0.pb``, a TensorProto; into that of outputs go ``output_0.pb``
    and, for Indices, ``output_1.pb``, which the command writes.

    Raises
    ------
    MaxPoolError
        If the command does not say where these go.
    """
    words = _words(command)
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            places = {"{model}": str(case.model), "{inputs}": str(case.data), "{outputs}": folder}
            filled = [_replace_all(word, places) for word in words]
            try:
                done = subprocess.run(filled, capture_output=True, timeout=timeout, check=False)  # noqa: S603 (the user's)
            except subprocess.TimeoutExpired:
                yield Verdict(case.name, "crashed", f"no answer in {timeout:g} seconds")
                continue
            except OSError as error:
                said = f"got {words[0]}: {error.strerror}"
                raise MaxPoolError(f"--command must be a program that runs, {said}") from error
            if done.returncode:
                said = _one_line(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])
                outcome: Outcome = "crashed" if done.returncode < 0 else "refused"
                yield Verdict(case.name, outcome, _ended(done.returncode) + f": {said}" * bool(said))
                continue
            try:
                found = _arrays(Path(folder), "output")
            except MaxPoolError as error:
                yield Verdict(case.name, "fail", _one_line(str(error)))
                continue
            yield judge(case, found)


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise MaxPoolError(f"--command must be words as a shell would split them, got {command!r}: {error}") from error
    absent = [place for place in ("{model}", "{inputs}", "{outputs}") if place not in command]
    if absent:
        raise MaxPoolError(f"--command must say where {' and '.join(absent)} go, got {command!r}")
    return words


def _replace_all(word: str, places: Mapping[str, str]) -> str:
    for place, path in places.items():
        word = word.replace(place, path)
    return word


def judge(case: Case, found: Sequence[Array]) -> Verdict:
    """Hold outputs against the right ones: dtype, shape and every element, NaN equal to NaN, 0 to -0.

    >>> import numpy as np
    >>> case = next(case for case in read_kit(default_kit()) if case.name == "report_nan_propagates")
    >>> judge(case, [np.array([[[1, 2, np.nan, 3]]], np.float32), np.array([[[0, 3, 4, 6]]])]).detail
    'Y: 2 of 4 differ, first at (0, 0, 0): got 1.0, expected nan'
    """
    expected = case.expected()
    if len(found) != len(expected):
        return Verdict(case.name, "fail", f"got {len(found)} outputs, expected {len(expected)}")
    for name, right, got in zip(("Y", "Indices"), expected, found, strict=False):
        d = difference(name, got, right)
        if d is None:
            continue
        where = "" if d.count is None else f"{d.count} of {d.size} differ, first at {d.position}: "
        return Verdict(case.name, "fail", f"{name}: {where}got {d.theirs}, expected {d.ours}")
    return Verdict(case.name, "pass")


def _arrays(folder: Path, kind: str) -> list[Array]:
    """What ``kind_0.pb``, ``kind_1.pb``, ... of a folder hold, as far as they go."""
    files = takewhile(Path.is_file, (folder / f"{kind}_{number}.pb" for number in count()))
    return [load_arrays(path)[""] for path in files]


def _ended(code: int) -> str:
    """How a process ended."""
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"


def _one_line(text: str) -> str:
    """A text on one line; of a long one its ends, for the reason may stand last."""
    line = " ".join(text.split())
    return line if len(line) <= 240 else f"{line[:100]} ... {line[-135:]}"
