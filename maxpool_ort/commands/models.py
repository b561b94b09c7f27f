"""The commands about one model: run, convert, restore, inspect, compare."""

import argparse
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from maxpool_ort.commands.outcome import Outcome
from maxpool_ort.compare import Difference, compare_model
from maxpool_ort.convert import Conversion, convert_file, restore_file
from maxpool_ort.explain import plain_text
from maxpool_ort.feed import check_destination, count_right, find_feed, save_arrays
from maxpool_ort.files import read_model
from maxpool_ort.inspection import inspect_model
from maxpool_ort.op import Call, record_calls
from maxpool_ort.repair import RepairedShape, repaired_shapes
from maxpool_ort.session import InferenceSession
from maxpool_ort.table import best_table

__all__ = ["compare", "convert", "inspect", "restore", "run"]


def run(options: argparse.Namespace) -> Outcome:
    """Run a model."""
    session = InferenceSession(options.model, select=options.node or options.select)
    names = [output.name for output in session.get_outputs()]
    feed = find_feed(options.model, session.get_inputs(), options.input, options.seed)
    if options.output:
        check_destination(options.output, names, [Path(options.model), *feed.files])
    with record_calls() as calls:
        outputs = dict(zip(names, session.run(None, feed.arrays), strict=True))
    if options.output:
        save_arrays(options.output, outputs)
    nodes = _nodes_run(calls)
    summaries = [{"name": name, **_summary(value)} for name, value in outputs.items()]
    right = count_right(next(iter(outputs.values()), None), feed.label)
    result = {
        "model": options.model,
        "input": feed.source,
        "outputs": summaries,
        "maxpool": nodes,
        "skipped": [asdict(node) for node in session.skipped],
        "right": None if right is None else {"count": right, "of": feed.label.size},
    }
    parts = [
        f"input: {feed.source}",
        best_table(
            ["output", *list(summaries[0])[1:]], [[_cell(value) for value in row.values()] for row in summaries]
        ),
        *([f"{right} of {feed.label.size} right ({right / feed.label.size:.1%})"] if right is not None else []),
        best_table(
            ["MaxPool", "attributes", "dtype", "X", "Y", "calls", "ms in Python"],
            [[*map(_cell, list(node.values())[:-1]), f"{node['ms']:.2f}"] for node in nodes],
        )
        if nodes
        else "no MaxPool node ran in Python",
        _conversion_text(session),
        *([f"wrote {options.output}"] if options.output else []),
    ]
    return Outcome(result, "\n\n".join(parts))


def _summary(value: Any) -> dict[str, Any]:
    """Dtype, shape, and the range and mean of the finite numbers in an output; None where there are none."""
    if not isinstance(value, np.ndarray):
        return {"dtype": type(value).__name__, "shape": None, "min": None, "max": None, "mean": None}
    numbers = value[np.isfinite(value)].astype(np.float64) if value.dtype.kind in "iufb" else np.empty(0)
    low, high, mean = (numbers.min(), numbers.max(), numbers.mean()) if numbers.size else (None, None, None)
    return {"dtype": str(value.dtype), "shape": value.shape, "min": low, "max": high, "mean": mean}


def _nodes_run(calls: Iterable[Call]) -> list[dict[str, Any]]:
    """One entry for each node and shape that ran, in the order in which they first did."""
    groups: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for call in calls:
        groups[call.node, call.attributes, call.dtype, call.input_shape, call.output_shape].append(call.seconds)
    return [
        {
            "node": node,
            "attributes": str(attributes),
            "dtype": dtype,
            "x": x,
            "y": y,
            "calls": len(seconds),
            "ms": sum(seconds) * 1e3,
        }
        for (node, attributes, dtype, x, y), seconds in groups.items()
    ]


def _conversion_text(done: Conversion | InferenceSession) -> str:
    """What was converted and what was left, and why."""
    ours = [node for node in done.skipped if node.is_ours]
    left = [node for node in done.skipped if not node.is_ours]
    if not done.converted and not done.skipped:
        return "no MaxPool node in this model; nothing was converted"
    lines = [f"{_nodes(len(done.converted))} converted" + (f", {len(ours)} had been before" if ours else "")]
    lines += [f"left to ONNX Runtime: {node.node} in {node.where}: {node.reason}" for node in left]
    return "\n".join(lines)


def convert(options: argparse.Namespace) -> Outcome:
    """Convert a model file."""
    done = convert_file(
        options.src,
        options.dst,
        select=options.node or options.select,
        guard=options.guard,
        external_data=options.external_data,
    )
    result = {
        "src": options.src,
        "dst": options.dst,
        "converted": [{**asdict(n), "attributes": n.attributes.as_text()} for n in done.converted],
        "skipped": [asdict(node) for node in done.skipped],
        "repaired": [asdict(shape) for shape in done.repaired],
    }
    rows = [
        [n.node, n.element_type, n.attributes, "yes" if n.is_guarded else "no", n.reason, n.where]
        for n in done.converted
    ]
    header = ["converted", "type", "attributes", "guard", "reason", "where"]
    if not any(n.reason for n in done.converted):
        header, rows = [*header[:4], header[5]], [[*row[:4], row[5]] for row in rows]
    parts = [best_table(header, rows)] if rows else []
    parts += [_repaired_table(done.repaired, "was declared")] if done.repaired else []
    return Outcome(result, "\n\n".join([*parts, _conversion_text(done), f"wrote {options.dst}"]))


