"""scripts/batch_dask.py: many images on many processes give what one gives, whatever is killed meanwhile."""

from collections.abc import Iterator
from contextlib import suppress
import os
from pathlib import Path
import re
import signal
import subprocess
import sys
import time

import numpy as np
import onnx
from PIL import Image
import psutil
import pytest
from subprocesses import run_python

import maxpool_ort as mp

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "batch_dask.py"
MODEL = ROOT / "models" / "digits.onnx"
HELD_OUT = np.load(ROOT / "models" / "digits.npz")
COUNT = len(HELD_OUT["image"])
LIMIT = 300
"""Seconds for anything here, on a machine that is busy with more."""


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The 450 held-out digits, a file each."""
    folder = tmp_path_factory.mktemp("images")
    for number, image in enumerate(HELD_OUT["image"]):
        np.save(folder / f"{number:03}.npy", image)
    return folder


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Three of them, for what needs no more."""
    folder = tmp_path / "few"
    folder.mkdir()
    for number in range(3):
        np.save(folder / f"{number}.npy", HELD_OUT["image"][number])
    return folder


def command(*arguments: object) -> list[str]:
    """The script's command line."""
    return [sys.executable, str(SCRIPT), *map(str, arguments)]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the script to its end."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=LIMIT, check=False)  # noqa: S603


