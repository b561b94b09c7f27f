"""Model files: read without their external data, written whole or not at all."""

from collections.abc import Callable, Iterator
from contextlib import suppress
import os
from pathlib import Path
from secrets import token_hex
import shutil
from typing import BinaryIO

from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, TensorProto
from onnx.external_data_helper import uses_external_data

from maxpool_ort.errors import InvalidModelError

__all__ = ["has_external_data", "parse_model", "read_model", "write_model", "write_whole"]


def parse_model(data: bytes, what: str) -> ModelProto:
    """Parse a serialized model; ``what`` names it in the error.

    Raises
    ------
    InvalidModelError
        If it is none.
    """
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise InvalidModelError(f"{what}: expected an ONNX model, got {_looks_like(data)}") from error
    if not model.HasField("graph"):
        raise InvalidModelError(f"{what}: expected an ONNX model, got {_looks_like(data)} without a graph")
    return model


def _looks_like(data: bytes) -> str:
    if not data:
        return "no data at all"
    if data[4:8] == b"ORTM":
        return "a model in ORT format, which cannot be converted; use the ONNX model it was made from"
    return f"{len(data)} bytes that start with {data[:16]!r}"


def read_model(path: str | os.PathLike[str]) -> ModelProto:
    """Read a model file; tensors that it keeps in other files stay there.

    Raises
    ------
    OSError
        If the file cannot be read.
    InvalidModelError
        If it holds no ONNX model.
    """
    return parse_model(Path(path).read_bytes(), os.fspath(path))


def write_model(model: ModelProto, path: str | os.PathLike[str]) -> None:
    """Write a model file, whole or not at all: see ``write_whole``."""
    data = model.SerializeToString()
    write_whole(path, lambda file: file.write(data))


def write_whole(path: str | os.PathLike[str], write: Callable[[BinaryIO], object]) -> None:
    """Let ``write`` fill a file so that at any moment ``path`` is what it was or the whole new file.

    A link stays one, and what it points to is replaced. A device or a pipe is written to, never replaced.

    Raises
    ------
    OSError
        If the file cannot be written; nothing is left behind.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as file:  # fails for a folder
                write(file)
        else:
            _replace(target, write)
    except OSError as error:  # name the file that was asked for
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def _replace(target: Path, write: Callable[[BinaryIO], object]) -> None:
    new = target.with_name(f".{target.name}.{token_hex(4)}")
    try:
        with new.open("xb") as file:
            write(file)
        if target.exists():
            shutil.copymode(target, new)
        new.replace(target)
    finally:
        with suppress(OSError):  # it is not there: either it is the target now, or it could not be made
            new.unlink()


def has_external_data(model: ModelProto) -> bool:
    """Whether any tensor of the model, at any depth, is kept in another file."""
    return any(map(uses_external_data, _tensors(model.graph)))


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for body in (attribute.g, *attribute.graphs):
                yield from _tensors(body)
