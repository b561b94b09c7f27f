"""Model files: read without their external data, written whole or not at all."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
import errno
import filecmp
from functools import partial
from itertools import chain
import os
from pathlib import Path
from secrets import token_hex
import shutil
from typing import BinaryIO

from google.protobuf.message import DecodeError, EncodeError
from onnx import FunctionProto, GraphProto, ModelProto, StringStringEntryProto, TensorProto
from onnx.external_data_helper import uses_external_data

from maxpool_ort.errors import InvalidModelError

__all__ = [
    "external_files",
    "external_tensors",
    "has_external_data",
    "parse_model",
    "place_external_files",
    "read_model",
    "remove_files",
    "serialized",
    "write_model",
    "write_whole",
]


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
    except UnicodeDecodeError as error:  # of protobuf in Python; others let it pass
        raise InvalidModelError(f"{what}: holds a name that is not UTF-8: {error.object!r}") from error
    if not model.HasField("graph"):
        got = f"{len(data)} bytes without a graph" if data else "an empty file"
        raise InvalidModelError(f"{what}: expected an ONNX model, got {got}")
    return model


def _looks_like(data: bytes) -> str:
    if data[4:8] == b"ORTM":
        return "a model in ORT format, which cannot be converted; use the ONNX model it was made from"
    return f"{len(data)} bytes that start with {data[:16]!r}; they are damaged, or nested too deeply, or no model"


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


def serialized(model: ModelProto) -> bytes:
    """A model as bytes.

    Raises
    ------
    InvalidModelError
        If it takes more than 2 GiB.
    """
    try:
        data: bytes = model.SerializeToString()
    except (EncodeError, ValueError) as error:  # which of them, depends on protobuf's version
        raise InvalidModelError(
            "the model takes more than 2 GiB, which ONNX cannot write; keep its large tensors in other files, "
            "with onnx.save_model(..., save_as_external_data=True)"
        ) from error
    return data


def write_model(model: ModelProto, path: str | os.PathLike[str]) -> None:
    """Write a model file, whole or not at all: see ``write_whole``."""
    data = serialized(model)
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
    return any(True for _ in external_tensors(model))


def external_tensors(model: ModelProto) -> Iterator[tuple[TensorProto, StringStringEntryProto]]:
    """Tensors of the model, at any depth, that are kept in other files, and the entry that says in which."""
    graphs = [model.graph, *(g for info in model.training_info for g in (info.initialization, info.algorithm))]
    for tensor in (*chain.from_iterable(map(_tensors, graphs)), *chain.from_iterable(map(_constants, model.functions))):
        if uses_external_data(tensor):
            yield from ((tensor, entry) for entry in tensor.external_data if entry.key == "location")


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _constants(graph)


def _constants(graph: GraphProto | FunctionProto) -> Iterator[TensorProto]:
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for body in (attribute.g, *attribute.graphs):
                yield from _tensors(body)


def external_files(model: ModelProto, path: str | os.PathLike[str], *, missing_ok: bool = False) -> dict[str, Path]:
    """The files in which a model keeps tensors, by the location that it names; ``path`` is the model's own.

    Raises
    ------
    InvalidModelError
        If one lies outside of the model's folder or, where the model is a link, of the folder that it leads to, which
        ONNX Runtime refuses too; or if one is not there, unless that is ``missing_ok``.
    """
    folder = Path(path).absolute().parent
    within = {folder.resolve(), Path(path).resolve().parent}
    files: dict[str, Path] = {}
    for tensor, entry in external_tensors(model):
        location = entry.value
        where = f"{os.fspath(path)}: tensor {tensor.name!r} is kept in {location!r}"
        try:
            file = folder / location  # an absolute location stays one
            real = file.resolve()
        except (TypeError, ValueError) as error:  # no text, or none that can be a path
            raise InvalidModelError(f"{where}, which is no path") from error
        if Path(location).is_absolute() or not any(real.is_relative_to(each) for each in within):
            raise InvalidModelError(f"{where}, outside of the model's folder, {folder}; put the file beside the model")
        if not (real.is_file() or missing_ok):
            raise InvalidModelError(f"{where}, which is no file in {folder}; put the file beside the model")
        files[location] = file
    return files


def place_external_files(files: Mapping[str, Path], folder: Path, *, as_links: bool) -> list[Path]:
    """Copy or link files to the same locations in another folder; returns those that were not there before.

    Raises
    ------
    OSError
        If a file cannot be read or written, or another one is in its place; then none is left behind.
    """
    made: list[Path] = []
    try:
        for location, source in files.items():
            target = folder / location
            if _is_there(target, source, folder):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if as_links:
                target.hardlink_to(source.resolve())
            else:
                with source.open("rb") as file:
                    write_whole(target, partial(shutil.copyfileobj, file))
            made.append(target)
    except OSError:
        remove_files(made)
        raise
    return made


def _is_there(target: Path, source: Path, folder: Path) -> bool:
    """Whether a file with the same content is there; another one, or a way out of the folder, is an error."""
    if not target.resolve().is_relative_to(folder.resolve()):
        raise OSError(errno.EPERM, "a link leads out of the folder to write to", os.fspath(target))
    if target.exists() and not filecmp.cmp(source, target, shallow=False):
        raise FileExistsError(errno.EEXIST, "another file is there; move it", os.fspath(target))
    return target.exists()


def remove_files(files: Iterable[Path]) -> None:
    """Remove files, those that are there."""
    for file in files:
        file.unlink(missing_ok=True)
