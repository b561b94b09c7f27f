"""The benchmark: what it compares, what it refuses to count, and what it makes of results. No test looks at a clock."""

from collections.abc import Sequence
from functools import partial
import json
import os
from pathlib import Path
import signal
from statistics import geometric_mean
import subprocess
import sys

import numpy as np
import onnx
import pytest
from subprocesses import interrupt_who_waits, printed, run_python

import maxpool_ort as mp
from maxpool_ort import bench, cli, peers, report, workloads
from maxpool_ort.bench import Growth, Result
from maxpool_ort.bench_models import ModelResult, measure_model
from maxpool_ort.report import Findings
from maxpool_ort.workloads import Case

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PROFILE = json.loads((ROOT / "scripts" / "profile.json").read_text())
TINY = workloads.WORKLOADS[-1]


@pytest.mark.parametrize("workload", workloads.WORKLOADS, ids=lambda workload: workload.name)
def test_workloads_are_what_networks_have(workload: workloads.Workload) -> None:
    """Each workload is a legal MaxPool with outputs."""
    assert all(workload.attributes.output_shape(workload.shape))


@pytest.mark.parametrize("peer", ["onnxruntime", "border", "textbook", "reference"])
@pytest.mark.parametrize("with_indices", [False, True])
@pytest.mark.parametrize("dtype", workloads.DTYPE_NAMES)
def test_peers_give_what_we_give(dtype: str, with_indices: bool, peer: str) -> None:
    """Each peer runs the smallest workload, and its times count."""
    result = bench.measure(Case(TINY, dtype, with_indices, 1, peer), pairs=1)
    assert (result.reason, result.pairs) == ("", 1)
    assert result.ratio > 0


@pytest.mark.parametrize("dtype", workloads.DTYPE_NAMES)
def test_smooth_data(dtype: str) -> None:
    """Neighbours are closer than random numbers are, much is 0, nothing below; and a peer gets the same."""
    workload = workloads.make_workload("", (2, 3, 40, 40), 3)
    x, random = (Case(workload, dtype, True, 1, "onnxruntime", data).x() for data in ("smooth", "random"))
    assert (x.dtype, x.shape) == (random.dtype, random.shape)
    assert x.min() == 0
    assert 0.1 < (x == 0).mean() < 0.9
    apart, random_apart = (
        np.abs(np.diff(each.astype(float))).mean() / np.ptp(each.astype(float)) for each in (x, random)
    )
    assert 0 < apart < random_apart / 3
    assert bench.measure(Case(workload, dtype, True, 1, "textbook", "smooth"), pairs=1).ratio > 0


# attributes of workloads that the textbook operator must get right too
TEXTBOOK = [
    {"strides": 2, "pads": 1},
    {"dilations": 2},
    {"auto_pad": "SAME_UPPER", "strides": 2},
    {"pads": [2, 0, 1, 1]},
]


@pytest.mark.parametrize("with_indices", [False, True])
@pytest.mark.parametrize("attributes", TEXTBOOK, ids=str)
def test_textbook_operator(attributes: dict, with_indices: bool) -> None:
    """The textbook operator is right where the workloads are not square and small."""
    workload = workloads.make_workload("", (2, 3, 7, 9), 3, **attributes)
    result = bench.measure(Case(workload, "float32", with_indices, 1, "textbook"), pairs=1)
    assert result.reason == ""


def test_torch_where_it_is_installed() -> None:
    """Torch is compared, or said not to be there; what it cannot do is said."""
    result = bench.measure(Case(TINY, "float32", True, 1, "torch"), pairs=1)
    assert result.reason == "not installed" or result.ratio > 0
    wide = next(workload for workload in workloads.WORKLOADS if workload.name == "wide window")
    result = bench.measure(Case(wide, "float32", False, 1, "torch"), pairs=1)
    assert result.reason in {"not installed", "has only pads that are the same at both ends"}


