"""The command line: what it prints, what it exits with, what it says when something is wrong."""

import importlib.util
import json
from pathlib import Path
import re
import subprocess
import sys

import numpy as np
import onnx
from onnx import numpy_helper
import pytest
from subprocesses import run_python

import maxpool_ort as mp
from maxpool_ort import cli, table

MODELS = Path(__file__).parents[1] / "models"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in: a model of two inputs, one of none, a broken one, and some data."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").symlink_to(MODELS)
    add = """
        <ir_version: 7, opset_import: ["": 12]>
        add (float[N, 1, 4] a, float[N, 1, 4] b) => (float[N, 1, 3] y, float[N, 1, 4] c) {
            c = Add (a, b)
            [pool1] y = MaxPool <kernel_shape = [2]> (c)
        }
    """
    onnx.save(onnx.parser.parse_model(add), "add.onnx")
    relu = '<ir_version: 7, opset_import: ["": 12]> relu (float[2] X) => (float[2] Y) { Y = Relu(X) }'
    onnx.save(onnx.parser.parse_model(relu), "relu.onnx")
    onnx.save(mp.make_maxpool_model(kernel_shape=[2], input_shape=["N", 3, "L"]), "pool.onnx")
    broken = mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4])
    broken.graph.node[0].attribute[0].ints[0] = 0
    onnx.save(broken, "broken.onnx")
    Path("text.onnx").write_text("this is no model")
    Path("text.npy").write_text("this is no array")
    np.save("a.npy", np.array([[[1, 5, 2, 0]]], np.float32))
    np.savez("b.npz", b=np.ones((1, 1, 4), np.float32), other=np.zeros(1))
    np.save("double.npy", np.zeros((1, 1, 4)))
    np.save("flat.npy", np.zeros(4, np.float32))
    np.save("long.npy", np.zeros((1, 1, 5), np.float32))
    onnx.save(onnx.parser.parse_model(relu.replace("[2]", "[N, 2]")), "labels.onnx")
    np.savez("labels.npz", X=np.eye(2, dtype=np.float32)[[0, 1, 1]], label=np.array([[0], [1], [0]]))
    onnx.save(onnx.parser.parse_model(relu.replace("[2]", "[N, 2]")), "scores.onnx")
    np.savez("scores.npz", X=np.eye(2, dtype=np.float32), label=np.array([0.0, 1.0]))
    onnx.save(onnx.parser.parse_model(relu), "extra.onnx")
    np.savez("extra.npz", X=np.zeros(2, np.float32), y=np.zeros(2))
    onnx.save(mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4]), "self.pb")
    onnx.save(onnx.parser.parse_model(relu.replace("[2]", "[4000000, 4000000]")), "huge.onnx")
    onnx.save(onnx.parser.parse_model(add.replace("add (", "two (").replace("N, ", "1, ")), "two.onnx")
    np.save("two.npy", np.zeros((1, 1, 4), np.float32))  # no sample: the model has two inputs
    local = """
        <ir_version: 8, opset_import: ["": 13, "local": 1]>
        main (float[1, 1, 8] x) => (float[1, 1, M] y) { y = local.pool(x) }
        <domain: "local", opset_import: ["": 13]> pool (p) => (q) { [pool1] q = MaxPool <kernel_shape = [2]> (p) }
    """
    onnx.save(onnx.parser.parse_model(local), "local.onnx")
    return tmp_path


