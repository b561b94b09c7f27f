"""Tensors in other files: shared, copied or linked, found from anywhere, and never read to convert."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data
from onnx.parser import parse_model
import onnxruntime
import pytest
from subprocesses import printed

import maxpool_ort as mp
from maxpool_ort import cli

W = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
FEED = {"X": np.zeros((1, 1, 4), np.float32)}
GRAPH = "Z = Add (X, W)  Y = MaxPool <kernel_shape = [2]> (Z)"


def save(path: Path, location: str) -> Path:
    """Save a model that adds W, kept elsewhere, and pools."""
    model = parse_model(
        f'<ir_version: 8, opset_import: ["": 13]> main (float[1, 1, 4] X) => (float[1, 1, 3] Y) {{ {GRAPH} }}'
    )
    tensor = numpy_helper.from_array(W, "W")
    set_external_data(tensor, location, length=16)
    tensor.ClearField("raw_data")
    model.graph.initializer.append(tensor)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder that holds W in a/w.bin, and that is no model's."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "a/sub", "b"):
        Path(name).mkdir()
    W.tofile("a/w.bin")
    W.tofile("w.bin")
    return tmp_path


def runs(path: str | Path, options: onnxruntime.SessionOptions | None = None) -> bool:
    """Whether a session gives what is right."""
    return mp.InferenceSession(path, options).run(None, FEED)[0].ravel().tolist() == [1, 2, 3]


@pytest.mark.parametrize("how", ["copy", "link"])
@pytest.mark.parametrize("location", ["w.bin", "sub/w.bin", "./sub/../w.bin"])
def test_into_another_folder(how: str, location: str) -> None:
    """On request the files are copied or linked, to the same places; there and back, twice, is no error."""
    if "sub" in location:
        W.tofile("a/sub/w.bin")
    save(Path("a/m.onnx"), location)
    for _ in range(2):
        assert cli.main(["convert", "a/m.onnx", "b/c.onnx", "--external-data", how]) == 0
        assert cli.main(["restore", "b/c.onnx", "a/r.onnx", "--external-data", how]) == 0
    placed = Path("b") / location
    assert runs("b/c.onnx")
    assert (placed.stat().st_ino == (Path("a") / location).stat().st_ino) == (how == "link")
    assert Path("a/r.onnx").read_bytes() == Path("a/m.onnx").read_bytes()
    if how == "copy":
        onnx.load("b/c.onnx")


# (id, location of W, what makes the file, what the error says)
TRAPS = [
    ("parent", "../w.bin", None, r"is kept in '../w.bin', outside of the model's folder, .*/a; put the file beside"),
    ("absolute", "ABSOLUTE", None, r"is kept in '/.*w.bin', outside of the model's folder"),
    ("link to outside", "o.bin", lambda: Path("a/o.bin").symlink_to("../w.bin"), r"in 'o.bin', outside of the model's folder"),
    ("missing", "none.bin", None, r"in 'none.bin', which is no file in .*/a; put the file beside the model"),
    ("folder", "sub", None, r"in 'sub', which is no file in .*/a"),
]  # fmt: skip


@pytest.mark.parametrize(("location", "make", "text"), [row[1:] for row in TRAPS], ids=[row[0] for row in TRAPS])
def test_traps(location: str, make: object, text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file outside of the model's folder is neither run with nor copied; what is refused leaves nothing behind."""
    if callable(make):
        make()
    save(Path("a/m.onnx"), str(folder / "w.bin") if location == "ABSOLUTE" else location)
    with pytest.raises(mp.InvalidModelError, match=rf"a/m.onnx: tensor 'W' {text}" if "is kept" in text else text):
        mp.InferenceSession("a/m.onnx")
    assert cli.main(["convert", "a/m.onnx", "b/c.onnx", "--external-data", "copy"]) == 1
    assert "maxpool-ort: error: a/m.onnx: tensor 'W' is kept in" in capsys.readouterr().err
    assert list(Path("b").iterdir()) == []
    mp.convert_file("a/m.onnx", "a/c.onnx")  # reads no tensor, and refers to what the model refers to
    mp.restore_file("a/c.onnx", "a/r.onnx")
    assert Path("a/r.onnx").read_bytes() == Path("a/m.onnx").read_bytes()


