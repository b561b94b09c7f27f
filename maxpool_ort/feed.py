"""Arrays for a session: from files, from a sample beside the model, or made up, checked; and its outputs to a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
import os
from pathlib import Path
from typing import Any, BinaryIO, Protocol
import zipfile

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, load_tensor, numpy_helper

from maxpool_ort.errors import InvalidModelError, MaxPoolError
from maxpool_ort.files import write_whole
from maxpool_ort.limits import get_memory_limit
from maxpool_ort.schema import shown

__all__ = [
    "Feed", "check_destination", "check_feed", "count_right", "find_feed", "find_sample", "load_arrays", "random_feed",
    "save_arrays",
]  # fmt: skip

Array = NDArray[Any]

_UNKNOWN_SIZE = 16
"""Size that made-up data has along a dimension that a model does not fix, except the first: that is 1."""


class _Input(Protocol):
    """What onnxruntime tells of a graph input."""

    name: str
    type: str
    shape: Sequence[int | str | None]


@dataclass(frozen=True)
class Feed:
    """Data for a model's inputs, by their names, and where it comes from."""

    arrays: dict[str, Array]
    source: str
    files: tuple[Path, ...] = ()
    label: Array = field(default_factory=lambda: np.empty(0, np.int64))
    """What a sample says about the rows of the first output; empty if it says nothing."""


def find_feed(model: str | os.PathLike[str], inputs: Sequence[_Input], given: Sequence[str], seed: int) -> Feed:
    """Data from the files given as ``NAME=FILE`` or, if there are none, from a sample beside the model, or made up.

    It is checked: see ``check_feed``.

    Raises
    ------
    OSError
        If a file cannot be read.
    MaxPoolError
        If a file holds no arrays, or not the ones that are asked for, or if they do not fit the inputs.
    """
    if given:
        return _given_feed(inputs, given)
    names = [each.name for each in inputs]
    sample = find_sample(model, inputs)
    if sample is None:
        made_up = random_feed(inputs, seed)
        shapes = ", ".join(f"{name} {array.dtype} {array.shape}" for name, array in made_up.items())
        return Feed(made_up, f"random data, seed {seed} ({shapes})")
    try:
        arrays = load_arrays(sample)
    except MaxPoolError as error:
        raise MaxPoolError(f"sample {error}; give other data with --input") from error
    label = {"label": arrays.pop("label")} if "label" in arrays and "label" not in names else {}
    if set(arrays) == {""}:
        arrays = {names[0]: arrays[""]}
    try:
        check_feed(inputs, arrays)
    except MaxPoolError as error:
        raise MaxPoolError(f"sample {sample}: {error}; give other data with --input") from error
    return Feed(arrays, f"sample {sample}", (sample,), **label)


def _given_feed(inputs: Sequence[_Input], given: Sequence[str]) -> Feed:
    names = [each.name for each in inputs]
    has = f"the inputs {shown(names)}" if names else "no inputs"
    arrays: dict[str, Array] = {}
    files = []
    for option in given:
        name, equals, path = option.partition("=")
        if not equals and len(names) != 1:
            raise MaxPoolError(f"--input {option}: write NAME=FILE; the model has {has}")
        name, path = (name, path) if equals else (names[0], option)
        if name not in names:
            raise MaxPoolError(f"--input {option}: {name!r} is no input; the model has {has}")
        if name in arrays:
            raise MaxPoolError(f"--input {option}: data for {name!r} was given before; give one file for each input")
        arrays[name] = _pick(load_arrays(path), name, path)
        files.append(Path(path))
    check_feed(inputs, arrays)
    return Feed(arrays, ", ".join(given), tuple(files))


def _pick(arrays: dict[str, Array], name: str, path: str) -> Array:
    if name in arrays:
        return arrays[name]
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    raise MaxPoolError(f"{path}: expected an array named {name!r}, or one array only, got {shown(list(arrays))}")


def count_right(output: Any, label: Array) -> int | None:
    """In how many rows of an output (N, classes) the largest entry stands at the label; None if labels do not fit.

    >>> count_right(np.array([[0.1, 0.9], [0.8, 0.2]]), np.array([1, 1]))
    1
    """
    if not label.size or label.dtype.kind not in "iu" or not isinstance(output, np.ndarray):
        return None
    if output.ndim != 2 or len(output) != label.size or not output.shape[1]:
        return None
    return int((output.argmax(axis=1) == label.ravel()).sum())