# (id, arguments, what the output must hold, in order)
GOOD: list[tuple[str, str, list[str]]] = [
    ("version", "--version", [r"maxpool-ort \d+\.\d+\.\d+ \(onnxruntime .*, numpy .*\)"]),
    ("help", "--help", ["run a model", "let every MaxPool", "the inverse", "each MaxPool", "examples:", "exit codes"]),
    ("run --help", "run --help", ["sample file beside the model", "--input NAME=FILE", "examples:"]),
    (
        "a sample with labels",
        "run models/digits.onnx",
        [
            r"input: sample models/digits.npz",
            r"probabilities +float32 +\(450, 10\)",
            r"445 of 450 right \(98.9%\)",
            r"'pool1' +kernel_shape=3,3 pads=1,1,1,1 strides=2,2 +float32 +\(450, 16, 8, 8\) +\(450, 16, 4, 4\) +1 +\d",
            r"'pool2' +kernel_shape=3,3 ceil_mode=1 strides=2,2 +float32 +\(450, 32, 4, 4\) +\(450, 32, 2, 2\) +1 +\d",
            r"2 MaxPool nodes converted",
        ],
    ),
    (
        "made-up data",
        "run pool.onnx --seed 3",
        [
            r"input: random data, seed 3 \(X float32 \(1, 3, 16\)\)",
            r"Y +float32 +\(1, 3, 15\)",
            "1 MaxPool node converted",
        ],
    ),
    (
        "two inputs",
        "run add.onnx --input a=a.npy --input b=b.npz",
        [r"y +float32 +\(1, 1, 3\) +3 +6 +5\s", r"c +float32"],
    ),
    (
        "no MaxPool",
        "run relu.onnx",
        ["no MaxPool node ran in Python", "no MaxPool node in this model; nothing was conv"],
    ),
    (
        "inspect",
        "inspect add.onnx",
        [r"in graph 'add':", r"'pool1' +12 \(opset 12\) +float +kernel_shape=2", "may lose NaN"],
    ),
    ("labels in a column", "run labels.onnx", ["input: sample labels.npz", r"\(3, 2\)", r"2 of 3 right \(66.7%\)\n"]),
    ("labels that are no integers", "run scores.onnx", ["input: sample scores.npz", r"\(2, 2\) [^%]*nothing was conv"]),
    ("a model is no sample of itself", "run self.pb", ["input: random data, seed 0", "1 MaxPool node converted"]),
    ("no .npy for two inputs", "run two.onnx", [r"input: random data, seed 0 \(a float32 .*, b float32"]),
    ("inspect a function", "inspect local.onnx", ["in function 'pool', ", r"'pool1' +12 \(opset 13\)", "may lose NaN"]),
    ("inspect --help", "inspect --help", ["examples:", "Y declared"]),
    ("convert --help", "convert --help", ["example:", "register"]),
    ("restore --help", "restore --help", ["example:"]),
    ("inspect nothing", "inspect relu.onnx", ["no MaxPool node in this model"]),
    ("convert", "convert add.onnx c.onnx", ["in graph 'add':", r"'pool1' +float +kernel_shape=2 +yes", "wrote c.onnx"]),
    ("convert nothing", "convert relu.onnx c.onnx", ["nothing was converted", "wrote c.onnx"]),
    ("restore nothing", "restore relu.onnx r.onnx", ["nothing was restored", "wrote r.onnx"]),
]


@pytest.mark.parametrize("rich", [True, False])
@pytest.mark.parametrize(("line", "expected"), [row[1:] for row in GOOD], ids=[row[0] for row in GOOD])
def test_good(
    line: str, expected: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *, rich: bool
) -> None:
    """Commands print what they should, with and without rich, without colours, and exit with 0."""
    if not rich:
        monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    try:
        code = cli.main(line.split())
    except SystemExit as exit_:  # how argparse ends --help and --version
        code = exit_.code
    printed, complained = capsys.readouterr()
    assert (code, complained) == (0, "")
    assert re.search(".*".join(expected), printed, re.DOTALL), printed
    assert "\x1b" not in printed