def test_other_files_stay(capsys: pytest.CaptureFixture[str]) -> None:
    """Another file in the place of one that is to be copied is not lost, and one outside is not written through a link."""
    save(Path("a/m.onnx"), "w.bin")
    Path("b/w.bin").write_text("mine")
    assert cli.main(["convert", "a/m.onnx", "b/c.onnx", "--external-data", "copy"]) == 1
    assert "b/w.bin: another file is there; move it" in capsys.readouterr().err
    assert Path("b/w.bin").read_text() == "mine"
    Path("b/w.bin").unlink()
    Path("b/w.bin").symlink_to("../elsewhere.bin")
    assert cli.main(["convert", "a/m.onnx", "b/c.onnx", "--external-data", "copy"]) == 1
    assert "b/w.bin: a link leads out of the folder to write to" in capsys.readouterr().err
    assert not Path("elsewhere.bin").exists()
    assert not Path("b/c.onnx").exists()


def test_a_failure_to_write_leaves_no_copies() -> None:
    """The model cannot be written: then its files are not there either."""
    save(Path("a/m.onnx"), "w.bin")
    Path("b/c.onnx").mkdir()
    with pytest.raises(OSError, match=r"b/c.onnx"):
        mp.convert_file("a/m.onnx", "b/c.onnx", external_data="copy")
    assert [path.name for path in Path("b").iterdir()] == ["c.onnx"]


def test_wrong_argument() -> None:
    """What to do with files is one of three words."""
    save(Path("a/m.onnx"), "w.bin")
    with pytest.raises(mp.MaxPoolError, match="external_data must be one of refuse, copy, link, got 'move'"):
        mp.convert_file("a/m.onnx", "b/c.onnx", external_data="move")


def test_links_of_a_cache() -> None:
    """A model and its file that are links to files of other names, side by side, as caches of downloads have them."""
    save(Path("blobs/1234"), "w.bin")
    W.tofile("blobs/5678")
    Path("snapshot").mkdir()
    Path("snapshot/m.onnx").symlink_to("../blobs/1234")
    Path("snapshot/w.bin").symlink_to("../blobs/5678")
    assert onnxruntime.InferenceSession("snapshot/m.onnx").run(None, FEED)
    assert runs("snapshot/m.onnx")
    assert cli.main(["compare", "snapshot/m.onnx"]) == 0
    mp.convert_file("snapshot/m.onnx", "b/c.onnx", external_data="copy")
    assert runs("b/c.onnx")
    assert not Path("b/w.bin").is_symlink()


def test_options_are_given_back() -> None:
    """SessionOptions that a session was made with find the files of the next one, wherever it is, and the caller's own."""
    save(Path("a/m.onnx"), "w.bin")
    save(Path("b/m.onnx"), "v.bin")
    W.tofile("b/v.bin")
    options = onnxruntime.SessionOptions()
    assert runs("a/m.onnx", options)
    assert runs("b/m.onnx", options)
    entry = "session.model_external_initializers_file_folder_path"
    assert options.get_session_config_entry(entry) == ""
    options.add_session_config_entry(entry, "a")
    assert runs("b/m.onnx", options)
    assert options.get_session_config_entry(entry) == "a"
    assert mp.InferenceSession(Path("a/m.onnx").read_bytes(), options).run(None, FEED)


def test_sessions_made_at_once() -> None:
    """Threads that share SessionOptions each get the files of their own model, though these have the same name."""
    for number in range(8):
        save(Path(f"m{number}/m.onnx"), "w.bin")
        (W + number).tofile(f"m{number}/w.bin")
    options = onnxruntime.SessionOptions()

    def wrong(number: int) -> list[float]:
        got = mp.InferenceSession(f"m{number % 8}/m.onnx", options).run(None, FEED)[0].ravel() - number % 8
        return [] if got.tolist() == [1, 2, 3] else got.tolist()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert [found for found in pool.map(wrong, range(160)) if found] == []
    finally:
        sys.setswitchinterval(before)


