"""Model files: what is read, what is refused, and that writing never leaves half a file."""

import os
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import onnx
import onnxruntime
import pytest

import maxpool_ort as mp
from maxpool_ort import files

MODEL = mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4], strides=[2])
DATA = MODEL.SerializeToString()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with the model in it."""
    monkeypatch.chdir(tmp_path)
    Path("model.onnx").write_bytes(DATA)
    return tmp_path


def ort_format() -> bytes:
    """The model as onnxruntime itself saves it."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = "model.ort"
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(DATA, options)
    return Path("model.ort").read_bytes()


# (id, content of the file, text)
NO_MODELS: list[tuple[str, Any, str]] = [
    ("empty", b"", "bad.onnx: expected an ONNX model, got an empty file"),
    (
        "text",
        b"# a README, not a model",
        "bad.onnx: expected an ONNX model, got 23 bytes that start with b'# a README, not '",
    ),
    ("half", DATA[: len(DATA) // 2], r"bad.onnx: expected an ONNX model, got \d+ bytes that start with"),
    ("no graph", onnx.ModelProto(ir_version=7).SerializeToString(), r"bad.onnx: .*without a graph"),
    ("ORT format", ort_format, r"bad.onnx: .*a model in ORT format, which cannot be converted; use the ONNX model"),
]


@pytest.mark.parametrize(("content", "text"), [row[1:] for row in NO_MODELS], ids=[row[0] for row in NO_MODELS])
def test_no_model(content: Any, text: str) -> None:
    """A file that is no ONNX model is refused by what it looks like, wherever it is given."""
    Path("bad.onnx").write_bytes(content if isinstance(content, bytes) else content())
    for refuse in (
        mp.InferenceSession,
        lambda path: mp.convert_file(path, "c.onnx"),
        lambda path: mp.restore_file(path, "c.onnx"),
    ):
        with pytest.raises(mp.InvalidModelError, match=text):
            refuse("bad.onnx")
    assert not Path("c.onnx").exists()
    with pytest.raises(mp.InvalidModelError, match=text.replace("bad.onnx", "the bytes given")):
        mp.InferenceSession(Path("bad.onnx").read_bytes())


@pytest.mark.parametrize(("path", "error"), [("no.onnx", FileNotFoundError), (".", IsADirectoryError)])
def test_unreadable(path: str, error: type[OSError]) -> None:
    """A missing file and a folder are Python's own errors, which name them."""
    for refuse in (mp.InferenceSession, lambda path: mp.convert_file(path, "c.onnx")):
        with pytest.raises(error, match=f"'{path}'"):
            refuse(path)


@given(st.integers(0, len(DATA) - 1), st.integers(0, 255))
def test_damaged(position: int, byte: int) -> None:
    """Any byte of a file may be wrong: it is a MaxPoolError, or still a model."""
    damaged = bytearray(DATA)
    damaged[position] = byte
    try:
        done = mp.convert_model(files.parse_model(bytes(damaged), "damaged"))
    except mp.MaxPoolError as error:
        assert str(error)  # noqa: PT017 (either outcome is right)
    else:
        assert isinstance(done.model, onnx.ModelProto)


@pytest.mark.parametrize("data", [DATA, mp.convert_model(MODEL).model.SerializeToString()], ids=["model", "converted"])
def test_cut_short(data: bytes) -> None:
    """A file may end anywhere: what is left is refused, or is a model that goes through like any other."""
    outcomes = set()
    for length in range(len(data) + 1):
        try:
            model = files.parse_model(data[:length], "cut")
            mp.convert_model(model)
            mp.restore_model(model)
            outcomes.add("a model")
        except mp.MaxPoolError as error:  # noqa: PERF203 (each length has an outcome of its own)
            outcomes.add(type(error).__name__)
    assert {"a model", "InvalidModelError"} <= outcomes


def test_convert_and_restore() -> None:
    """Files are written as models are converted; sources are not touched, and may be destinations."""
    before = Path("model.onnx").stat()
    assert mp.convert_file("model.onnx", "c.onnx").model == onnx.load("c.onnx")
    assert mp.restore_file(Path("c.onnx"), Path("r.onnx")) == MODEL
    assert Path("r.onnx").read_bytes() == Path("model.onnx").read_bytes() == DATA
    assert Path("model.onnx").stat().st_mtime_ns == before.st_mtime_ns
    mp.restore_file("c.onnx", "c.onnx")
    assert Path("c.onnx").read_bytes() == DATA


@pytest.mark.parametrize("step", ["open", "write", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "Ctrl-C"])
def test_writing_fails(step: str, error: BaseException, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Whatever happens while a file is written: the old one stays whole, and nothing else is left."""
    Path("c.onnx").write_bytes(b"old")

    def fail(*_: object, **__: object) -> None:
        raise error

    if step == "write":
        monkeypatch.setattr(files.shutil, "copymode", fail)
    else:
        monkeypatch.setattr(Path, step, fail)
    with pytest.raises(type(error)) as caught:
        files.write_model(MODEL, "c.onnx")
    monkeypatch.undo()
    if isinstance(error, OSError):
        assert caught.value.filename == "c.onnx"
    assert (folder / "c.onnx").read_bytes() == b"old"
    assert sorted(path.name for path in folder.iterdir()) == ["c.onnx", "model.onnx"]


# (id, path, error)
UNWRITABLE: list[tuple[str, str, type[OSError]]] = [
    ("in no folder", "no/c.onnx", FileNotFoundError),
    ("a folder", "there", IsADirectoryError),
    ("this folder", ".", IsADirectoryError),
    ("in a file", "model.onnx/c.onnx", NotADirectoryError),
    ("too long", "x" * 300, OSError),
]


@pytest.mark.parametrize(("path", "error"), [row[1:] for row in UNWRITABLE], ids=[row[0] for row in UNWRITABLE])
def test_unwritable(path: str, error: type[OSError], folder: Path) -> None:
    """A destination that cannot be is named."""
    Path("there").mkdir()
    with pytest.raises(error, match=f"'{path}'"):
        mp.convert_file("model.onnx", path)
    assert sorted(p.name for p in folder.iterdir()) == ["model.onnx", "there"]


def test_links_stay(folder: Path) -> None:
    """Writing through a link replaces what it points to, be it there or not."""
    for name, target in (("to-old", "old.onnx"), ("to-new", "new.onnx")):
        Path(name).symlink_to(target)
    Path("old.onnx").write_bytes(b"old")
    for name, target in (("to-old", "old.onnx"), ("to-new", "new.onnx")):
        files.write_model(MODEL, name)
        assert Path(name).is_symlink()
        assert not Path(target).is_symlink()
        assert Path(target).read_bytes() == DATA
    assert sorted(p.name for p in folder.iterdir()) == ["model.onnx", "new.onnx", "old.onnx", "to-new", "to-old"]


def test_a_pipe_is_written_to(folder: Path) -> None:
    """What is no regular file, such as a pipe or a device, is never replaced by one."""
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        files.write_model(MODEL, "pipe")
        assert os.read(reader, 1 << 16) == DATA
    finally:
        os.close(reader)
    assert (folder / "pipe").is_fifo()


def test_mode_is_kept() -> None:
    """A file that is replaced keeps its permissions."""
    Path("c.onnx").write_bytes(b"old")
    Path("c.onnx").chmod(0o640)
    mp.convert_file("model.onnx", "c.onnx")
    assert Path("c.onnx").stat().st_mode & 0o777 == 0o640


def test_external_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors in other files stay there: converted beside them, refused elsewhere, found from any working folder."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    model = onnx.parser.parse_model("""
        <ir_version: 7, opset_import: ["": 12]>
        main (float[1, 1, 400] x) => (float[1, 1, 399] y) { z = Add (x, w)
            y = MaxPool <kernel_shape = [2]> (z) }
    """)
    weight = onnx.numpy_helper.from_array(np.arange(400, dtype=np.float32).reshape(1, 1, 400), "w")
    model.graph.initializer.append(weight)
    onnx.save(model, "a/big.onnx", save_as_external_data=True, location="big.data", size_threshold=0)
    stored = Path("a/big.onnx").read_bytes()
    mp.convert_file("a/big.onnx", "a/converted.onnx")
    assert len(stored) < len(Path("a/converted.onnx").read_bytes()) < Path("a/big.data").stat().st_size
    with pytest.raises(
        mp.InvalidModelError, match=r"a/big.onnx: keeps tensors in files beside it, which b/c.onnx would not find"
    ):
        mp.convert_file("a/big.onnx", "b/c.onnx")
    with pytest.raises(
        mp.InvalidModelError, match=r"a/converted.onnx: keeps .* write to the same folder, /.*/a, or let"
    ):
        mp.restore_file("a/converted.onnx", "b/c.onnx")
    assert not Path("b/c.onnx").exists()
    mp.restore_file("a/converted.onnx", "a/restored.onnx")
    assert Path("a/restored.onnx").read_bytes() == stored
    monkeypatch.chdir(tmp_path / "b")
    for name in ("big", "converted"):
        (y,) = mp.InferenceSession(f"../a/{name}.onnx").run(None, {"x": np.zeros((1, 1, 400), np.float32)})
        assert y.ravel().tolist() == list(range(1, 400))
