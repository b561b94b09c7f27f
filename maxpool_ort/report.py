"""The results of the benchmark as tables, as a document and as a chart."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
import importlib.util
import json
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from maxpool_ort.bench import Growth, Result
from maxpool_ort.bench_models import ModelResult
from maxpool_ort.errors import MaxPoolError
from maxpool_ort.workloads import DTYPE_NAMES, WORKLOADS

__all__ = ["Findings", "as_document", "as_text", "check_plot", "draw", "from_document", "group_of", "tables"]


@dataclass(frozen=True)
class Findings:
    """All that one benchmark has measured."""

    results: Sequence[Result] = ()
    growth: Sequence[Growth] = ()
    models: Sequence[ModelResult] = ()


Table = tuple[str, list[str], list[list[str]]]
"""Title, header, rows."""

_KERNELS = {workload.name: workload.attributes for workload in WORKLOADS}
HAND_TUNED = "float32 and float16, Y, no dilation, kernel below 8"
LARGE = "float32 and float16, Y, no dilation, kernel of 13 and more"
OTHERS = "Indices, dilation, float64, int8, uint8"
TINY = "tiny"
_CHARTS = (".png", ".svg", ".pdf")


def group_of(result: Result) -> str:
    """Rows that are alike for ONNX Runtime: it has a hand-tuned path for the first two groups."""
    attributes = _KERNELS[result.workload]
    if result.workload == TINY:
        return TINY
    if result.outputs != "Y" or result.dtype not in {"float32", "float16"} or set(attributes.dilations) != {1}:
        return OTHERS
    return HAND_TUNED if max(attributes.kernel_shape) < 8 else LARGE


def tables(found: Findings) -> Iterable[Table]:
    """A table of ratios for each peer, threads and outputs; their means; how the time grows; whole models."""
    results, grown = found.results, found.growth
    keys = list(dict.fromkeys((r.peer, r.threads, r.outputs) for r in results))
    for peer, threads, outputs in keys:
        chosen = [r for r in results if (r.peer, r.threads, r.outputs) == (peer, threads, outputs)]
        if not any(r.ratio for r in chosen):
            continue
        names = list(dict.fromkeys(r.workload for r in chosen))
        dtypes = [dtype for dtype in DTYPE_NAMES if any(r.dtype == dtype for r in chosen)]
        cells = {(r.workload, r.dtype): _cell(r) for r in chosen}
        rows = [[name, *(cells.get((name, dtype), "") for dtype in dtypes)] for name in names]
        yield f"{peer}, {outputs}, {_threads(threads)}: its time / ours", ["workload", *dtypes], rows
    rows = []
    for peer, threads in dict.fromkeys((r.peer, r.threads) for r in results):
        chosen = [r for r in results if (r.peer, r.threads) == (peer, threads)]
        for group in (HAND_TUNED, LARGE, OTHERS, "all rows, tiny apart", TINY):
            ratios = [
                r.ratio
                for r in chosen
                if r.ratio and (group_of(r) == group or (group.startswith("all") and group_of(r) != TINY))
            ]
            if ratios:
                figures = (min(ratios), geometric_mean(ratios), max(ratios))
                rows.append([peer, str(threads), group, str(len(ratios)), *map(as_text, figures)])
    if rows:
        yield (
            "ratios, its time / ours",
            ["peer", "threads", "rows", "count", "least", "geometric mean", "greatest"],
            rows,
        )
    if grown:
        yield (
            "our whole runs, float32, one thread",
            ["what", "outputs", "ms", "ns an output", "scratch MiB"],
            [[g.what, g.outputs, f"{g.ms:.3f}", f"{g.ns_per_output:.2f}", f"{g.scratch_mib:.1f}"] for g in grown],
        )
    if found.models:
        yield (
            "whole models, ms a run; ratio: of built-in",
            [
                "model",
                "MaxPool nodes",
                "built-in",
                "all ours",
                "of built-in",
                "recommended",
                "of built-in",
                "nodes ours",
                "all ready",
                "of built-in",
            ],
            [_model_row(each) for each in found.models],
        )
    reasons = dict.fromkeys((r.peer, r.reason) for r in results if r.reason)
    if reasons:
        yield "not compared (-)", ["peer", "reason"], [list(reason) for reason in reasons]


def _model_row(m: ModelResult) -> list[str]:
    """One row of the table of whole models."""
    if m.built_in_ms is None or m.all_ms is None or m.recommended_ms is None or m.ready_ms is None:
        return [m.model, str(m.nodes), m.reason, "", "", "", "", str(m.recommended), "", ""]
    ours, recommended, ready = (
        [f"{ms:.2f}", as_text(ms / m.built_in_ms)] for ms in (m.all_ms, m.recommended_ms, m.ready_ms)
    )
    return [m.model, str(m.nodes), f"{m.built_in_ms:.2f}", *ours, *recommended, str(m.recommended), *ready]


def _threads(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"


def _cell(result: Result) -> str:
    return "-" if result.ratio is None else as_text(result.ratio)


def as_text(ratio: float) -> str:
    """A ratio with three digits at most.

    >>> as_text(0.456), as_text(12.3), as_text(4567)
    ('0.46', '12', '4567')
    """
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def as_document(machine: dict[str, str], found: Findings) -> dict[str, Any]:
    """What can be kept as JSON."""
    return {
        "machine": machine,
        "results": [asdict(result) | {"ratio": result.ratio} for result in found.results],
        "growth": [asdict(entry) for entry in found.growth],
        "models": [asdict(entry) for entry in found.models],
    }


def from_document(path: str) -> tuple[dict[str, str], Findings]:
    """Read what ``as_document`` made from a file.

    Raises
    ------
    OSError
        If the file cannot be read.
    MaxPoolError
        If it is something else.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        results = [Result(**{k: v for k, v in entry.items() if k != "ratio"}) for entry in document["results"]]
        list(tables(Findings(results)))  # figures where figures belong, and workloads that there are
        grown = [Growth(**entry) for entry in document["growth"]]
        models = [ModelResult(**entry) for entry in document.get("models", [])]
        machine = {str(key): str(value) for key, value in document["machine"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        raise MaxPoolError(f"{path} must hold what bench --json prints: {type(error).__name__}: {error}") from error
    return machine, Findings(results, grown, models)


def check_plot(path: str) -> None:
    """Refuse, before anything is measured, a chart that could not be drawn.

    Raises
    ------
    MaxPoolError
        If matplotlib is not installed, or does not know such a file.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise MaxPoolError("--plot needs matplotlib: pip install 'maxpool_ort[plot]'")
    if Path(path).suffix not in _CHARTS:
        raise MaxPoolError(f"--plot must name a file that ends in {', '.join(_CHARTS)}, got {path}")


def draw(path: str, machine: dict[str, str], results: Sequence[Result]) -> None:
    """Draw ratios against ONNX Runtime's own operator, Y and Y+Indices side by side, at the fewest threads measured.

    Raises
    ------
    MaxPoolError
        As ``check_plot``, or if there is nothing to draw.
    OSError
        If the file cannot be written.
    """
    check_plot(path)
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    shown = [r for r in results if r.peer == "onnxruntime" and r.ratio]
    if not shown:
        raise MaxPoolError(
            "--plot draws ratios against onnxruntime, and there are none; measure with --peer onnxruntime"
        )
    threads = min(r.threads for r in shown)
    shown = [r for r in shown if r.threads == threads]
    names = list(dict.fromkeys(r.workload for r in shown))[::-1]
    size = (11, 0.42 * len(names) + 2)
    figure, panels = plt.subplots(1, 2, sharey=True, sharex=True, figsize=size, layout="constrained")
    markers = dict(zip(DTYPE_NAMES, "osD^v", strict=True))
    for panel, outputs in zip(panels, ("Y", "Y+Indices"), strict=True):
        panel.axvspan(1e-3, 1, color="#f4d9d0", lw=0)
        panel.axvline(1, color="black", lw=1)
        for dtype in DTYPE_NAMES:
            points = [(r.ratio, names.index(r.workload)) for r in shown if (r.dtype, r.outputs) == (dtype, outputs)]
            if points:
                panel.plot(*zip(*points, strict=True), markers[dtype], label=dtype, ms=7, mec="white", mew=0.7)
        panel.set(title=outputs, xscale="log")
        panel.grid(axis="both", color="#dddddd", lw=0.6)
        panel.set_axisbelow(True)
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    ratios = [r.ratio for r in shown if r.ratio]
    panels[0].set_xlim(min(0.8 * min(ratios), 0.5), 1.25 * max(ratios))
    panels[0].set_yticks(range(len(names)), names)
    panels[1].legend(loc="lower right", framealpha=1)
    figure.suptitle(f"How many times faster than ONNX Runtime's own MaxPool, whole runs, {_threads(threads)}")
    figure.supxlabel(
        f"ONNX Runtime's time / ours (shaded: slower) · {machine.get('processor', '')} · "
        f"onnxruntime {machine.get('onnxruntime', '')}, numpy {machine.get('numpy', '')}",
        fontsize=9,
    )
    figure.savefig(path, dpi=150)
    plt.close(figure)
