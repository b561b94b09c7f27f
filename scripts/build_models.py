"""Build every file in `models/`: a small model for each feature of MaxPool-12, networks and, with `--train`, a trained one.

Run in the environment that the package is installed in::

    python scripts/build_models.py            # the models of FEATURES, and the sample inputs beside some of them
    python scripts/build_models.py --check    # write nothing; exit 1 and list what in models/ is not what is built
    python scripts/build_models.py --train    # digits.onnx and digits.npz too; needs torch and scikit-learn

Every run gives the same bytes: nothing is random, and nothing tells the time or the machine. `models/README.md` has a
row for each file; a test holds it, the table here and the folder together.
"""

import argparse
from collections.abc import Sequence
from importlib.util import find_spec
import io
from math import prod
from pathlib import Path
import subprocess
import sys
from typing import Any, NamedTuple
import zipfile

import numpy as np
import onnx

import maxpool_ort as mp

ROOT = Path(__file__).resolve().parents[1]
TRAIN_SCRIPT = ROOT / "scripts" / "train_digits.py"
TRAINED = {"digits.onnx", "digits.npz"}
"""What `TRAIN_SCRIPT` writes."""
BUILT_SUFFIXES = {".onnx", ".npz"}
"""Files of these kinds belong to `FEATURES` or to `TRAINED`; whatever else lies in the folder is none of ours."""


class Feature(NamedTuple):
    """A model of one MaxPool node: its file name, how it is made, and a sample input if it has one."""

    name: str
    arguments: dict[str, Any]
    description: str
    sample_shape: tuple[int, ...] | None = None


def _with_dtype(dtype: str) -> Feature:
    arguments = {"input_shape": [2, 3, 7, 5], "kernel_shape": [3, 2], "strides": [2, 1], "dtype": dtype}
    return Feature(f"maxpool_dtype_{dtype}", arguments, f"X and Y of dtype {dtype}")


