"""Break the operator on purpose, one line at a time, and see that a test notices: prints each mutant and its fate.

Run from the repository root, in the environment of the tests::

    python scripts/mutants.py            # all, about ten minutes
    python scripts/mutants.py kernel     # those of one module

Each mutant is a copy of the package with one expression changed, on which the tests of the operator run until the first
failure. Exits with 1 if one survives. The table is made by hand: the changes that a slip of the pen would make.
"""

import os
from pathlib import Path
import shutil
import subprocess
import sys
import tempfile

ROOT = Path(__file__).parents[1]
TESTS = [
    "tests/test_operator.py",
    "tests/test_geometry.py",
    "tests/test_schema.py",
    "tests/test_wire.py",
    "tests/test_array.py",
]

# (module, what stands there, what is put there instead)
MUTANTS = [
    ("geometry", "return -((extent - 1 - size) // stride)", "return (size - extent + 1) // stride"),
    ("geometry", "return -(-size // stride)", "return size // stride"),
    ("geometry", "return span // stride + 1", "return int(span / stride) + 1"),
    ("geometry", "output = -(-span // stride) + 1", "output = span // stride + 1"),
    ("geometry", "(output - 1) * stride >= size + pad_begin", "(output - 1) * stride > size + pad_begin"),
    ("geometry", "(output - 1) * stride >= size + pad_begin", "(output - 1) * stride >= size"),
    ("geometry", "total = max(0, (output - 1) * stride + extent - size)", "total = (output - 1) * stride + extent - size"),
    ("geometry", "total // 2 if auto_pad is AutoPad.SAME_UPPER", "total // 2 if auto_pad is AutoPad.SAME_LOWER"),
    ("geometry", "pad_end = total - pad_begin", "pad_end = total // 2"),
    ("geometry", "(self.kernel - 1) * self.dilation + 1", "self.kernel * self.dilation"),
    ("geometry", "if axis.output < 0:", "if axis.output < -1:"),
    ("geometry", "first = max(0, -(-offset // self.stride))", "first = max(0, offset // self.stride)"),
    ("geometry", "last = min(self.output - 1, ", "last = min(self.output, "),
    ("geometry", "if len(taps) <= 4 * (self.input + self.output):", "if True:"),
    ("kernel", "first_tap = np.maximum(0, -(origins // axis.dilation))", "first_tap = np.maximum(0, -origins // axis.dilation)"),
    ("kernel", "empty = (first_tap >= axis.kernel) | (first >= axis.input)", "empty = first_tap >= axis.kernel"),
    ("kernel", "empty = (first_tap >= axis.kernel) | (first >= axis.input)", "empty = first >= axis.input"),
    ("kernel", "all(step[1] == step[2] for step in steps)", "bool(steps)"),
    ("kernel", "prod(taps[i + 1 :])", "prod(taps[:i])"),
    ("kernel", "prod(sizes[:i]) if storage_order else", "prod(sizes[i + 1 :]) if storage_order else"),
    ("kernel", "np.min_scalar_type(max(0, prod(taps) - 1))", "np.dtype(np.uint8)"),
    ("kernel", "np.min_scalar_type(max(0, prod(taps) - 1))", "np.dtype(np.uint16)"),
    ("kernel", "* axis.dilation * weight", "* weight"),
    ("kernel", "axis.stride - axis.pad_begin) * weight", "axis.stride) * weight"),
    ("kernel", "y.fill(lowest(x.dtype))", "y.fill(0)"),
    ("kernel", "indices.fill(-1)", "indices.fill(0)"),
    ("kernel", "np.arange(first_plane, first_plane + len(x), dtype=np.int64)", "np.arange(len(x), dtype=np.int64)"),
    ("kernel", "* x[0].size", "* y[0].size"),
    ("kernel", "y[_at(axis, along.empty)] = lowest(y.dtype)", "y[_at(axis, along.empty)] = 0"),
    ("kernel", "indices[_at(axis, along.empty)] = -1", "pass"),
    ("kernel", 'if x.dtype.kind == "f" and np.isnan(x).any() else np.greater', "if False else np.greater"),
    ("kernel", "_greater_or_first_nan if x.dtype", "np.greater_equal if x.dtype"),
    ("kernel", "else np.greater\n", "else np.greater_equal\n"),
    ("kernel", "(np.isnan(candidate) & ~np.isnan(current))", "np.isnan(candidate)"),
    ("kernel", "code[_at(axis, inputs)] + plan", "0 * code[_at(axis, inputs)] + plan"),
    ("kernel", "candidate_code *= greater(candidate, target)", "greater(candidate, target)"),
    ("kernel", "if along.steps[:1] == (along.whole,) else None", "if True else None"),
    ("kernel", "if step is not along.whole:", "if step is along.whole:"),
    ("kernel", "np.maximum(target, x[_at(axis, inputs)], out=target)", "np.fmax(target, x[_at(axis, inputs)], out=target)"),
    ("kernel", "in reversed(_passes(plan)):", "in _passes(plan):"),
    ("kernel", "np.where(np.signbit(x), -magnitude, magnitude)", "np.where(np.signbit(x), -magnitude - 1, magnitude)"),
    ("kernel", "keys[magnitude > _INFINITY_BITS] = _MAGNITUDE_BITS", "pass"),
    ("kernel", "np.where(keys < 0, magnitude | np.int16(-0x8000), magnitude)", "magnitude"),
    ("wire", "if encode(attributes) != text:", "if False:"),
]  # fmt: skip


def survives(module: str, old: str, new: str, folder: Path) -> bool:
    """Whether all tests pass on a copy of the package in which ``old`` reads ``new``."""
    source = ROOT / "maxpool_ort" / f"{module}.py"
    text = source.read_text()
    if text.count(old) < 1:
        raise SystemExit(f"{module}.py no longer holds {old!r}; mend the table")
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", ".venv", ".*_cache", ".hypothesis"))
    (folder / "maxpool_ort" / f"{module}.py").write_text(text.replace(old, new))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *TESTS]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode not in {0, 1, 2}:
        raise SystemExit(f"the tests did not run:\n{done.stdout}{done.stderr}")
    return done.returncode == 0


def main() -> int:
    """Try every mutant, or those of the modules that are named; 1 if one survives."""
    chosen = [mutant for mutant in MUTANTS if len(sys.argv) == 1 or mutant[0] in sys.argv[1:]]
    alive = 0
    for number, (module, old, new) in enumerate(chosen, start=1):
        with tempfile.TemporaryDirectory() as folder:
            lives = survives(module, old, new, Path(folder) / "copy")
        alive += lives
        print(f"{number:3} {'SURVIVED' if lives else 'killed  '} {module}: {old.strip()} -> {new.strip()}", flush=True)
    print(f"{len(chosen) - alive} of {len(chosen)} killed")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
