"""Break the operator on purpose, one line at a time, and see that a test notices: prints each mutant and its fate.

Run from the repository root, in the environment of the tests::

    python scripts/mutants.py                 # all, about a quarter of an hour
    python scripts/mutants.py kernel/plan     # those of one module

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
    "tests/test_kernel.py",
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
    ("kernel/plan", "shifts.append(min(width, kernel - width))", "shifts.append(width)"),
    ("kernel/plan", "while width < kernel:", "while width < kernel - 1:"),
    ("kernel/plan", "return max(0, axis.pad_begin, last", "return max(0, last"),
    ("kernel/plan", "last - axis.pad_begin + axis.extent - axis.input, last", "last"),
    ("kernel/plan", ", last + 1 - axis.input)", ")"),
    ("kernel/plan", "margin = sum(axis.pad_begin * elements", "margin = sum(axis.pad_begin"),
    ("kernel/plan", "taps * axis.dilation * prod(layout[i + 1 :])", "taps * prod(layout[i + 1 :])"),
    ("kernel/plan", "taps * axis.dilation * prod(layout[i + 1 :])", "taps * axis.dilation * prod(sizes[i + 1 :])"),
    ("kernel/plan", "in reversed(list(enumerate(axes))):", "in list(enumerate(axes)):"),
    ("kernel/plan", "if drops and layout[i] % axis.stride == 0:", "if drops:"),
    ("kernel/plan", "low = min(axis.input, max(0, origin))", "low = max(0, origin)"),
    ("kernel/plan", "pad_begin=low - origin", "pad_begin=0"),
    ("kernel/plan", "origin + (stop - start - 1) * axis.stride + axis.extent", "origin + (stop - start - 1) * axis.stride + axis.kernel"),
    ("kernel/plan", "return min(axis.output, max(0, -(-axis.pad_begin // axis.stride)))", "return min(axis.output, max(0, axis.pad_begin // axis.stride))"),
    ("kernel/plan", "-(-(axis.input + axis.pad_begin) // axis.stride)", "axis.output"),
    ("kernel/plan", "tap = np.maximum(0, -(origin // axis.dilation))", "tap = np.maximum(0, -origin // axis.dilation)"),
    ("kernel/plan", "is_empty = (tap >= axis.kernel) | (position >= axis.input)", "is_empty = tap >= axis.kernel"),
    ("kernel/plan", "is_empty = (tap >= axis.kernel) | (position >= axis.input)", "is_empty = position >= axis.input"),
    ("kernel/plan", " and positions <= MOST_GAPS * prod(axis.input for axis in axes)", ""),
    ("kernel/flat", "np.min_scalar_type(largest)", "np.dtype(np.uint8)"),
    ("kernel/flat", "np.min_scalar_type(int(of_rows.max()) + row + layout.row_extent)", "np.min_scalar_type(int(of_rows.max()))"),
    ("kernel/flat", "earlier, later = slice(0, valid), slice(shift, shift + valid)", "later, earlier = slice(0, valid), slice(shift, shift + valid)"),
    ("kernel/flat", "self._add(np.add, offsets[shift : shift + valid], dtype.type(shift), out=moved)", "self._add(np.add, offsets[shift : shift + valid], dtype.type(0), out=moved)"),
    ("kernel/flat", "self._add(np.maximum, positions[:valid], chosen, out=out[:valid])", "self._add(np.add, positions[:valid], chosen, out=out[:valid])"),
    ("kernel/flat", "self._add(np.maximum, values[earlier], values[later], out=maxima[earlier])", "self._add(np.fmax, values[earlier], values[later], out=maxima[earlier])"),
    ("kernel/flat", "valid = valid if along.is_along_rows else min(valid, whole)", "pass"),
    ("kernel/flat", "if self._lowest is not None and self._workspace.owner is not self:", "if False:"),
    ("kernel/flat", "np.isnan(later) & ~np.isnan(earlier)", "np.isnan(later)"),
    ("kernel/flat", "width not in (2, 4, 8) or array.shape[-1] % step", "width not in (2, 4, 8)"),
    ("kernel/flat", "layout.margin // row + planes", "planes"),
    ("kernel/flat", "self.origin = layout.pad_begin", "self.origin = 0"),
    ("kernel/block", 'if best.dtype.kind == "f" and np.isnan(best.max()):', "if False:"),
    ("kernel/block", "strides, greater_or_first_nan)", "strides, np.greater_equal)"),
    ("kernel/block", "strides, np.greater)\n        if", "strides, np.greater_equal)\n        if"),
    ("kernel/block", "if axis.pad_begin:", "if False:"),
    ("kernel/taps", "np.isnan(candidate) & ~np.isnan(target)", "np.isnan(candidate)"),
    ("kernel/taps", "(candidate > target)", "(candidate >= target)"),
    ("kernel/taps", "in reversed(list(enumerate(axes, start=1))):", "in list(enumerate(axes, start=1)):"),
    ("kernel/positions", "coordinate * prod(sizes[:number])", "coordinate * prod(sizes[number + 1 :])"),
    ("kernel/sortable", "np.subtract(out, sign, out=out)", "pass"),
    ("kernel/sortable", "out[is_nan] = _MAGNITUDE_BITS", "pass"),
    ("kernel/sortable", "sign & _SIGN_BIT", "0"),
    ("kernel/threads", "queue.clear()", "pass"),
    ("kernel/threads", "        done.get()", "        pass"),
    ("kernel/workspace", "self._programs.clear()", "pass"),
    ("kernel/workspace", "if self._is_kept:", "if True:"),
    ("kernel/__init__", "np.arange(first, first + len(x)) * prod", "np.arange(len(x)) * prod"),
    ("kernel/__init__", "+ piece.start(self._strides)", ""),
    ("kernel/__init__", "y[outputs] = lowest(y.dtype)", "pass"),
    ("kernel/__init__", "indices[outputs] = -1", "pass"),
    ("kernel/__init__", "and self._storage_order and x.size:", "and False:"),
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