# (id, arguments, exit code, the whole last line on stderr)
BAD: list[tuple[str, str, int, str]] = [
    ("no command", "", 2, r"maxpool-ort: error: the following arguments are required: COMMAND"),
    ("unknown command", "pool", 2, r"maxpool-ort: error: argument COMMAND: invalid choice: 'pool' .*"),
    ("missing file", "run no.onnx", 1, r"maxpool-ort: error: no.onnx: No such file or directory"),
    ("folder", "inspect models", 1, r"maxpool-ort: error: models: Is a directory"),
    ("no model", "run text.onnx", 1, r"maxpool-ort: error: text.onnx: expected an ONNX model, got 16 bytes that .*"),
    ("invalid node", "convert broken.onnx c.onnx", 1, r"maxpool-ort: error: MaxPool 'maxpool': kernel_shape must .*"),
    ("no folder", "convert add.onnx no/c.onnx", 1, r"maxpool-ort: error: no/c.onnx: No such file or directory"),
    (
        "unknown input",
        "run add.onnx --input x=a.npy",
        1,
        r"maxpool-ort: error: --input x=a.npy: 'x' is no input; the model has the inputs \['a', 'b'\]",
    ),
    (
        "which input",
        "run add.onnx --input a.npy",
        1,
        r"maxpool-ort: error: --input a.npy: write NAME=FILE; .* inputs \['a', 'b'\]",
    ),
    (
        "missing input",
        "run add.onnx --input a=a.npy",
        1,
        r"maxpool-ort: error: inputs \['b'\]: no data given; .* needs \['a', 'b'\]",
    ),
    (
        "wrong dtype",
        "run add.onnx --input a=double.npy",
        1,
        r"maxpool-ort: error: input 'a': expected dtype float32, got float64",
    ),
    (
        "wrong rank",
        "run add.onnx --input a=flat.npy",
        1,
        r"maxpool-ort: error: input 'a': expected shape \('N', 1, 4\), got \(4,\)",
    ),
    (
        "wrong size",
        "run add.onnx --input a=long.npy",
        1,
        r"maxpool-ort: error: input 'a': expected shape \('N', 1, 4\), got \(1, 1, 5\)",
    ),
    ("no array", "run add.onnx --input a=text.npy", 1, r"maxpool-ort: error: text.npy: expected a .npy file, but .*"),
    (
        "no such kind",
        "run add.onnx --input a=a.txt",
        1,
        r"maxpool-ort: error: a.txt: expected a .npy, .npz or .pb .* got .txt",
    ),
    ("no data", "run add.onnx --input a=no.npy", 1, r"maxpool-ort: error: no.npy: No such file or directory"),
    (
        "which array",
        "run add.onnx --input a=b.npz",
        1,
        r"maxpool-ort: error: b.npz: expected an array named 'a', or one array only, got \['b', 'other'\]",
    ),
    (
        "output kind",
        "run pool.onnx --output y.txt",
        1,
        r"maxpool-ort: error: --output y.txt: expected a .npy, .npz or .pb file, got .txt",
    ),
    (
        "too many outputs",
        "run add.onnx --output y.npy",
        1,
        r"maxpool-ort: error: --output y.npy: the model has 2 outputs, which only a .npz file can hold; write to one",
    ),
    (
        "data given twice",
        "run add.onnx --input a=a.npy --input a=a.npy",
        1,
        r"maxpool-ort: error: --input a=a.npy: data for 'a' was given before; give one file for each input",
    ),
    (
        "sample that does not fit",
        "run extra.onnx",
        1,
        r"maxpool-ort: error: sample extra.npz: input 'y': the model has no such input, only \['X'\]; give other data .*",
    ),
    (
        "output over an input",
        "run add.onnx --input a=a.npy --input b=b.npz --output ./b.npz",
        1,
        r"maxpool-ort: error: --output ./b.npz: this file is read by the same run; write to another one",
    ),
    (
        "output over the sample",
        "run labels.onnx --output labels.npz",
        1,
        r"maxpool-ort: error: --output labels.npz: this file is read by the same run; write to another one",
    ),
    (
        "too large",
        "run huge.onnx",
        1,
        r"maxpool-ort: error: input 'X': shape \(4000000, 4000000\) is too large to make up; give --input X=FILE",
    ),
    (
        "negative seed",
        "run pool.onnx --seed -1",
        2,
        r"maxpool-ort run: error: argument --seed: must be an integer >= 0, got '-1'",
    ),
    ("seed", "run pool.onnx --seed x", 2, r"maxpool-ort run: error: argument --seed: must be an integer >= 0, got 'x'"),
]


