"""The conformance kit: what is in it, that it is right, and that it finds out who is wrong."""

from collections.abc import Sequence
import json
from pathlib import Path
import shlex
import shutil
import subprocess
import sys
import textwrap
import types
from typing import Any

import numpy as np
import onnx
from oracle import assert_same, max_pool_oracle
import pytest
from regression import regression_cases
from versions import ONNX, ORT

import maxpool_ort as mp
from maxpool_ort import cli, conformance, conformance_report, runtimes
from maxpool_ort.conformance import Case, Held, Verdict

ROOT = Path(__file__).parents[1]
KIT = ROOT / "models" / "conformance"
README = (ROOT / "README.md").read_text()
RECORDED = ROOT / "scripts" / "conformance.json"
CASES = conformance.read_kit(KIT)
BY_NAME = {case.name: case for case in CASES}


def run_script(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run scripts/build_conformance.py."""
    command = [sys.executable, ROOT / "scripts" / "build_conformance.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603


# the kit


def test_the_kit_is_what_its_script_makes(tmp_path: Path) -> None:
    """Every byte of it; and --check finds a byte that differs, a file too few and one too many."""
    assert run_script("--check").returncode == 0
    copy = tmp_path / "kit"
    shutil.copytree(KIT, copy)
    (copy / "rank_1" / "test_data_set_0" / "output_0.pb").write_bytes(b"")
    (copy / "rank_2" / "model.onnx").unlink()
    (copy / "mine.txt").write_text("")
    checked = run_script("--check", "--out", copy)
    assert checked.returncode == 1
    assert checked.stdout.splitlines() == [
        "differs: rank_1/test_data_set_0/output_0.pb",
        "differs: rank_2/model.onnx",
        "not built: mine.txt",
    ]
    assert run_script("--out", copy).returncode == 0
    assert run_script("--check", "--out", copy).returncode == 0


def test_the_kit_is_large_and_small() -> None:
    """At least 150 cases, in less than 2 MiB, and the README of the kit counts them."""
    assert len(CASES) >= 150
    assert sum(path.stat().st_size for path in KIT.rglob("*") if path.is_file()) < 2 * 2**20
    silent = sum(bool(case.silent) for case in CASES)
    assert f"{len(CASES)} cases" in (KIT / "README.md").read_text()
    assert f"on {silent} of them" in (KIT / "README.md").read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_a_standard_model_and_what_the_oracle_gives(case: Case) -> None:
    """Checked by onnx, one MaxPool of version 12, and the files say what the oracle says of X."""
    model = onnx.load(case.model)
    onnx.checker.check_model(model, full_check=True)
    assert [(each.domain, each.version) for each in model.opset_import] == [("", 12)]
    (node,) = model.graph.node
    assert node.op_type == "MaxPool"
    assert case.pins in model.graph.doc_string
    assert case.source in model.graph.doc_string
    assert (case.silent in model.graph.doc_string) if case.silent else ("silent" not in model.graph.doc_string)
    attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    if "auto_pad" in attributes:
        attributes["auto_pad"] = attributes["auto_pad"].decode()
    (x,) = case.inputs().values()
    right = max_pool_oracle(x, **attributes)[: len(node.output)]
    for got, expected in zip(case.expected(), right, strict=True):
        assert_same(got, expected, case.name)


def test_the_kit_covers_the_operator() -> None:
    """Every dtype with every kind of attribute, both orders, ranks to 5, every public report; N, C > 1 in most."""
    shapes = [next(iter(case.inputs().values())).shape for case in CASES]
    assert {len(shape) - 2 for shape in shapes} == {1, 2, 3, 4, 5}
    assert sum(shape[0] > 1 and shape[1] > 1 for shape in shapes) > len(CASES) / 4
    for dtype in conformance_dtypes():
        assert {case.name.removeprefix(f"{dtype}_") for case in CASES if case.feature == dtype} == {
            "plain", "strides", "pads", "dilations", "same_upper", "same_lower", "ceil", "1d", "3d", "indices",
        }  # fmt: skip
    assert {f"report_{case.name}" for case in regression_cases()} <= set(BY_NAME)


def conformance_dtypes() -> list[str]:
    """The dtypes of the operator's page."""
    types = onnx.defs.get_schema("MaxPool", 12).type_constraints[0].allowed_type_strs
    return [np.dtype({"float": "f4", "double": "f8"}.get(t[7:-1], t[7:-1])).name for t in types]


# What the page leaves open, each with cases that must say so, and cases alike that it decides.
SILENT = [
    ("window of padding only", "pads_of_kernel", "pads_largest_below_kernel"),
    ("NaN", "nan_float32", "minus_inf_float32"),
    ("equal elements", "ties_all_equal", "indices_2d"),
    ("column-major", "column_major_2d", "column_major_2d_one_plane"),
    ("pad_shape is negative", "same_upper_beyond_the_window", "same_upper_stride_3"),
    ("last window", "ceil_dropped", "ceil_partial_window"),
    ("empty text", "spelled_out_empty_auto_pad", "spelled_out_notset"),
    ("beside auto_pad", "spelled_out_pads_with_valid", "spelled_out_pads"),
]


@pytest.mark.parametrize(("text", "silent", "decided"), SILENT, ids=[row[0] for row in SILENT])
def test_where_the_page_is_silent(text: str, silent: str, decided: str) -> None:
    """A case that goes beyond the page says on what; its neighbour does not."""
    assert text in BY_NAME[silent].silent
    assert BY_NAME[decided].silent == ""


# runtimes


def test_ours_passes_all() -> None:
    """All of it, in a session."""
    verdicts = list(conformance.try_runtime("maxpool_ort", CASES, 60))
    assert [verdict.case for verdict in verdicts] == [case.name for case in CASES]
    assert [verdict for verdict in verdicts if verdict.outcome != "pass"] == []


# (runtime, case, outcome, what the detail holds): each known of onnxruntime 1.32 or onnx 1.23
OTHERS = [
    ("onnxruntime", "rank_1", "pass", ""),
    ("onnxruntime", "rank_4", "refused", "Unsupported pooling size"),
    ("onnxruntime", "same_upper_dilated", "fail", "Y: got float32 (2, 2, 3, 5), expected float32 (2, 2, 5, 7)"),
    ("onnxruntime", "report_valid_ignores_ceil_mode", "fail", "Y: got float32 (1, 1, 3), expected float32 (1, 1, 2)"),
    ("onnxruntime", "nan_float32", "fail", "differ, first at (0, 0, 0): got 1.0, expected nan"),
    ("onnx.reference", "rank_5", "pass", ""),
    ("onnx.reference", "indices_2d", "fail", "Indices: 27 of 36 differ, first at (0, 1, 0, 0): got 6, expected 26"),
    ("onnx.reference", "same_lower_strided_2x2", "fail", "Y: got float32 (1, 2, 2, 2), expected float32 (1, 2, 3, 3)"),
]


@pytest.mark.skipif(ORT < (1, 32) or ONNX < (1, 23), reason="what is known of others is of onnxruntime 1.32, onnx 1.23")
def test_others() -> None:
    """What is known of others is found out."""
    for runtime in ("onnxruntime", "onnx.reference"):
        rows = [row for row in OTHERS if row[0] == runtime]
        verdicts = conformance.try_runtime(runtime, [BY_NAME[row[1]] for row in rows], 60)
        for (_, _, outcome, detail), verdict in zip(rows, verdicts, strict=True):
            assert verdict.outcome == outcome, verdict
            assert detail in verdict.detail


def serving(body: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A runtime "tinygrad" whose module is a file of ours, so that what a process may do can be tried."""
    nn = tmp_path / "tinygrad" / "nn"
    nn.mkdir(parents=True)
    (tmp_path / "tinygrad" / "__init__.py").write_text("def Tensor(x): return x\n")
    (nn / "__init__.py").write_text("")
    (nn / "onnx.py").write_text(textwrap.dedent(body))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "tinygrad"


RUNNER = """
    import numpy as np, os, time
    class Array(np.ndarray):
        def numpy(self): return np.asarray(self)
    class OnnxRunner:
        def __init__(self, path): self.path = str(path)
        def __call__(self, feed):
            if "rank_2" in self.path: os.abort()
            if "rank_3" in self.path: time.sleep(60)
            if "rank_4" in self.path: raise RuntimeError("line 1\\nline 2")
            return {"Y": np.zeros(3).view(Array)}
"""


def test_a_runtime_may_end_and_hang(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A process that ends or gives no answer is one crashed case, and the next runs."""
    name = serving(RUNNER, monkeypatch, tmp_path)
    cases = [BY_NAME[f"rank_{rank}"] for rank in (1, 2, 3, 4, 5)]
    verdicts = list(conformance.try_runtime(name, cases, 5))
    assert verdicts == [
        Verdict("rank_1", "fail", "Y: got float64 (3,), expected float32 (2, 3, 9)"),
        Verdict("rank_2", "crashed", "ended by SIGABRT"),
        Verdict("rank_3", "crashed", "no answer in 5 seconds"),
        Verdict("rank_4", "refused", "RuntimeError: line 1 line 2"),
        Verdict("rank_5", "fail", f"Y: got float64 (3,), expected float32 {cases[4].expected()[0].shape}"),
    ]


@pytest.mark.parametrize(
    ("body", "text"),
    [("raise OSError('no driver')", "OSError: no driver"), ("import os; os._exit(3)", "ended with 3")],
    ids=["raises", "ends"],
)
def test_a_runtime_that_does_not_start(body: str, text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is an error, not 290 failures."""
    (tmp_path / "tinygrad").mkdir()
    (tmp_path / "tinygrad" / "__init__.py").write_text(body)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(mp.MaxPoolError, match=f"runtime tinygrad does not start: {text}; try to import it in Python"):
        list(conformance.try_runtime("tinygrad", CASES, 60))


# (case, outputs, detail)
JUDGED = [
    ("report_ties_first_wins", [], "got 0 outputs, expected 2"),
    ("report_ties_first_wins", [np.ones((1, 1, 2), "f4"), np.array([[[0, 3]]])], "Indices: 1 of 2 differ, first at (0, 0, 1): got 3, expected 2"),
    ("report_ties_first_wins", [np.ones((1, 1, 2), "f8"), np.array([[[0, 2]]])], "Y: got float64 (1, 1, 2), expected float32 (1, 1, 2)"),
    ("report_ties_first_wins", [np.ones((1, 1, 2), "f4"), np.array([[[0, 2]]], "i4")], "Indices: got int32 (1, 1, 2), expected int64 (1, 1, 2)"),
    ("report_nan_propagates", [np.array([[[np.nan, np.nan, np.nan, 3]]], "f4"), np.array([[[0, 3, 4, 6]]])], ""),
    ("zeros_float32", [np.array([[[0.0, -0.0, 0.0]]], "f4")], ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "outputs", "detail"), JUDGED)
def test_judge(name: str, outputs: Sequence[np.ndarray], detail: str) -> None:
    """Number, dtype, shape and elements count; NaN is NaN, and 0 is -0."""
    assert conformance.judge(BY_NAME[name], outputs) == Verdict(name, "fail" if detail else "pass", detail)


class FakeTorch(types.ModuleType):
    """PyTorch's pooling, as its page has it, by the oracle: what we ask it for, and what we make of its answer."""

    @staticmethod
    def from_numpy(x: np.ndarray) -> np.ndarray:
        """Its tensors are our arrays."""
        return x

    def __getattr__(self, name: str) -> Any:
        if name.startswith("max_pool"):
            return self._pool
        return self

    @staticmethod
    def _pool(x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, *flags: bool) -> Any:
        assert flags == (True,)
        assert all(2 * pad <= size for pad, size in zip(padding, kernel_size, strict=True)), "PyTorch's own limit"
        given = {"strides": stride, "pads": (*padding, *padding), "dilations": dilation, "ceil_mode": int(ceil_mode)}
        y, indices = max_pool_oracle(x, kernel_size, **given)
        return [types.SimpleNamespace(numpy=lambda a=a: a) for a in (y, indices % np.prod(x.shape[2:]))]


# (case, what is said of it)
TORCH = [
    ("rank_4", "PyTorch has no pooling along 4 axes"),
    ("same_upper_strided", "PyTorch has no auto_pad"),
    ("pads_begin", "PyTorch pads both ends alike"),
    ("column_major_2d", "PyTorch has no storage_order"),
    ("indices_3d", ""),
    ("pads_symmetric", ""),
    ("ceil_dilated", ""),
    ("column_major_without_indices", ""),
]


@pytest.mark.parametrize(("name", "said"), TORCH)
def test_torch(name: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch reads no ONNX: it is asked in its own words, where it has some, and answers by plane."""
    monkeypatch.setitem(sys.modules, "torch", FakeTorch("torch"))
    case = BY_NAME[name]
    run = runtimes.RUNTIMES["torch"].run
    if said:
        with pytest.raises(runtimes.NotApplicable, match=said):
            run(case.model, case.inputs())
    else:
        assert conformance.judge(case, run(case.model, case.inputs())).outcome == "pass"


# a command of the user's

PROGRAM = """
    import sys
    from pathlib import Path
    import onnx
    from onnx.reference import ReferenceEvaluator
    model, inputs, outputs = sys.argv[1:]
    x = onnx.numpy_helper.to_array(onnx.load_tensor(inputs + "/input_0.pb"))
    if "rank_4" in model:
        sys.exit("what is\\nrank 4?")
    for number, array in enumerate(ReferenceEvaluator(model).run(None, {"X": x})):
        Path(outputs, f"output_{number}.pb").write_bytes(onnx.numpy_helper.from_array(array).SerializeToString())
    if "rank_5" in model:
        Path(outputs, "output_0.pb").write_bytes(b"no tensor")
    if "window_1x1" in model:
        import os
        os.abort()
"""


def command_of(tmp_path: Path) -> str:
    """A program that runs a model, as a command line."""
    program = tmp_path / "a program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    return shlex.join([sys.executable, str(program)]) + " {model} {inputs} {outputs}"


def test_a_command(tmp_path: Path) -> None:
    """It is given a model and folders; what it writes is judged, what it exits with is told."""
    names = ["rank_1", "rank_4", "rank_5", "window_1x1", "same_lower_strided_2x2"]
    verdicts = list(conformance.try_command(command_of(tmp_path), [BY_NAME[name] for name in names], 60))
    assert [verdict.outcome for verdict in verdicts] == ["pass", "refused", "fail", "crashed", "fail"]
    assert [verdict.detail for verdict in verdicts[:4]][1] == "ended with 1: rank 4?"
    assert "expected a .pb file" in verdicts[2].detail
    assert verdicts[3].detail.startswith("ended by SIGABRT")
    slow = f"{sys.executable} -c 'import time; time.sleep(60)' {{model}} {{inputs}} {{outputs}}"
    (verdict,) = conformance.try_command(slow, CASES[:1], 1)
    assert verdict == Verdict("rank_1", "crashed", "no answer in 1 seconds")


# the command line


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table, failures, a page; the exit code is about runtimes that are named and what the page decides."""
    page = tmp_path / "page.html"
    arguments = ["conformance", "--runtime", "maxpool_ort", "--case", "rank_*", "--html", str(page)]
    assert cli.main(arguments) == 0
    out = capsys.readouterr().out
    assert "ranks" in out
    assert "5/5" in out
    assert "5/5" in page.read_text()
    command = command_of(tmp_path)
    assert cli.main(["conformance", "--command", command, "--case", "same_lower_strided_2x2"]) == 1
    assert "got float32 (1, 2, 2, 2), expected float32 (1, 2, 3, 3)" in " ".join(capsys.readouterr().out.split())
    assert cli.main(["conformance", "--command", command, "--case", "ties_few_values"]) == 0
    assert "silent" in capsys.readouterr().out


def test_what_is_printed_loads_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--json, then --load, gives the same document."""
    arguments = ["conformance", "--command", command_of(tmp_path), "--feature", "ranks", "--json"]
    assert cli.main(arguments) == 1
    printed = capsys.readouterr().out
    saved = tmp_path / "saved.json"
    saved.write_text(printed)
    assert cli.main(["conformance", "--load", str(saved), "--json"]) == 0  # ours is not in it
    assert capsys.readouterr().out == printed
    assert set(json.loads(printed)["runtimes"]["command"]["outcomes"].values()) == {"pass", "refused", "fail"}


# the page

STRANGE = "<script>alert('&amp;')</script>"
HELD = [
    Held("maxpool_ort", "1", {case.name: Verdict(case.name, "pass") for case in CASES}),
    Held("other", "2", {case.name: Verdict(case.name, "fail", STRANGE) for case in CASES}),
    Held("third", "3", {case.name: Verdict(case.name, "n/a") for case in CASES}),
]


def test_the_page_holds_all_and_needs_nothing() -> None:
    """Every failure with what it gave, escaped; no file, font or script from elsewhere."""
    page = conformance_report.as_page(CASES, HELD)
    assert page.count("<article>") == len(CASES)
    assert "&lt;script&gt;alert(&#x27;&amp;amp;&#x27;)" in page
    assert "<script" not in page
    assert not any(word in page for word in ("http://", "https://", "src=", "url(", "@import", "<link"))
    assert f"0/{sum(not case.silent for case in CASES)} that the page decides" in page
    assert "third: passes all that apply" in page


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MEASURE = """<!doctype html><iframe id=f src="page.html" style="border:0;width:{width}px;height:800px"></iframe>
<p id=out></p><script>f.onload = () => {{
const d = f.contentDocument, box = d.querySelector('.wide');
for (const each of d.querySelectorAll('details')) each.open = true;
const sizes = [...d.querySelectorAll('article, .scores li, summary')].map(e => e.getBoundingClientRect().right);
out.textContent = JSON.stringify({{page: d.documentElement.scrollWidth, view: f.clientWidth,
  right: Math.max(...sizes), table: box.scrollWidth, box: box.clientWidth,
  font: parseFloat(getComputedStyle(d.body).fontSize)}});
}}</script>"""


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_the_page_in_a_browser(width: int, tmp_path: Path) -> None:
    """On a phone and on a desk nothing runs over the edge, all details open; the table scrolls by itself."""
    held = [HELD[0], *(Held(name, "1.2.3", HELD[1].verdicts) for name in (*runtimes.RUNTIMES, "x" * 40))]
    (tmp_path / "page.html").write_text(conformance_report.as_page(CASES, held))
    (tmp_path / "measure.html").write_text(MEASURE.format(width=width))
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--allow-file-access-from-files",
        f"--user-data-dir={tmp_path}",
    ]
    command = [BROWSER, *options, "--virtual-time-budget=5000", "--dump-dom", f"file://{tmp_path}/measure.html"]
    dom = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout  # noqa: S603
    measured = json.loads(dom.partition('<p id="out">')[2].partition("</p>")[0])
    assert measured["view"] == width
    assert measured["page"] <= width
    assert measured["right"] <= width
    assert measured["font"] >= 16
    assert width > 1000 or measured["table"] > measured["box"]


# what README says


def test_the_readme_has_what_was_recorded() -> None:
    """README's table is the summary of the run in scripts/conformance.json."""
    cases, held = conformance_report.from_document(str(RECORDED))
    assert [case.name for case in cases] == [case.name for case in CASES]
    header, rows = conformance_report.summary(cases, held)
    header = [header[0], *(f"{each.runtime} {each.version}" for each in held)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows])
    assert table in README
    assert all(verdict.outcome == "pass" for verdict in held[0].verdicts.values())
