"""Run the tests with the oldest and with the newest dependencies, on each Python from 3.10 to 3.13 of this machine.

Run with any of these Pythons, from anywhere; nothing needs to be installed, pip must reach its index::

    python scripts/test_versions.py                             # all: some ten minutes for each line of the table
    python scripts/test_versions.py --only oldest --python 3.10
    python scripts/test_versions.py --only oldest --first       # on one Python, if there is one
    python scripts/test_versions.py --quick                     # the tests that depend most on versions

Pythons are looked for on PATH, in pyenv and with uv. "Oldest" are the lower bounds in `pyproject.toml`, exactly, for
which there are wheels up to Python 3.12; "newest" is what pip takes. Every run has an environment of its own in a
temporary folder. Prints the whole output of runs that fail, and a table; exits with 1 if a test failed or something could
not be installed, and, unless the first Python was enough, if there was none for one of the sets.
"""

import argparse
from collections.abc import Iterator, Sequence
import os
from pathlib import Path
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
SETS = {"oldest": ("3.10", "3.11", "3.12"), "newest": PYTHONS}
"""Pythons for which there are wheels."""
QUICK = (
    "backend", "convert", "disagreements", "exports", "external_data", "functions", "model", "op", "quantized", "session",
)  # fmt: skip
PROBE = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
"""A Python without ensurepip, such as Debian's without python3-venv, can make no environment."""


class Row(NamedTuple):
    """A line of the table; `counts` is empty where nothing ran. `note` says what is wrong, else it is empty."""

    python: str
    kind: str
    versions: dict[str, str]
    counts: dict[str, int]
    note: str
    seconds: float


def lower_bounds() -> dict[str, str]:
    """The run-time dependencies in `pyproject.toml` and their lower bounds; tomllib came with Python 3.11 only."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (listed,) = re.findall(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    bounds = {}
    for requirement in re.findall(r'"(.+?)"', listed):
        bound = re.match(r"([\w.-]+) *>= *([\d.]+)", requirement)
        if bound is None:
            raise SystemExit(f"pyproject.toml: {requirement!r} has no lower bound, expected 'name>=version'")
        bounds[bound[1]] = bound[2]
    return bounds


def candidates(version: str) -> Iterator[Path]:
    """Where a Python of a version may be: on PATH, in pyenv, in uv."""
    for name in (f"python{version}", "python3"):
        for folder in os.get_exec_path():
            if found := shutil.which(name, path=folder):
                yield Path(found)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python"))
    if uv := shutil.which("uv"):
        found = subprocess.run(  # noqa: S603 (our own arguments)
            [uv, "python", "find", "--no-project", version], capture_output=True, text=True, check=False
        )
        if found.returncode == 0:
            yield Path(found.stdout.strip())


def interpreter(version: str) -> Path | None:
    """The first Python of a version that runs: pyenv's shims are on PATH also for versions that they do not start."""
    for path in candidates(version):
        probed = subprocess.run(  # noqa: S603 (a Python)
            [path, "-c", PROBE], capture_output=True, text=True, check=False
        )
        if probed.returncode == 0 and probed.stdout.strip() == version:
            return path
    return None


def pip_install(python: Path, arguments: Sequence[str]) -> str:
    """Install; what pip says if that fails."""
    command = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (our own arguments)
    if run.returncode == 0:
        return ""
    return "\n".join(line for line in run.stderr.splitlines() if line.startswith("ERROR")) or run.stderr


def run_tests(base: Path, version: str, kind: str, tests: Sequence[str]) -> Row:
    """Run the tests on a Python with one set of dependencies."""
    started = time.monotonic()
    bounds = lower_bounds()
    with tempfile.TemporaryDirectory(prefix="maxpool_ort-") as folder:
        subprocess.run([base, "-m", "venv", folder], check=True)  # noqa: S603 (a Python)
        python = Path(folder) / "bin" / "python"
        # Wheels alone: a release older than the Python would be built from source, for an hour or without success.
        arguments = ["--only-binary", ",".join(bounds), "-e", f"{ROOT}[test]"]
        if kind == "oldest":
            constraints = Path(folder) / "constraints.txt"
            constraints.write_text("".join(f"{name}=={bound}\n" for name, bound in bounds.items()), encoding="utf-8")
            arguments += ["-c", str(constraints)]
        if failure := pip_install(python, arguments):
            versions = bounds if kind == "oldest" else {}
            return Row(version, kind, versions, {}, failure, time.monotonic() - started)
        asked = f"from importlib.metadata import version; print(*map(version, {list(bounds)}))"
        told = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True)  # noqa: S603 (ours)
        versions = dict(zip(bounds, told.stdout.split(), strict=True))
        command = [python, "-m", "pytest", "-n", "auto", "-q", "-p", "no:cacheprovider", *tests]
        # The environment's commands first: tests start programs, too.
        environment = {**os.environ, "PATH": os.pathsep.join([str(python.parent), os.environ.get("PATH", "")])}
        run = subprocess.run(  # noqa: S603 (ours)
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    if run.returncode:
        print(run.stdout)
    summary = re.findall(r"(\d+) (passed|failed|skipped|error)", run.stdout.rstrip().rpartition("\n")[2])
    counts = {outcome: int(number) for number, outcome in summary}
    note = "" if run.returncode == 0 else f"pytest ended with {run.returncode}"
    return Row(version, kind, versions, counts, note, time.monotonic() - started)


def print_table(rows: Sequence[Row]) -> None:
    """Print a line for each run, aligned."""
    names = list(lower_bounds())
    table = [["Python", "set", *names, "passed", "failed", "skipped", "time"]]
    for row in rows:
        counts = row.counts
        failed = counts.get("failed", 0) + counts.get("error", 0)
        told = [str(counts.get("passed", 0)), str(failed), str(counts.get("skipped", 0))] if counts else ["-"] * 3
        clock = f"{int(row.seconds) // 60}:{int(row.seconds) % 60:02}"
        table.append([row.python, row.kind, *(row.versions.get(name, "-") for name in names), *told, clock])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line, row in zip(table, [None, *rows], strict=True):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        if row is not None and row.note:
            print("".join(f"    {text}\n" for text in row.note.splitlines()), end="")


def main() -> int:
    """Run what the command line asks for; 0 if all tests passed."""
    description, _, epilog = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=SETS, help="one set of dependencies, instead of both")
    parser.add_argument("--python", choices=PYTHONS, help="one Python, instead of all that are found")
    parser.add_argument("--first", action="store_true", help="the first Python that is found, instead of all")
    parser.add_argument("--quick", action="store_true", help="the tests that depend most on versions, instead of all")
    arguments = parser.parse_args()
    pythons = {version: interpreter(version) for version in ([arguments.python] if arguments.python else PYTHONS)}
    tests = [f"tests/test_{name}.py" for name in QUICK] if arguments.quick else []
    rows, is_failed = [], False
    for kind in [arguments.only] if arguments.only else SETS:
        found = [version for version in SETS[kind] if pythons.get(version)]
        if not found:
            print(f"NOT TESTED: the {kind} dependencies, for want of a Python {', '.join(SETS[kind])}")
            is_failed |= not arguments.first
        for version in found[:1] if arguments.first else found:
            print(f"Python {version}, {kind} dependencies ...", flush=True)
            rows.append(run_tests(pythons[version], version, kind, tests))
    print_table(rows)
    return int(is_failed or any(row.note for row in rows))


if __name__ == "__main__":
    sys.exit(main())
