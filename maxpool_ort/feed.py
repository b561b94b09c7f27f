"""Inputs for a session: from files, from a sample beside the model, or made up; checked before they are run."""

from collections.abc import Mapping, Sequence
import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, load_tensor, numpy_helper

from maxpool_ort.errors import InvalidModelError, MaxPoolError

__all__ = ["check_feed", "find_sample", "load_arrays", "random_feed"]

Array = NDArray[Any]

_UNKNOWN_SIZE = 16
"""Size that made-up data has along a dimension that a model does not fix, except the first: that is 1."""


class _Input(Protocol):
    """What onnxruntime tells of a graph input."""

    name: str
    type: str
    shape: Sequence[int | str | None]


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


def find_sample(model: str | os.PathLike[str]) -> Path | None:
    """The sample file beside a model: its name with .npz, .npy or .pb."""
    return next((p for p in (Path(model).with_suffix(s) for s in (".npz", ".npy", ".pb")) if p.is_file()), None)


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
        if dtype.kind in "iu":
            low, high = (0, 255) if dtype.kind == "u" else (-128, 127)
            feed[each.name] = rng.integers(low, high, shape, endpoint=True).astype(dtype)
        elif dtype.kind in "fb":
            feed[each.name] = rng.standard_normal(shape).astype(dtype)
        else:
            raise InvalidModelError(f"input {each.name!r}: cannot make up data of type {each.type}; give a file")
    return feed


def check_feed(inputs: Sequence[_Input], feed: Mapping[str, Array]) -> None:
    """Hold arrays against the declared inputs.

    Raises
    ------
    MaxPoolError
        If a name, a dtype, a rank or a size is wrong, or an input is missing: which, expected and got.
    """
    expected = {each.name: each for each in inputs}
    names = ", ".join(map(repr, expected)) or "none"
    for name, array in feed.items():
        if name not in expected:
            raise MaxPoolError(f"input {name!r}: the model has no such input, only {names}")
        each = expected[name]
        if array.dtype != dtype_of(each):
            raise MaxPoolError(f"input {name!r}: expected dtype {dtype_of(each)}, got {array.dtype}")
        declared = tuple(each.shape)
        if len(declared) != array.ndim:
            raise MaxPoolError(
                f"input {name!r}: expected rank {len(declared)} {declared}, got {array.ndim} {array.shape}"
            )
        if any(isinstance(want, int) and want != got for want, got in zip(declared, array.shape, strict=True)):
            raise MaxPoolError(f"input {name!r}: expected shape {declared}, got {array.shape}")
    missing = [name for name in expected if name not in feed]
    if missing:
        raise MaxPoolError(f"input {', '.join(map(repr, missing))}: no data given; the model needs {names}")