def load_arrays(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The arrays of a .npz by their names, or the one array of a .npy or of a TensorProto .pb under the name ``""``.

    Raises
    ------
    OSError
        If the file cannot be read.
    MaxPoolError
        If it is none of the three.
    """
    suffix = Path(path).suffix
    try:
        if suffix == ".npz":
            with np.load(path) as arrays:
                return dict(arrays)
        if suffix == ".npy":
            return {"": np.load(path)}
        if suffix == ".pb":
            return {"": numpy_helper.to_array(load_tensor(os.fspath(path)))}
    except OSError:
        raise
    except Exception as error:
        raise MaxPoolError(
            f"{os.fspath(path)}: expected a {suffix} file, but it cannot be read as one: {error}"
        ) from error
    raise MaxPoolError(
        f"{os.fspath(path)}: expected a .npy, .npz or .pb (TensorProto) file, got {suffix or 'no suffix'}"
    )


def find_sample(model: str | os.PathLike[str], inputs: Sequence[_Input]) -> Path | None:
    """The sample file beside a model: its name with .npz or, for a model of one input, .npy or .pb."""
    suffixes = (".npz", ".npy", ".pb") if len(inputs) == 1 else (".npz",)
    samples = (Path(model).with_suffix(suffix) for suffix in suffixes)
    return next((sample for sample in samples if sample != Path(model) and sample.is_file()), None)


def check_destination(path: str | os.PathLike[str], outputs: Sequence[str], sources: Sequence[Path]) -> None:
    """Hold the file that outputs shall go to against what they are, and what they are made from, before any work.

    Raises
    ------
    MaxPoolError
        If the kind of file cannot hold these outputs, or if the file is one of ``sources``.
    """
    target = Path(path)
    if target.suffix not in {".npz", ".npy", ".pb"}:
        raise MaxPoolError(f"--output {path}: expected a .npy, .npz or .pb file, got {target.suffix or 'no suffix'}")
    if target.suffix != ".npz" and len(outputs) != 1:
        raise MaxPoolError(
            f"--output {path}: the model has {len(outputs)} outputs, which only a .npz file can hold; write to one"
        )
    for source in sources:
        if target.exists() and source.exists() and target.samefile(source):
            raise MaxPoolError(f"--output {path}: this file is read by the same run; write to another one")


def save_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write arrays, whole or not at all: any number to a .npz, one to a .npy or a TensorProto .pb.

    Raises
    ------
    OSError
        If the file cannot be written.
    MaxPoolError
        If one of them is no array of numbers.
    """
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or array.dtype.hasobject:
            got = "an array of strings" if isinstance(array, np.ndarray) else type(array).__name__
            raise MaxPoolError(f"output {name!r}: only tensors of numbers can be written, got {got}")
    suffix = Path(path).suffix
    if suffix == ".npz":
        write_whole(path, lambda file: _write_npz(file, arrays))
    elif suffix == ".npy":
        write_whole(path, lambda file: np.save(file, *arrays.values()))
    else:
        ((name, array),) = arrays.items()
        data = numpy_helper.from_array(array, name).SerializeToString()
        write_whole(path, lambda file: file.write(data))


def _write_npz(file: BinaryIO, arrays: Mapping[str, Array]) -> None:
    """Write what ``np.savez`` would, which takes no array of the name "file"."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def dtype_of(each: _Input) -> np.dtype[Any]:
    """NumPy dtype of a graph input."""
    name = each.type.removeprefix("tensor(").removesuffix(")").upper()
    if name not in TensorProto.DataType.keys():  # noqa: SIM118 (an enum wrapper, no dict)
        raise InvalidModelError(f"input {each.name!r}: only tensors can be fed, got {each.type}")
    return np.dtype(helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(name)))


def random_feed(inputs: Sequence[_Input], seed: int) -> dict[str, Array]:
    """Data of the declared dtypes and shapes, the same for the same seed; unknown sizes are 1 (first) and 16 (others).

    Floats are drawn from the standard normal distribution, integers evenly from those that int8 and the dtype share.
    """
    rng = np.random.default_rng(seed)
    feed = {}
    for each in inputs:
        dtype = dtype_of(each)
        shape = [s if isinstance(s, int) else 1 if i == 0 else _UNKNOWN_SIZE for i, s in enumerate(each.shape)]
        if prod(shape) * 8 > get_memory_limit():  # random numbers have 8 bytes at first
            raise MaxPoolError(
                f"input {each.name!r}: shape {tuple(shape)} is too large to make up; give --input {each.name}=FILE"
            )
        if dtype.kind in "iu":
            low, high = (0, 255) if dtype.kind == "u" else (-128, 127)
            feed[each.name] = rng.integers(low, high, shape, endpoint=True).astype(dtype)
        elif dtype.kind in "fb":
            feed[each.name] = rng.standard_normal(shape).astype(dtype)
        else:
            raise InvalidModelError(
                f"input {each.name!r}: cannot make up data of type {each.type}; give --input {each.name}=FILE"
            )
    return feed


def check_feed(inputs: Sequence[_Input], feed: Mapping[str, Array]) -> None:
    """Hold arrays against the declared inputs.

    Raises
    ------
    MaxPoolError
        If a name, a dtype, a rank or a size is wrong, or an input is missing: which, expected and got.
    """
    expected = {each.name: each for each in inputs}
    names = shown(list(expected))
    for name, array in feed.items():
        if name not in expected:
            raise MaxPoolError(f"input {name!r}: the model has no such input, only {names}")
        each = expected[name]
        if array.dtype != dtype_of(each):
            raise MaxPoolError(f"input {name!r}: expected dtype {dtype_of(each)}, got {array.dtype}")
        declared = tuple(each.shape)
        if len(declared) != array.ndim or any(
            isinstance(want, int) and want != got for want, got in zip(declared, array.shape, strict=True)
        ):
            raise MaxPoolError(f"input {name!r}: expected shape {declared}, got {array.shape}")
    missing = [name for name in expected if name not in feed]
    if missing:
        raise MaxPoolError(f"inputs {shown(missing)}: no data given; the model needs {names}")