@pytest.mark.parametrize(("line", "code", "text"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad(line: str, code: int, text: str, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """What is wrong is one line on stderr; nothing on stdout, no traceback, and no file is left behind."""
    before = sorted(path.name for path in folder.iterdir())
    try:
        got = cli.main(line.split())
    except SystemExit as exit_:  # how argparse ends on wrong usage
        got = exit_.code
    printed, complained = capsys.readouterr()
    assert (got, printed) == (code, "")
    assert re.fullmatch(text, complained.strip().splitlines()[-1]), complained
    assert "Traceback" not in complained
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize("suffix", ["npz", "npy", "pb"])
def test_written_outputs_can_be_read_back(suffix: str) -> None:
    """run --output writes what max_pool gives, and --input reads each kind of file."""
    x = np.load("a.npy").repeat(3, axis=1)
    given = {"npz": lambda: np.savez("x.npz", x), "npy": lambda: np.save("x.npy", x)}
    given.get(suffix, lambda: Path("x.pb").write_bytes(numpy_helper.from_array(x).SerializeToString()))()
    assert cli.main(["run", "pool.onnx", "--input", f"x.{suffix}", "--output", f"y.{suffix}"]) == 0
    read = {"npz": lambda path: np.load(path)["Y"], "npy": np.load}
    y = read.get(suffix, lambda path: numpy_helper.to_array(onnx.load_tensor(path)))(f"y.{suffix}")
    np.testing.assert_array_equal(y, mp.max_pool(x, [2]))


def test_convert_and_restore(capsys: pytest.CaptureFixture[str]) -> None:
    """A model that was converted and restored is the same file again; the source is not touched."""
    source = Path("add.onnx").read_bytes()
    assert cli.main(["convert", "add.onnx", "c.onnx", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["converted"][0]["node"], said["converted"][0]["attributes"]["strides"], said["skipped"]) == (
        "MaxPool 'pool1'", "1", [],
    )  # fmt: skip
    assert cli.main(["restore", "c.onnx", "r.onnx", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"src": "c.onnx", "dst": "r.onnx", "restored": 1, "repaired": []}
    assert Path("r.onnx").read_bytes() == Path("add.onnx").read_bytes() == source
    assert cli.main(["run", "c.onnx", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["maxpool"][0]["attributes"] == "kernel_shape=2"
    assert cli.main(["convert", "c.onnx", "d.onnx"]) == 0
    assert "0 MaxPool nodes converted, 1 had been before" in capsys.readouterr().out
    assert Path("d.onnx").read_bytes() == Path("c.onnx").read_bytes()


def test_run_json(capsys: pytest.CaptureFixture[str]) -> None:
    """run --json gives numbers as numbers."""
    assert cli.main(["run", "models/digits.onnx", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["right"] == {"count": 445, "of": 450}
    assert said["outputs"][0]["shape"] == [450, 10]
    assert said["outputs"][0]["max"] <= 1
    assert [(node["node"], node["y"]) for node in said["maxpool"]] == [
        ("MaxPool 'pool1'", [450, 16, 4, 4]),
        ("MaxPool 'pool2'", [450, 32, 2, 2]),
    ]
    assert all(node["ms"] > 0 for node in said["maxpool"])


def test_inspect_json(capsys: pytest.CaptureFixture[str]) -> None:
    """inspect --json tells declared from true shapes, and what the built-in would do."""
    model = mp.make_maxpool_model(
        kernel_shape=[1, 1], input_shape=["N", 1, 12, 12], strides=[2, 2], ceil_mode=1, dtype="int8"
    )
    model.graph.output[0].type.tensor_type.shape.dim[3].dim_value = 7
    onnx.save(model, "wrong.onnx")
    assert cli.main(["inspect", "wrong.onnx", "--json"]) == 0
    (node,) = json.loads(capsys.readouterr().out)["maxpool"]
    assert (node["declared_dims"], node["true_dims"]) == (["N", 1, 6, 7], ["N", 1, 6, 6])
    assert node["built_in_differs"] == []


def test_any_output_name_can_be_written() -> None:
    """Outputs may bear the names of np.savez's own arguments."""
    model = '<ir_version: 7, opset_import: ["": 12]> g (float[2] X) => (float[2] file) { file = Relu(X) }'
    onnx.save(onnx.parser.parse_model(model), "file.onnx")
    assert cli.main(["run", "file.onnx", "--output", "file-out.npz"]) == 0
    with np.load("file-out.npz") as written:
        assert list(written) == ["file"]


def test_refused_output_leaves_the_input_alone() -> None:
    """--output over an input does not touch it."""
    before = Path("labels.npz").read_bytes()
    assert cli.main(["run", "labels.onnx", "--output", "labels.npz"]) == 1
    assert Path("labels.npz").read_bytes() == before


@pytest.mark.parametrize("command", ["run", "inspect", "convert"])
@pytest.mark.parametrize("width", [60, 80, 140])
def test_tables_fit_a_terminal(
    command: str, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables wrap at the width of a terminal and lose nothing; attributes stay whole from 80 columns on."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(table, "_PIPED_WIDTH", width)
    assert cli.main([command, "models/digits.onnx", *(["c.onnx"] if command == "convert" else [])]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= width
    assert width < 80 or all(word in printed for word in ("kernel_shape=3,3", "pads=1,1,1,1", "strides=2,2"))
    assert "\u2026" not in printed  # the ellipsis of what is cut off


def test_outputs_without_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    """Empty outputs and outputs of NaN only have no range."""
    np.save("nan.npy", np.full((1, 3, 4), np.nan, np.float32))
    assert cli.main(["run", "pool.onnx", "--input", "nan.npy"]) == 0
    np.save("empty.npy", np.zeros((0, 3, 4), np.float32))
    assert cli.main(["run", "pool.onnx", "--input", "empty.npy"]) == 0
    assert re.search(r"\(1, 3, 3\)\s*\n.*\(0, 3, 3\)\s*\n", capsys.readouterr().out, re.DOTALL)


def test_as_a_process() -> None:
    """python -m maxpool_ort exits as main returns; a reader that goes away early is no error."""
    command = [sys.executable, "-m", "maxpool_ort"]
    result = subprocess.run([*command, "run", "no.onnx"], capture_output=True, text=True, check=False)  # noqa: S603
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "maxpool-ort: error: no.onnx: No such file or directory\n"
    piped = f"{sys.executable} -m maxpool_ort run models/digits.onnx --json | head -c 1; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", piped], capture_output=True, text=True, check=False)  # noqa: S603, S607
    assert (result.returncode, result.stdout, result.stderr) == (0, "{", "")


def test_ctrl_c() -> None:
    """An interrupted run exits with 130, as shells expect, and without a traceback."""
    code = """
        import sys
        import onnxruntime
        from maxpool_ort import cli, op
        onnxruntime.set_default_logger_severity(4)  # it logs the guard's refusal
        def interrupt(*_, **__):
            raise KeyboardInterrupt
        op._prepared = interrupt
        sys.exit(cli.main(["run", "pool.onnx"]))
    """
    result = run_python(code)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")