# N, C > 1, and no two spatial axes alike: square, symmetric cases hide wrong strides and offsets.
FEATURES = [
    # number of spatial axes
    Feature(
        "maxpool_1d",
        {"input_shape": [2, 3, 17], "kernel_shape": [3], "strides": [2]},
        "one spatial axis",
    ),
    Feature(
        "maxpool_2d",
        {"input_shape": [2, 3, 9, 7], "kernel_shape": [3, 2], "strides": [2, 1]},
        "two spatial axes, another window and stride along each",
    ),
    Feature(
        "maxpool_3d",
        {"input_shape": [2, 3, 5, 9, 7], "kernel_shape": [2, 3, 4], "strides": [2, 1, 3]},
        "three spatial axes, another window and stride along each",
    ),
    # Indices; the samples are small integers, so that many windows have ties
    Feature(
        "maxpool_indices",
        {"input_shape": [2, 3, 7, 5], "kernel_shape": [3, 2], "strides": [2, 1], "with_indices": True},
        "second output Indices, row-major",
        sample_shape=(2, 3, 7, 5),
    ),
    Feature(
        "maxpool_indices_column_major",
        {
            "input_shape": [2, 3, 7, 5],
            "kernel_shape": [3, 2],
            "strides": [2, 1],
            "storage_order": 1,
            "with_indices": True,
        },
        "Indices column-major over the spatial axes (storage_order 1)",
        sample_shape=(2, 3, 7, 5),
    ),
    # which elements a window sees
    Feature(
        "maxpool_dilations",
        {"input_shape": [2, 3, 11, 9], "kernel_shape": [3, 2], "strides": [1, 2], "dilations": [2, 3]},
        "dilations 2 and 3: gaps between the taps of a window",
    ),
    Feature(
        "maxpool_ceil_mode",
        {"input_shape": [2, 3, 7, 11], "kernel_shape": [2, 4], "strides": [3, 2], "ceil_mode": 1},
        "ceil_mode 1: the last window along each axis hangs over the end; ceil_mode 0 gives 2 x 4",
    ),
    Feature(
        "maxpool_auto_pad_notset",
        {
            "input_shape": [2, 3, 7, 5],
            "kernel_shape": [3, 4],
            "strides": [2, 3],
            "auto_pad": "NOTSET",
            "pads": [1, 0, 2, 3],
        },
        "auto_pad NOTSET with four different pads",
    ),
    Feature(
        "maxpool_auto_pad_valid",
        {"input_shape": [2, 3, 7, 5], "kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "VALID"},
        "auto_pad VALID: no pads",
    ),
    Feature(
        "maxpool_auto_pad_same_upper",
        {"input_shape": [2, 3, 7, 5], "kernel_shape": [4, 2], "strides": [2, 1], "auto_pad": "SAME_UPPER"},
        "auto_pad SAME_UPPER: odd total pads, the extra one at the end",
    ),
    Feature(
        "maxpool_auto_pad_same_lower",
        {"input_shape": [2, 3, 7, 5], "kernel_shape": [4, 2], "strides": [2, 1], "auto_pad": "SAME_LOWER"},
        "auto_pad SAME_LOWER: odd total pads, the extra one at the beginning",
    ),
    # dtypes
    *map(_with_dtype, ["float16", "float32", "float64", "int8", "uint8"]),
    # everything that goes together; the sample says what the symbolic dimensions may be
    Feature(
        "maxpool_all_together",
        {
            "input_shape": ["N", "C", "D1", "D2"],
            "kernel_shape": [3, 2],
            "strides": [2, 3],
            "dilations": [2, 3],
            "pads": [1, 1, 2, 0],
            "ceil_mode": 1,
            "storage_order": 1,
            "with_indices": True,
        },
        "symbolic dimensions, strides, dilations, pads, ceil_mode 1, column-major Indices",
        sample_shape=(2, 3, 9, 11),
    ),
]


class Network(NamedTuple):
    """A whole network, to see what select is for; its weights are one constant each, so that the file is small."""

    name: str
    description: str
    text: str


def _conv(x: str, y: str, channels: tuple[int, int], size: int, stride: int = 1) -> str:
    """Conv and Relu from x to y, with weights of their own."""
    shape = f"{channels[1]}, {channels[0]}, {size}, {size}"
    pad = size // 2
    return f"""
        {y}_shape = Constant <value = int64[4] {{{shape}}}> ()
        {y}_weights = ConstantOfShape <value = float[1] {{{1 / (channels[0] * size * size)}}}> ({y}_shape)
        {y}_sum = Conv <kernel_shape = [{size}, {size}], strides = [{stride}, {stride}], pads = [{pad}, {pad}, {pad}, {pad}]>
            ({x}, {y}_weights)
        {y} = Relu ({y}_sum)"""


NETWORKS = [
    Network(
        "spp",
        "a detector's spatial pyramid: windows of 5, 9 and 13 on one tensor, after one of 2",
        f"""<ir_version: 7, opset_import: ["": 12]>
        spp (float[1, 3, 320, 320] image) => (float[1, 256, 1, 1] features) {{
            {_conv("image", "a", (3, 16), 3, 2)}
            {_conv("a", "b", (16, 32), 3, 2)}
            {_conv("b", "c", (32, 64), 3, 2)}
            [pool2] d = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (c)
            {_conv("d", "e", (64, 256), 1)}
            [pool5] p5 = MaxPool <kernel_shape = [5, 5], pads = [2, 2, 2, 2]> (e)
            [pool9] p9 = MaxPool <kernel_shape = [9, 9], pads = [4, 4, 4, 4]> (e)
            [pool13] p13 = MaxPool <kernel_shape = [13, 13], pads = [6, 6, 6, 6]> (e)
            f = Concat <axis = 1> (e, p5, p9, p13)
            {_conv("f", "g", (1024, 256), 1)}
            features = GlobalAveragePool (g)
        }}""",
    ),
    Network(
        "segnet",
        "an encoder that keeps Indices, and a decoder that puts its maxima back where they were",
        f"""<ir_version: 7, opset_import: ["": 12]>
        segnet (float[1, 3, 160, 160] image) => (float[1, 16, 160, 160] classes) {{
            {_conv("image", "a", (3, 32), 3)}
            [pool1] b, i1 = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (a)
            {_conv("b", "c", (32, 64), 3)}
            [pool2] d, i2 = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (c)
            {_conv("d", "e", (64, 64), 3)}
            f = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (e, i2)
            {_conv("f", "g", (64, 32), 3)}
            h = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (g, i1)
            {_conv("h", "classes", (32, 16), 3)}
        }}""",
    ),
]


def build_network(network: Network) -> onnx.ModelProto:
    """Return the model of a network, documented and checked."""
    model = onnx.parser.parse_model(network.text)
    model.doc_string, model.producer_name = network.description, "maxpool_ort"
    onnx.checker.check_model(model, full_check=True)
    return model


def build_model(feature: Feature) -> onnx.ModelProto:
    """Return the model of a feature, documented and checked."""
    model = mp.make_maxpool_model(**feature.arguments, name=feature.name)
    model.doc_string = feature.description
    onnx.checker.check_model(model, full_check=True)
    return model


def make_sample(shape: Sequence[int]) -> np.ndarray:
    """Return X of this shape, float32: integers from -9 to 9 without a pattern that the eye would see.

    They are the squares modulo 19 of an arithmetic progression, since NumPy's random numbers may change with NumPy.
    """
    number = np.arange(prod(shape), dtype=np.int64)
    return ((7 * number * number + 3 * number + number // 19) % 19 - 9).astype(np.float32).reshape(shape)


def to_npz(x: np.ndarray) -> bytes:
    """Return a .npz file that holds X, without time stamps; what `np.savez` writes varies with the Python version."""
    array, archive = io.BytesIO(), io.BytesIO()
    np.save(array, x, allow_pickle=False)
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(zipfile.ZipInfo("X.npy"), array.getvalue())
    return archive.getvalue()


def build() -> dict[str, bytes]:
    """Return what belongs into each file that `FEATURES` names."""
    files = {}
    for feature in FEATURES:
        files[f"{feature.name}.onnx"] = build_model(feature).SerializeToString(deterministic=True)
        if feature.sample_shape is not None:
            files[f"{feature.name}.npz"] = to_npz(make_sample(feature.sample_shape))
    for network in NETWORKS:
        files[f"{network.name}.onnx"] = build_network(network).SerializeToString(deterministic=True)
    return files


def find_differences(folder: Path) -> list[str]:
    """Hold a folder against what is built: one line for each file that is missing, differs or is not built at all."""
    files = build()
    lines = []
    for name, data in files.items():
        path = folder / name
        if not path.is_file():
            lines.append(f"{name}: missing")
        elif path.read_bytes() != data:
            lines.append(f"{name}: differs from what is built")
    lines += [f"{name}: {problem}" for name in sorted(TRAINED) if (problem := find_problem(folder / name))]
    there = {path.name for path in folder.glob("*") if path.suffix in BUILT_SUFFIXES}
    return lines + [f"{name}: not built by this script" for name in sorted(there - files.keys() - TRAINED)]


def find_problem(path: Path) -> str | None:
    """Say why a file of the trained model is of no use, or return None; training again need not give the same bytes."""
    if not path.is_file():
        return "missing"
    try:
        if path.suffix == ".onnx":
            onnx.checker.check_model(onnx.load(path), full_check=True)
        else:
            with np.load(path) as arrays:
                _ = arrays["image"], arrays["label"]
    except Exception as error:  # noqa: BLE001 (whatever it is, the file cannot be used)
        return f"does not load: {type(error).__name__}: {error}"
    return None


def write(folder: Path) -> None:
    """Write the files that are built, and print what was done to each."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in build().items():
        path = folder / name
        is_same = path.is_file() and path.read_bytes() == data
        if not is_same:
            path.write_bytes(data)
        print(f"{'same already' if is_same else 'wrote'}: {path} ({len(data)} bytes)")


def train(folder: Path) -> str | None:
    """Train and write the trained model; return why that was not done, or None."""
    absent = [name for name in ("torch", "sklearn") if find_spec(name) is None]
    if absent:
        return f"this Python has no {' and no '.join(absent)}; see the head of {TRAIN_SCRIPT} for how to run it"
    sys.stdout.flush()  # what was done so far stands before what the other process prints
    command = [sys.executable, str(TRAIN_SCRIPT), "--out", str(folder)]
    status = subprocess.run(command, check=False).returncode  # noqa: S603 (nothing in it comes from outside)
    return f"{TRAIN_SCRIPT} failed with exit status {status}; do not use what it may have written" if status else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check; print what was done and what was left; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "models", help="the folder (default: %(default)s)")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="compare only; exit 1 if anything differs")
    mode.add_argument("--train", action="store_true", help="train the trained model too")
    options = parser.parse_args(arguments)

    if options.check:
        differences = find_differences(options.out)
        print("\n".join(differences) or f"{options.out}: all as built; {' and '.join(sorted(TRAINED))} load")
        return 1 if differences else 0

    write(options.out)
    if options.train:
        reason = train(options.out)
        for name in sorted(TRAINED):
            print(f"left: {options.out / name}: {reason}" if reason else f"trained and wrote: {options.out / name}")
        return 1 if reason else 0
    for name in sorted(TRAINED):
        state = find_problem(options.out / name) or "there, and loads"
        print(f"left: {options.out / name}: {state}; --train makes it anew")
    return 0


if __name__ == "__main__":
    sys.exit(main())