def test_what_differs_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a peer gives something else there is no ratio, but a reason."""
    x = np.zeros(TINY.shape, np.float32)
    x[..., ::2, 1] = np.nan  # ONNX Runtime loses it: it is neither first nor last in its window
    monkeypatch.setattr(Case, "x", lambda _: x)
    result = bench.measure(Case(TINY, "float32", False, 1, "onnxruntime"), pairs=1)
    assert (result.ratio, result.reason) == (None, "its Y differs in 16 of 64 elements")


def test_ctrl_c_in_a_textbook_operator() -> None:
    """An interrupt waits for the end of a run of the textbook operator, which it would crash, and is raised then."""
    run = peers._uninterrupted(lambda: signal.raise_signal(signal.SIGINT))  # noqa: SLF001
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert signal.getsignal(signal.SIGINT) == before


def name_and_process(case: Case) -> tuple[str, int]:
    """Of which workload, and where."""
    return case.workload.name, os.getpid()


def test_each_workload_has_a_process_of_its_own() -> None:
    """All its cases run there, in their order."""
    chosen = workloads.cases(workloads=["spp 5", "tiny"], dtypes=["int8"], peers=["onnxruntime"], threads=[1])
    found = list(bench.apart(name_and_process, chosen))
    assert [name for name, _ in found] == ["spp 5"] * 2 + ["tiny"] * 2
    assert len({*found, ("here", os.getpid())}) == 3


def test_an_interrupt_ends_the_process_that_measures(tmp_path: Path) -> None:
    """It is not waited for: a measurement may take minutes."""
    with pytest.raises(KeyboardInterrupt):
        list(bench.apart(partial(interrupt_who_waits, tmp_path / "mark"), [Case(TINY, "int8", False, 1, "border")]))
    assert list(tmp_path.iterdir()) == []


def test_threads_are_as_before() -> None:
    """A measurement leaves the number of threads as it was."""
    mp.set_num_threads(3)
    try:
        bench.measure(Case(TINY, "uint8", False, 1, "onnxruntime"), pairs=1)
        assert mp.get_num_threads() == 3
    finally:
        mp.set_num_threads(1)


def test_cases() -> None:
    """Names choose; peers without threads, and the slow reference, are measured where it makes sense."""
    everything = workloads.cases(threads=[1, 2])
    assert len(everything) == len(set(everything))
    assert {case.workload for case in everything if case.peer == "reference"} == {TINY}
    assert {case.threads for case in everything if case.peer == "textbook"} == {1}
    chosen = workloads.cases(
        workloads=["tiny"], dtypes=["int8"], outputs=["Y"], threads=[1], peers=["torch", "onnxruntime"]
    )
    assert [(case.workload.name, case.dtype, case.outputs, case.threads, case.peer) for case in chosen] == [
        ("tiny", "int8", "Y", 1, "onnxruntime"),
        ("tiny", "int8", "Y", 1, "torch"),
    ]


def test_growth() -> None:
    """Windows and sizes are grown with and without Indices, and take no more memory than is promised."""
    entries = list(bench.growth(pairs=1))
    assert len(entries) == 28
    assert all(0 < entry.scratch_mib <= 16 for entry in entries)


def result(workload: str, dtype: str, outputs: str, ratio: float | None, peer: str = "onnxruntime") -> Result:
    """A made-up result."""
    if ratio is None:
        return Result(workload, dtype, outputs, 1, peer, reason="cannot")
    return Result(workload, dtype, outputs, 1, peer, 2.0, 2.0 * ratio, 15)


RESULTS = [
    result("resnet stem", "float32", "Y", 0.5),
    result("vgg block", "float16", "Y", 2),
    result("spp 13", "float32", "Y", 3),
    result("dilated", "float32", "Y", 4),
    result("vgg block", "int8", "Y+Indices", 9),
    result("tiny", "float32", "Y", 0.1),
    result("spp 13", "float32", "Y+Indices", None),
]


MODELS = [
    ModelResult("net", 3, 1, 2.0, 3.0, 1.0, 2.5, 15),
    ModelResult("odd", 1, 1, reason="output 'Y' differs"),
]


def test_groups() -> None:
    """Rows go to the group that their path in ONNX Runtime makes."""
    groups = [report.group_of(each) for each in RESULTS]
    assert groups == [
        report.HAND_TUNED, report.HAND_TUNED, report.LARGE, report.OTHERS, report.OTHERS, report.TINY, report.OTHERS,
    ]  # fmt: skip


def test_tables() -> None:
    """A table for each kind of outputs, then the means of the groups, and what was not compared."""
    made = {
        title: rows
        for title, _, rows in report.tables(Findings(RESULTS, [Growth("window of 3", "Y", 1.5, 3.25, 2)], MODELS))
    }
    assert made["onnxruntime, Y, 1 thread: its time / ours"][1] == ["vgg block", "", "2.00"]
    means = {row[2]: row[3:] for row in made["ratios, its time / ours"]}
    assert means[report.HAND_TUNED] == ["2", "0.50", "1.00", "2.00"]
    assert means[report.OTHERS] == ["2", "4.00", "6.00", "9.00"]
    assert means["all rows, tiny apart"][0] == "5"
    assert made["our whole runs, float32, one thread"] == [["window of 3", "Y", "1.500", "3.25", "2.0"]]
    assert made["whole models, ms a run; ratio: of built-in"] == [
        ["net", "3", "2.00", "3.00", "1.50", "1.00", "0.50", "1", "2.50", "1.25"],
        ["odd", "1", "output 'Y' differs", "", "", "", "", "1", "", ""],
    ]
    assert made["not compared (-)"] == [["onnxruntime", "cannot"]]


def test_documents_round_trip(tmp_path: Path) -> None:
    """What is written as JSON is read again."""
    path = tmp_path / "results.json"
    grown = [Growth("window of 3", "Y", 1.5, 3.25, 2.0)]
    path.write_text(json.dumps(report.as_document({"cores": "2"}, Findings(RESULTS, grown, MODELS))))
    assert report.from_document(str(path)) == ({"cores": "2"}, Findings(RESULTS, grown, MODELS))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"machine": {}, "results": [{"x": 1}], "growth": []}', "\xff"])
def test_other_documents_are_refused(text: str, tmp_path: Path) -> None:
    """Something else than results is an error that says what is expected."""
    path = tmp_path / "results.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(mp.MaxPoolError, match="must hold what bench --json prints"):
        report.from_document(str(path))


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_draw(suffix: str, tmp_path: Path) -> None:
    """The chart is drawn in each of the formats."""
    path = tmp_path / f"chart.{suffix}"
    report.draw(str(path), {"processor": "some"}, RESULTS)
    start = path.read_bytes()[:64]
    assert {"png": b"PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix] in start
    if suffix == "svg":
        assert "resnet stem" in path.read_text() or "<use" in path.read_text()


def test_what_cannot_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other formats, nothing to draw, and no matplotlib: each is said."""
    with pytest.raises(mp.MaxPoolError, match=r"must name a file that ends in \.png, \.svg, \.pdf, got x\.gif"):
        report.draw("x.gif", {}, RESULTS)
    with pytest.raises(mp.MaxPoolError, match="there are none"):
        report.draw(str(tmp_path / "x.png"), {}, RESULTS[-1:])
    monkeypatch.setattr(report.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(mp.MaxPoolError, match=r"needs matplotlib: pip install 'maxpool_ort\[plot\]'"):
        report.draw("x.png", {}, RESULTS)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Bench measures a part, prints JSON, and shows and draws it again from the file."""
    monkeypatch.chdir(tmp_path)
    command = ["bench", "--workload", "tiny", "--dtype", "float32", "--peer", "onnxruntime", "--threads", "1"]
    assert cli.main([*command, "--pairs", "1", "--json"]) == 0
    Path("results.json").write_text(capsys.readouterr().out)
    assert [entry["outputs"] for entry in json.loads(Path("results.json").read_text())["results"]] == ["Y", "Y+Indices"]
    assert cli.main(["bench", "--load", "results.json", "--plot", "chart.svg"]) == 0
    printed = capsys.readouterr().out
    assert "onnxruntime, Y+Indices, 1 thread: its time / ours" in printed
    assert printed.endswith("wrote chart.svg\n")
    assert Path("chart.svg").stat().st_size > 1000
    assert cli.main(["bench", "--load", "missing.json"]) == 1
    assert "missing.json: No such file" in capsys.readouterr().err
    assert cli.main(["bench", "--workload", "tiny", "--plot", "chart.gif"]) == 1
    assert "must name a file that ends in" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--threads", "0"], ["--pairs", "x"], ["--peer", "nobody"], ["--dtype", "int32"]]
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What bench does not know is wrong usage."""
    with pytest.raises(SystemExit) as raised:
        cli.main(["bench", *arguments])
    assert raised.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def kept(name: str = "bench") -> Findings:
    """The results that stand under scripts/."""
    return report.from_document(str(ROOT / "scripts" / f"{name}.json"))[1]


def test_kept_results() -> None:
    """What stands under scripts/ is of all workloads, and nothing of ONNX Runtime in it was refused."""
    found = kept()
    assert {each.workload for each in found.results} == {workload.name for workload in workloads.WORKLOADS}
    assert not [each for each in found.results if each.peer == "onnxruntime" and each.ratio is None]
    assert found.growth


@pytest.mark.parametrize("workload", workloads.WORKLOADS, ids=lambda workload: workload.name)
def test_the_readme_shows_the_kept_results(workload: workloads.Workload) -> None:
    """README's table of ratios is that of scripts/bench.json, row by row."""
    results = kept().results
    ratios = {
        (each.outputs, each.dtype): each.ratio
        for each in results
        if (each.workload, each.peer, each.threads) == (workload.name, "onnxruntime", 1)
    }
    cells = [
        report.as_text(ratios[outputs, dtype]) for outputs in ("Y", "Y+Indices") for dtype in workloads.DTYPE_NAMES
    ]
    assert f"| {workload.name} | {' | '.join(cells)} |" in README


@pytest.mark.parametrize("peer", ["onnxruntime", "torch", "textbook"])
def test_the_readme_shows_the_kept_means(peer: str) -> None:
    """README's geometric means are those of scripts/bench.json."""
    results = kept().results
    means = next(rows for title, _, rows in report.tables(Findings(results)) if title.startswith("ratios"))
    for _, threads, group, _, least, mean, greatest in (row for row in means if row[0] == peer):
        assert f"| {peer} | {threads} | {group} | {least} | {mean} | {greatest} |" in README


@pytest.mark.parametrize(("name", "nodes", "recommended"), [("spp", 4, 0), ("segnet", 2, 0), ("digits", 2, 0)])
def test_whole_models(name: str, nodes: int, recommended: int) -> None:
    """A network is timed four ways that give the same, with the nodes ours that it says."""
    found = measure_model(ROOT / "models" / f"{name}.onnx", pairs=1)
    assert (found.model, found.nodes, found.recommended, found.reason) == (name, nodes, recommended, "")
    assert all(ms > 0 for ms in (found.built_in_ms, found.all_ms, found.recommended_ms, found.ready_ms))


def test_results_that_are_ready() -> None:
    """Nodes work once; then they return what they had, whatever they are given."""
    code = """
        import numpy as np, maxpool_ort as mp
        from maxpool_ort import bench_models
        bench_models._keep_results()
        session = mp.InferenceSession(mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 3]))
        print([session.run(None, {"X": np.full((1, 1, 3), x, np.float32)})[0].tolist() for x in (1, 2)])
    """
    assert printed(code) == "[[[[1.0, 1.0]]], [[[1.0, 1.0]]]]"


def test_whole_models_that_differ(tmp_path: Path) -> None:
    """Where ONNX Runtime's own operators give something else, no times count."""
    dilated = {"kernel_shape": [3], "dilations": [2], "auto_pad": "SAME_UPPER"}
    onnx.save(mp.make_maxpool_model(**dilated, input_shape=[1, 1, 9]), tmp_path / "dilated.onnx")
    found = measure_model(tmp_path / "dilated.onnx", pairs=1)
    assert (found.reason, found.all_ms) == ("output 'Y' differs", None)


INTERRUPTED = """
import os, signal, sys
from maxpool_ort import bench_models
signal.signal(signal.SIGINT, signal.default_int_handler)
os.setpgid(0, 0)
turns = iter(range(3))
bench_models.sleep = lambda _: next(turns) == 2 and os.killpg(0, signal.SIGINT)
try:
    bench_models.measure_model(sys.argv[1], 2)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_while_whole_models_are_timed() -> None:
    """It ends the processes that were started too, and they say nothing."""
    done = run_python(INTERRUPTED, str(ROOT / "models" / "digits.onnx"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


def test_whole_models_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """With --model only models are timed."""
    assert cli.main(["bench", "--model", str(ROOT / "models" / "digits.onnx"), "--pairs", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [entry["model"] for entry in document["models"]] == ["digits"]
    assert document["results"] == document["growth"] == []


def test_the_readme_shows_the_kept_models() -> None:
    """README's table of whole models is that of scripts/bench_models.json."""
    models = kept("bench_models").models
    assert len(models) >= 3
    for m in models:
        ours, recommended, ready = (f"{ms / m.built_in_ms:.2f}" for ms in (m.all_ms, m.recommended_ms, m.ready_ms))
        figures = [m.nodes, f"{m.built_in_ms:.2f}", ours, ready, recommended, m.recommended]
        assert f"| {m.model.removeprefix('light_')} | {' | '.join(map(str, figures))} |" in README


def test_profile() -> None:
    """The profile counts what NumPy's calls put out: of 2x2 windows side by side, all, half the rows, along these, a quarter."""
    script = ROOT / "scripts" / "profile_kernel.py"
    part = ["--workload", "unet batch", "--dtype", "uint8", "--outputs", "Y", "--json"]
    done = subprocess.run([sys.executable, script, *part], capture_output=True, text=True, check=True)  # noqa: S603
    document = json.loads(done.stdout)
    ((*row,),) = document["rows"]
    found = dict(zip(document["header"], row, strict=True))
    assert found["passes"] == f"{1 + 1 / 2 + 1 / 2 + 1 / 4:.2f}"
    assert all(float(found[name]) > 0 for name in document["header"][3:])


def test_the_readme_tells_how_windows_grow() -> None:
    """A window of 128 against one of 3, of scripts/bench.json."""
    ms = {(each.what, each.outputs): each.ms for each in kept().growth}
    y, both = (ms["window of 128", outputs] / ms["window of 3", outputs] for outputs in ("Y", "Y+Indices"))
    assert f"costs {y:.1f} times one of 3 for each output, with Indices {both:.1f} times" in README


def test_the_readme_tells_the_floor_of_a_model() -> None:
    """That of inception_v1, of scripts/profile_models.json."""
    rows = json.loads((ROOT / "scripts" / "profile_models.json").read_text())["rows"]
    (by_calls,) = (row[-1] for row in rows if row[0] == "light_inception_v1")
    assert f"inception_v1 takes {by_calls} times as long" in " ".join(README.split())


def test_profile_of_a_model() -> None:
    """Its nodes' calls take some time, and a part of what they all take."""
    command = [
        sys.executable,
        ROOT / "scripts" / "profile_kernel.py",
        "--model",
        ROOT / "models" / "spp.onnx",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    document = json.loads(done.stdout)
    ((name, nodes, *figures),) = document["rows"]
    assert (name, nodes) == ("spp", "4")
    assert len(figures) == len(document["header"]) - 2
    assert all(float(figure) > 0 for figure in figures)


@pytest.mark.parametrize("workload", ["vgg block", "video", "audio"])
def test_the_readme_shows_the_kept_profile_of_threads(workload: str) -> None:
    """README's table of threads is that of scripts/profile_threads.json, for three workloads."""
    document = json.loads((ROOT / "scripts" / "profile_threads.json").read_text())
    rows = [row for row in document["rows"] if row[0] == workload]
    assert len(rows) == 4
    for _, dtype, outputs, *figures in rows:
        assert f"| {workload} | {dtype} {outputs} | {' | '.join(figures)} |" in README


def test_the_readme_tells_what_two_threads_could_reach() -> None:
    """The greatest ratio of a workload with strides if the kernel got what scripts/profile_threads.json says there is."""
    theirs = {
        (each.workload, each.dtype, each.outputs): each.peer_ms
        for each in kept().results
        if (each.peer, each.threads) == ("onnxruntime", 2)
    }
    strided = {each.name for each in workloads.WORKLOADS if max(each.attributes.strides) > 1}
    rows = json.loads((ROOT / "scripts" / "profile_threads.json").read_text())["rows"]
    best = max(
        theirs[tuple(row[:3])] / ((float(row[3]) + float(row[4])) / float(row[8])) for row in rows if row[0] in strided
    )
    assert f"strides could be at most {best:.1f} times" in " ".join(README.split())


def test_profile_of_threads() -> None:
    """Two threads and two processes do the work, and the table says how fast."""
    script = ROOT / "scripts" / "profile_threads.py"
    part = ["--workload", "unet batch", "--dtype", "float32", "--json"]
    done = subprocess.run([sys.executable, script, *part], capture_output=True, text=True, check=True)  # noqa: S603
    document = json.loads(done.stdout)
    rows = document["rows"]
    assert [row[:3] for row in rows] == [["unet batch", "float32", outputs] for outputs in ("Y", "Y+Indices")]
    assert all(len(row) == len(document["header"]) for row in rows)
    assert all(float(figure) > 0 for row in rows for figure in row[3:])


def test_the_readme_shows_the_kept_profile() -> None:
    """README's profile is that of scripts/profile.json: float32 with Y, float64 with both."""
    rows = [row for row in PROFILE["rows"] if tuple(row[1:3]) in {("float32", "Y"), ("float64", "Y+Indices")}]
    rows = [row for row in rows if row[0] not in {"wide window", "tiny"}]
    assert len(rows) == 22
    for workload, dtype, outputs, *figures, _, _, ratio, by_calls, best in rows:
        assert f"| {workload} | {dtype} {outputs} | {' | '.join(figures)} | {ratio} | {by_calls} | {best} |" in README


def of_the_hand_tuned_path(profile: dict) -> list[tuple[float, ...]]:
    """What was found, by calls, and in cache: the ratios of all rows of a profile."""
    kinds = {
        (each.workload, each.dtype, each.outputs)
        for each in kept().results
        if report.group_of(each) == report.HAND_TUNED
    }
    rows = [[float(figure) for figure in row[-3:]] for row in profile["rows"] if tuple(row[:3]) in kinds]
    assert len(rows) == 16
    return list(zip(*rows, strict=True))


def from_to(ratios: Sequence[float]) -> str:
    """The least and the greatest."""
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def test_the_readme_tells_the_floor_of_the_hand_tuned_path() -> None:
    """From the least to the greatest ratio, and means, of scripts/profile.json and, with two threads, profile_2.json."""
    found, by_calls, best = of_the_hand_tuned_path(PROFILE)
    means = [f"{geometric_mean(each):.2f}" for each in (by_calls, best, found)]
    told = (
        f"that is {from_to(by_calls)} and {from_to(best)}, with means of {means[0]} and {means[1]}, for the {means[2]}"
    )
    text = " ".join(README.split())
    assert told in text
    found, by_calls, _ = of_the_hand_tuned_path(json.loads((ROOT / "scripts" / "profile_2.json").read_text()))
    mean, mean_found = geometric_mean(by_calls), geometric_mean(found)
    assert f"would be at {from_to(by_calls)}, {mean:.2f} in the mean; found was {mean_found:.2f}" in text


def test_the_readme_tells_the_floor_of_strides() -> None:
    """Of float64 with Indices, in scripts/profile.json."""
    strided = {each.name for each in workloads.WORKLOADS[:-1] if max(each.attributes.strides) > 1}
    ratios = [float(row[-2]) for row in PROFILE["rows"] if row[0] in strided and row[1:3] == ["float64", "Y+Indices"]]
    assert len(ratios) == len(strided)
    assert f"strides of 2 could get to {from_to(ratios)} by calls" in " ".join(README.split())


@pytest.mark.parametrize(("threads", "before"), [(1, "With Indices and strides of 2"), (2, "with two threads")])
def test_the_readme_tells_the_kept_results_of_smooth_data(threads: int, before: str) -> None:
    """From the least to the greatest ratio of scripts/bench_smooth.json."""
    results = [each for each in kept("bench_smooth").results if each.threads == threads]
    ratios = {dtype: [each.ratio for each in results if each.dtype == dtype] for dtype in ("float32", "float64")}
    told = {dtype: f"{min(each):.2f} to {max(each):.2f}" for dtype, each in ratios.items()}
    text = " ".join(README.split())
    is_first = threads == 1
    assert f"{before} float32 {'is then ' if is_first else ''}{told['float32']}" in text
    assert f"float64 {told['float64']}{'; with two' if is_first else '.'}" in text