def start(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    """Start the script, in a group of processes of its own."""
    return subprocess.Popen(  # noqa: S603
        command(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **environment},
    )


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The workers of a script that runs."""
    children = psutil.Process(process.pid).children(recursive=True)
    return [child for child in children if any("spawn_main" in word for word in child.cmdline())]


def names_in(folder: Path) -> list[str]:
    """The files in a folder, hidden ones too."""
    return sorted(path.name for path in folder.iterdir())


def wait_for(process: subprocess.Popen[str], results: Path, count: int) -> int:
    """Wait until a script that runs has written some results; how many there are then."""
    end = time.monotonic() + LIMIT
    while (there := len(list(results.glob("*.npz")))) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.002)
    return there


def check(results: Path) -> None:
    """There is a file for each image, and nothing else, with what a session in this process gives, bit for bit."""
    session = mp.InferenceSession(MODEL)
    assert names_in(results) == [f"{number:03}.npy.npz" for number in range(COUNT)]
    right = 0
    for number, (image, label) in enumerate(zip(HELD_OUT["image"], HELD_OUT["label"], strict=True)):
        with np.load(results / f"{number:03}.npy.npz") as outputs:
            assert list(outputs) == ["probabilities"]
            got = outputs["probabilities"]
        np.testing.assert_array_equal(got, session.run(None, {"image": image[np.newaxis]})[0])
        right += int(got.argmax()) == label
    assert right == 445


@pytest.fixture
def cleanly() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes to end with all that they started, if a test fails."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def test_a_worker_is_killed(images: Path, tmp_path: Path, cleanly: list[subprocess.Popen[str]]) -> None:
    """SIGKILL for a worker in the middle loses nothing: what it had begun is done again."""
    process = start(MODEL, images, tmp_path / "results", "--workers", 2, "--group", 2)
    cleanly.append(process)
    assert wait_for(process, tmp_path / "results", 5) < COUNT
    workers_of(process)[0].kill()  # the other one may still be starting
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err
    assert out == f"{COUNT} images done, 0 were done before, 0 have problems\n"
    assert "images" in err  # the progress
    check(tmp_path / "results")


def test_all_is_killed(images: Path, tmp_path: Path, cleanly: list[subprocess.Popen[str]]) -> None:
    """SIGKILL for everything in the middle: the next run does the rest, and only that."""
    results = tmp_path / "results"
    process = start(MODEL, images, results, "--workers", 2, "--group", 2)
    cleanly.append(process)
    wait_for(process, results, 5)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    before = {path: path.stat().st_mtime_ns for path in results.glob("*.npz")}
    assert 5 <= len(before) < COUNT
    (results / ".000.npy.npz.0123abcd").write_bytes(b"half")  # as one who was killed while writing it leaves it
    done = run(MODEL, images, results, "--workers", 0)
    assert (done.returncode, done.stdout) == (
        0, f"{COUNT - len(before)} images done, {len(before)} were done before, 0 have problems\n",
    )  # fmt: skip
    assert {path: path.stat().st_mtime_ns for path in before} == before
    check(results)


def open_for_reader(fifo: Path) -> int:
    """Open it for writing as soon as somebody reads it."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        with suppress(OSError):  # nobody does yet
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        time.sleep(0.01)
    raise TimeoutError(fifo)


def test_an_image_that_ends_its_workers(few: Path, tmp_path: Path, cleanly: list[subprocess.Popen[str]]) -> None:
    """What ends one worker after the other is given up and told by its name; the other images are done."""
    os.mkfifo(few / "1a.npy")  # who reads it waits
    results = tmp_path / "results"
    process = start(
        MODEL, few, results, "--workers", 2, "--group", 1, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0"
    )
    cleanly.append(process)
    wait_for(process, results, 3)
    writer = open_for_reader(few / "1a.npy")
    for worker in workers_of(process):
        worker.kill()
    out, err = process.communicate(timeout=LIMIT)
    os.close(writer)
    assert process.returncode == 1
    assert out == "3 images done, 0 were done before, 1 have problems\n"
    assert "\n1a.npy: the first of 1a.npy ends its worker: " in err
    assert names_in(results) == [f"{number}.npy.npz" for number in range(3)]


# (name, content, what is told)
BAD_IMAGES: list[tuple[str, bytes, str]] = [
    ("text.npy", b"no array", "MaxPoolError: .*text.npy: expected a .npy file, but it cannot be read as one"),
    ("empty.npy", b"", "MaxPoolError: .*empty.npy: expected a .npy file, but it cannot be read as one"),
    ("text.png", b"no picture", "UnidentifiedImageError: cannot identify image file .*text.png"),
    ("cut.png", b"\x89PNG\r\n\x1a\n\0\0", "UnidentifiedImageError: cannot identify image file .*cut.png"),
]


def test_bad_images(few: Path, tmp_path: Path) -> None:
    """What is no image is told by its name, and the others are done."""
    for name, content, _ in BAD_IMAGES:
        (few / name).write_bytes(content)
    done = run(MODEL, few, tmp_path / "results", "--workers", 0)
    assert (done.returncode, done.stdout) == (1, "3 images done, 0 were done before, 4 have problems\n")
    for name, _, text in BAD_IMAGES:
        assert re.search(rf"^{name}: {text}", done.stderr, re.MULTILINE), done.stderr
    assert names_in(tmp_path / "results") == [f"{number}.npy.npz" for number in range(3)]


def test_kinds_of_images(tmp_path: Path) -> None:
    """Gray .png and arrays without an axis for the channel are as good; other dtypes are cast, and other shapes told."""
    folder, results = tmp_path / "images", tmp_path / "results"
    folder.mkdir()
    image = HELD_OUT["image"][0]
    np.save(folder / "whole.npy", image)
    np.save(folder / "flat.npy", image[0])
    np.save(folder / "bytes.npy", image.astype(np.uint8))
    np.save(folder / "double.npy", image.astype(np.float64))
    Image.fromarray(image[0].astype(np.uint8)).save(folder / "gray.png")
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(folder / "colour.png")
    np.save(folder / "wide.npy", np.zeros((1, 8, 9), np.float32))
    np.save(folder / "complex.npy", image.astype(np.complex64))
    (folder / "notes.txt").write_text("about them")
    done = run(MODEL, folder, results, "--workers", 0)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "5 images done, 0 were done before, 3 have problems",
        "left, since neither .npy nor .png: notes.txt",
    ]
    assert [line for line in done.stderr.splitlines() if line.partition(": ")[0].endswith(("npy", "png"))] == [
        "colour.png: MaxPoolError: input 'image': expected shape ('N', 1, 8, 8), got (1, 3, 8, 8)",
        "complex.npy: TypeError: Cannot cast array data from dtype('complex64') to dtype('float32') according to the "
        "rule 'same_kind'",
        "wide.npy: MaxPoolError: input 'image': expected shape ('N', 1, 8, 8), got (1, 1, 8, 9)",
    ]
    loaded = [np.load(path)["probabilities"] for path in sorted(results.iterdir())]
    assert len(loaded) == 5
    for each in loaded:
        np.testing.assert_array_equal(each, loaded[0])