def restore(options: argparse.Namespace) -> Outcome:
    """Restore a model file."""
    before = read_model(options.src)
    count = sum(report.runs_ours for report in inspect_model(before))
    repaired = tuple(repaired_shapes(before.graph, f"graph {before.graph.name!r}"))
    restore_file(options.src, options.dst, external_data=options.external_data)
    result = {"src": options.src, "dst": options.dst, "restored": count, "repaired": [asdict(r) for r in repaired]}
    text = f"{_nodes(count)} restored" if count else "no converted node in this model; nothing was restored"
    tables = [_repaired_table(repaired, "declared again")] if repaired else []
    return Outcome(result, "\n\n".join([text, *tables, f"wrote {options.dst}"]))


def _repaired_table(repaired: Iterable[RepairedShape], heading: str) -> str:
    """Tensors of which a model declares, or declared, a shape that they never have."""
    rows = [[r.tensor, plain_text(r.declared), plain_text(r.true), r.where] for r in repaired]
    return best_table(["tensor", heading, "true shape", "where"], rows)


def inspect(options: argparse.Namespace) -> Outcome:
    """Report on a model's MaxPool nodes."""
    reports = inspect_model(read_model(options.model))
    result = {
        "model": options.model,
        "maxpool": [{**asdict(r), "attributes": r.attributes and r.attributes.as_text()} for r in reports],
    }
    if not reports:
        return Outcome(result, "no MaxPool node in this model")
    header = ["MaxPool", "version", "type", "attributes", "X", "Y declared", "Y true", "where"]
    rows = [
        [
            r.node, f"{r.version} (opset {r.opset})", r.element_type, r.attributes or "?",
            plain_text(r.input_dims), plain_text(r.declared_dims), plain_text(r.true_dims), r.where,
        ]
        for r in reports
    ]  # fmt: skip
    notes = [f"{r.node} in {r.where}: {reason}" for r in reports for reason in r.built_in_differs]
    said = (
        ["Where ONNX Runtime's own operator differs, or may differ:", *notes]
        if notes
        else ["ONNX Runtime's own operator would give the same."]
    )
    return Outcome(result, f"{best_table(header, rows)}\n\n" + "\n".join(said))


def compare(options: argparse.Namespace) -> Outcome:
    """Compare a model's MaxPool nodes; the exit code is 1 if anything differs."""
    model = read_model(options.model)
    feed = find_feed(options.model, InferenceSession(options.model).get_inputs(), options.input, options.seed)
    found = compare_model(model, feed.arrays, options.model)
    result = {
        "model": options.model,
        "input": feed.source,
        **asdict(found),
        "nodes": [{**asdict(node), "attributes": node.attributes.as_text()} for node in found.nodes],
        "is_same": found.is_same,
    }
    rows = [
        [node.node, node.attributes, node.dtype, _cell(node.x_shape), *_difference_cells(difference)]
        for node in found.nodes
        for difference in node.differences or (None,)
    ]
    header = ["MaxPool", "attributes", "dtype", "X", "differs", "first at", "theirs", "ours"]
    outputs = [[each.tensor, *_difference_cells(each)] for each in found.outputs]
    reasons = [
        f"{node.node}: {'; '.join(node.reasons) or 'nothing is known to differ'}"
        for node in found.nodes
        if node.differences
    ]
    parts = [
        f"input: {feed.source}",
        *([f"ONNX Runtime's own operators do not run this model: {found.refusal}"] if found.refusal else []),
        *([best_table(header, rows)] if rows else []),
        *(["known of ONNX Runtime's own:\n" + "\n".join(reasons)] if reasons else []),
        *([best_table(["output of the model", *header[4:]], outputs)] if outputs else []),
        *(["not compared by themselves: " + ", ".join(found.not_compared)] if found.not_compared else []),
        "nothing differs" if found.is_same else "ONNX Runtime's own MaxPool and ours differ",
    ]
    return Outcome(result, "\n\n".join(parts), 0 if found.is_same else 1)


def _difference_cells(difference: Difference | None) -> list[str]:
    """What differs, where first, theirs and ours."""
    if difference is None:
        return ["nothing", "", "", ""]
    d = difference
    if d.count is None:
        return [f"{d.tensor}: shape or dtype", "", d.theirs, d.ours]
    return [f"{d.tensor}: {d.count} of {d.size}", _cell(d.position), d.theirs, d.ours]


def _cell(value: Any) -> str:
    """A value as a table has it."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else plain_text(value) if isinstance(value, tuple) else str(value)


def _nodes(count: int) -> str:
    """So many nodes."""
    return f"{count} MaxPool node{'s' if count != 1 else ''}"