def test_everywhere_in_a_model() -> None:
    """Tensors in bodies, functions and attributes are kept elsewhere too."""
    constant = "{ c = Constant <value = float[1, 1, 3] {1, 2, 3}> ()  y = Add (x, c) }"
    model = parse_model(f"""
        <ir_version: 8, opset_import: ["": 13, "l": 1]>
        main (float[1, 1, 4] X) => (float[1, 1, 3] Y) {{ Z = MaxPool <kernel_shape = [2]> (X)  Y = l.f (Z) }}
        <domain: "l", opset_import: ["": 13]> f (x) => (y) {constant}
    """)
    tensor = model.functions[0].node[0].attribute[0].t
    tensor.CopyFrom(numpy_helper.from_array(np.array([[[1, 2, 3]]], np.float32), "c"))
    set_external_data(tensor, "c.bin", length=12)
    tensor.ClearField("raw_data")
    Path("a/m.onnx").write_bytes(model.SerializeToString())
    np.array([1, 2, 3], np.float32).tofile("a/c.bin")
    with pytest.raises(mp.InvalidModelError, match="keeps tensors in files beside it"):
        mp.convert_file("a/m.onnx", "b/c.onnx")
    mp.convert_file("a/m.onnx", "b/c.onnx", external_data="copy")
    assert Path("b/c.bin").exists()


def test_beyond_2_gib(folder: Path) -> None:
    """Over 2 GiB of tensors elsewhere: converted without reading them, and run with little more memory than by ONNX Runtime."""
    rows = 2**19 + 2**17
    model = helper.make_model(
        helper.make_graph(
            [
                helper.make_node("Gather", ["W", "rows"], ["x"]),
                mp.make_maxpool_node([2], inputs=["x"], outputs=["Y"]),
            ],
            "large",
            [helper.make_tensor_value_info("rows", TensorProto.INT64, [1])],
            [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [1, 1, 1023])],
            [
                TensorProto(
                    name="W", data_type=TensorProto.FLOAT, dims=[rows, 1, 1024], data_location=TensorProto.EXTERNAL
                )
            ],
        ),
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=8,
    )
    for key, value in (("location", "large.bin"), ("length", str(rows * 4096))):
        model.graph.initializer[0].external_data.add(key=key, value=value)
    Path("a/m.onnx").write_bytes(model.SerializeToString())
    with Path("a/large.bin").open("wb") as file:
        file.seek((rows - 1) * 4096)
        file.write(np.arange(1024, dtype=np.float32).tobytes())
    assert Path("a/large.bin").stat().st_size > 2**31
    code = """
        import resource, sys
        import numpy as np, onnxruntime, maxpool_ort as mp
        session = eval(sys.argv[1])
        (y,) = session.run(None, {"rows": np.array([655359])})
        assert y[0, 0].tolist() == list(range(1, 1024))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
    """
    path = str(folder / "a" / "m.onnx")
    theirs, ours = (int(printed(code, f"{kind}.InferenceSession({path!r})")) for kind in ("onnxruntime", "mp"))
    assert ours < theirs + 64, (ours, theirs)  # MiB
    done = mp.convert_file(path, str(folder / "a" / "c.onnx"))
    assert len(done.converted) == 1
    assert Path("a/c.onnx").stat().st_size < 2000
    assert mp.restore_model(done.model) == model


def test_more_than_2_gib_in_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX has no files of more than 2 GiB: said, with what to do instead."""

    def too_large(_: onnx.ModelProto) -> bytes:
        raise ValueError("Message onnx.ModelProto exceeds maximum protobuf size of 2GB: 3000000000")

    model = mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4])
    monkeypatch.setattr(onnx.ModelProto, "SerializeToString", too_large)
    with pytest.raises(
        mp.InvalidModelError, match="more than 2 GiB, which ONNX cannot write; keep its large tensors in"
    ):
        mp.InferenceSession(model)