def test_what_is_newer_is_done_again(few: Path, tmp_path: Path) -> None:
    """Images that have changed since are run again; with a newer model all are."""
    results = tmp_path / "results"
    model = tmp_path / "model.onnx"
    model.write_bytes(MODEL.read_bytes())
    assert run(model, few, results, "--workers", 0).returncode == 0
    np.save(few / "1.npy", HELD_OUT["image"][7])
    future = time.time_ns() + 10**10
    os.utime(few / "1.npy", ns=(future, future))
    assert run(model, few, results, "--workers", 0).stdout.startswith("1 images done, 2 were done before")
    expected = mp.InferenceSession(MODEL).run(None, {"image": HELD_OUT["image"][7:8]})[0]
    np.testing.assert_array_equal(np.load(results / "1.npy.npz")["probabilities"], expected)
    os.utime(model, ns=(future + 1, future + 1))
    assert run(model, few, results, "--workers", 0).stdout.startswith("3 images done, 0 were done before")


# (id, arguments, exit code, text on stderr)
USAGE: list[tuple[str, list[object], int, str]] = [
    ("help", ["--help"], 0, ""),
    ("no arguments", [], 2, "the following arguments are required: MODEL, IMAGES, RESULTS"),
    ("workers", [MODEL, "few", "r", "--workers", -1], 2, "expected --workers >= 0 and --group >= 1, got -1 and 16"),
    (
        "group",
        [MODEL, "few", "r", "--group", 0, "--workers", 1],
        2,
        "expected --workers >= 0 and --group >= 1, got 1 and 0",
    ),
    ("no model", ["none.onnx", "few", "r"], 1, "batch_dask.py: [Errno 2] No such file or directory: 'none.onnx'"),
    ("no folder", [MODEL, "none", "r"], 1, "batch_dask.py: [Errno 2] No such file or directory: 'none'"),
    ("two inputs", ["two.onnx", "few", "r"], 1, "batch_dask.py: two.onnx: expected one input, got 2"),
    ("damaged model", [ROOT / "README.md", "few", "r"], 1, "README.md: expected an ONNX model, got "),
]


@pytest.mark.parametrize(("arguments", "code", "text"), [row[1:] for row in USAGE], ids=[row[0] for row in USAGE])
def test_usage(arguments: list[object], code: int, text: str, few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong usage is 2, and what cannot be done is 1; both are told on stderr."""
    monkeypatch.chdir(few.parent)
    two = mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4])
    two.graph.input.append(onnx.helper.make_tensor_value_info("W", onnx.TensorProto.FLOAT, [1]))
    onnx.save(two, "two.onnx")
    done = run(*arguments)
    assert done.returncode == code
    assert ("python scripts/batch_dask.py models/digits.onnx images/ results/" in done.stdout) == (code == 0)
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_without_dask(few: Path, tmp_path: Path) -> None:
    """One process needs no Dask; for more, what to install is told."""
    code = """
    import runpy, sys
    sys.modules["distributed"] = None
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
    """
    for workers, expected, text in (("2", 1, "Dask is not installed: pip install 'maxpool_ort[scale]'"), ("0", 0, "")):
        arguments = [str(SCRIPT), str(MODEL), str(few), str(tmp_path / "results"), "--workers", workers]
        done = run_python(code, *arguments)
        assert (done.returncode, text in done.stderr) == (expected, True)
