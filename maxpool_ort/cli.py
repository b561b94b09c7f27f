"""maxpool-ort: prints what the other modules return."""

import argparse
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
import json
import os
from pathlib import Path
import sys
from typing import Any

import numpy as np
import onnxruntime

import maxpool_ort
from maxpool_ort.bench import DTYPE_NAMES, PAIRS, PEERS, WORKLOADS, Growth, Result, cases, growth, machine, measure
from maxpool_ort.convert import Conversion, convert_file, restore_file
from maxpool_ort.errors import MaxPoolError
from maxpool_ort.feed import check_destination, count_right, find_feed, save_arrays
from maxpool_ort.files import read_model
from maxpool_ort.graphs import Dims, maxpool_nodes
from maxpool_ort.inspection import inspect_model
from maxpool_ort.op import Call, record_calls
from maxpool_ort.report import as_document, check_plot, draw, from_document, tables
from maxpool_ort.schema import DOMAIN
from maxpool_ort.session import InferenceSession
from maxpool_ort.table import best_table, track

__all__ = ["main"]

_EXAMPLES = """\
examples:
  maxpool-ort run models/digits.onnx
  maxpool-ort inspect model.onnx
  maxpool-ort convert model.onnx model-python.onnx
  maxpool-ort restore model-python.onnx model.onnx
  maxpool-ort bench --workload tiny

exit codes: 0 all is fine, 1 the work failed, 2 wrong usage
"""
_RUN = """\
Run a model, every MaxPool in Python. Each input comes from the file that you
name; if you name none, from a sample file beside the model (the model's name
with .npz or, if it has one input, .npy or .pb); if there is none, from seeded
random data of the declared dtypes and shapes, unknown sizes being 1 (first)
and 16 (others). The file and the shapes are told.

A .npz sample holds an array for each input, and may hold an integer array
"label", an entry for each row of a first output of rank 2: then it is told in
how many rows the largest entry stands at the label.
"""
_RUN_EXAMPLES = """\
examples:
  maxpool-ort run models/digits.onnx
  maxpool-ort run model.onnx --input image=cat.npy --output scores.npz
  maxpool-ort run model.onnx --seed 7 --json
"""
_CONVERT_EXAMPLES = """\
example:
  maxpool-ort convert model.onnx model-python.onnx

A converted model runs in onnxruntime's own session, on whose SessionOptions
maxpool_ort.register was called.
"""
_RESTORE_EXAMPLES = """\
example:
  maxpool-ort restore model-python.onnx model.onnx
"""
_INSPECT_EXAMPLES = """\
examples:
  maxpool-ort inspect model.onnx
  maxpool-ort inspect model.onnx --json

"Y declared" is what the file says, if anything; "Y true" follows from X.
"""
_BENCH = """\
Time whole runs of our operator against those of others, in one process and by
turns, medians of 15 pairs (3, where the other takes more than half a second).
A time counts only if both sides gave the same. All of it takes about half an
hour; name workloads, dtypes and peers to see a part.

peers: onnxruntime (its own MaxPool), border (a PyOp that returns a result that
is ready: what is left is what any operator in Python takes), textbook (a PyOp
of sliding_window_view and max), torch (max_pool1d, 2d and 3d, array against
array, if installed), reference (onnx.reference, the smallest workload only)
"""
_BENCH_EXAMPLES = """\
examples:
  maxpool-ort bench --workload tiny
  maxpool-ort bench --peer onnxruntime --threads 1 --plot ratios.png
  maxpool-ort bench --json > results.json
  maxpool-ort bench --load results.json --plot ratios.svg
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        result, text = options.command(options)
        print(json.dumps(result, indent=2, ensure_ascii=False) if options.json else text)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has seen enough; keep Python from flushing into the closed pipe at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        reason = _reason(error)
        if reason is None:
            raise
        print(f"maxpool-ort: error: {reason}", file=sys.stderr)
        return 1
    return 0


def _reason(error: Exception) -> str | None:
    """What to tell of work that failed; None for what should not happen and deserves its traceback."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MaxPoolError | OSError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"out of memory: {error}"
    return f"onnxruntime: {str(error).strip()}" if type(error).__module__.startswith("onnxruntime") else None


def _parser() -> argparse.ArgumentParser:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="maxpool-ort",
        description="ONNX MaxPool-12 for ONNX Runtime, in Python and NumPy: run, convert and inspect models.",
        epilog=_EXAMPLES,
        formatter_class=formatter,
    )
    versions = f"onnxruntime {onnxruntime.__version__}, numpy {np.__version__}"
    parser.add_argument("--version", action="version", version=f"maxpool-ort {maxpool_ort.__version__} ({versions})")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, command: Any, summary: str, description: str | None = None, epilog: str = "") -> Any:
        sub = commands.add_parser(
            name, help=summary, description=description or summary, epilog=epilog, formatter_class=formatter
        )
        sub.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
        sub.set_defaults(command=command)
        return sub

    run = add("run", _run, "run a model, every MaxPool in Python", _RUN, _RUN_EXAMPLES)
    run.add_argument("model", metavar="MODEL", help="an ONNX model, converted or not")
    run.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="data for one input: .npy, .npz (its array of that name, or its only one) or TensorProto .pb; NAME= may "
        "be left out if the model has one input; repeat for each input",
    )
    run.add_argument("--output", metavar="FILE", help="write the outputs: .npz, or .npy or .pb if there is only one")
    run.add_argument("--seed", type=_seed, default=0, help="seed of made-up data (default: 0)")

    for name, command, summary, epilog in (
        (
            "convert",
            _convert,
            "let every MaxPool of a model run in Python; write the model to DST",
            _CONVERT_EXAMPLES,
        ),
        (
            "restore",
            _restore,
            "the inverse of convert: write the model with its standard MaxPool nodes to DST",
            _RESTORE_EXAMPLES,
        ),
    ):
        sub = add(name, command, summary, epilog=epilog)
        sub.add_argument("src", metavar="SRC", help="the model to read")
        sub.add_argument("dst", metavar="DST", help="the file to write; it appears whole or not at all")

    inspect = add(
        "inspect",
        _inspect,
        "each MaxPool of a model, its true shapes, and where ONNX Runtime's own would differ",
        epilog=_INSPECT_EXAMPLES,
    )
    inspect.add_argument("model", metavar="MODEL", help="an ONNX model, converted or not")

    bench = add("bench", _bench, "how fast it is, against others", _BENCH, _BENCH_EXAMPLES)
    names = [workload.name for workload in WORKLOADS]
    for option, choices, what in (
        ("--workload", names, "one workload"),
        ("--dtype", DTYPE_NAMES, "one dtype"),
        ("--outputs", ("Y", "Y+Indices"), "only these outputs"),
        ("--peer", PEERS, "one peer"),
    ):
        bench.add_argument(
            option, action="append", default=[], choices=choices, metavar=option[2:].upper(),
            help=f"{what}; repeat for more (default: all of {', '.join(choices)})",
        )  # fmt: skip
    bench.add_argument(
        "--threads", action="append", default=[], type=_positive, metavar="N", help="threads of both sides; repeat for "
        "more (default: 1, and as many as there are processors)",
    )  # fmt: skip
    bench.add_argument("--pairs", type=_positive, default=PAIRS, metavar="N", help=f"pairs of runs (default: {PAIRS})")
    bench.add_argument(
        "--growth",
        action="store_true",
        help="also how time and memory grow; without names of a part, it is told anyway",
    )
    bench.add_argument("--load", metavar="FILE", help="show what --json has printed, rather than measure")
    bench.add_argument(
        "--plot", metavar="FILE", help="draw the ratios against onnxruntime: .png, .svg or .pdf (needs matplotlib)"
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be >= 1, got {number}")
    return number


def _seed(text: str) -> int:
    seed = int(text)
    if seed < 0:
        raise argparse.ArgumentTypeError(f"must be >= 0, got {seed}")
    return seed


def _run(options: argparse.Namespace) -> tuple[object, str]:
    session = InferenceSession(options.model)
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
    return result, "\n\n".join(parts)


def _summary(value: Any) -> dict[str, Any]:
    """Dtype, shape, and the range and mean of the finite numbers in an output; None where there are none."""
    if not isinstance(value, np.ndarray):
        return {"dtype": type(value).__name__, "shape": None, "min": None, "max": None, "mean": None}
    numbers = value[np.isfinite(value)].astype(np.float64) if value.dtype.kind in "iufb" else np.empty(0)
    low, high, mean = (numbers.min(), numbers.max(), numbers.mean()) if numbers.size else (None, None, None)
    return {"dtype": str(value.dtype), "shape": value.shape, "min": low, "max": high, "mean": mean}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else _dims(value) if isinstance(value, tuple) else str(value)


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


def _nodes(count: int) -> str:
    return f"{count} MaxPool node{'s' if count != 1 else ''}"


def _convert(options: argparse.Namespace) -> tuple[object, str]:
    done = convert_file(options.src, options.dst)
    result = {
        "src": options.src,
        "dst": options.dst,
        "converted": [{**asdict(n), "attributes": n.attributes.as_text()} for n in done.converted],
        "skipped": [asdict(node) for node in done.skipped],
    }
    rows = [[n.node, n.element_type, n.attributes, "yes" if n.is_guarded else "no", n.where] for n in done.converted]
    parts = [best_table(["converted", "type", "attributes", "guard", "where"], rows)] if rows else []
    return result, "\n\n".join([*parts, _conversion_text(done), f"wrote {options.dst}"])


def _restore(options: argparse.Namespace) -> tuple[object, str]:
    before = read_model(options.src)
    count = sum(node.domain == DOMAIN for node, _, _ in maxpool_nodes(before.graph, ""))
    restore_file(options.src, options.dst)
    result = {"src": options.src, "dst": options.dst, "restored": count}
    text = f"{_nodes(count)} restored" if count else "no converted node in this model; nothing was restored"
    return result, f"{text}\n\nwrote {options.dst}"


def _inspect(options: argparse.Namespace) -> tuple[object, str]:
    reports = inspect_model(read_model(options.model))
    result = {
        "model": options.model,
        "maxpool": [{**asdict(r), "attributes": r.attributes and r.attributes.as_text()} for r in reports],
    }
    if not reports:
        return result, "no MaxPool node in this model"
    header = ["MaxPool", "version", "type", "attributes", "X", "Y declared", "Y true", "where"]
    rows = [
        [
            r.node, f"{r.version} (opset {r.opset})", r.element_type, r.attributes or "?",
            _dims(r.input_dims), _dims(r.declared_dims), _dims(r.true_dims), r.where,
        ]
        for r in reports
    ]  # fmt: skip
    notes = [f"{r.node} in {r.where}: {reason}" for r in reports for reason in r.built_in_differs]
    said = (
        ["Where ONNX Runtime's own operator differs, or may differ:", *notes]
        if notes
        else ["ONNX Runtime's own operator would give the same."]
    )
    return result, f"{best_table(header, rows)}\n\n" + "\n".join(said)


def _dims(dims: Dims | None) -> str:
    return "?" if dims is None else f"({', '.join('?' if dim is None else str(dim) for dim in dims)})"


def _bench(options: argparse.Namespace) -> tuple[object, str]:
    if options.plot:
        check_plot(options.plot)
    if options.load:
        found, results, grown = from_document(options.load)
    else:
        found, results, grown = machine(), *_measure(options)
    if options.plot:
        draw(options.plot, found, results)
    parts = [", ".join(f"{name} {version}" for name, version in found.items())]
    parts += [f"{title}\n{best_table(header, rows)}" for title, header, rows in tables(results, grown)]
    return as_document(found, results, grown), "\n\n".join(
        [*parts, *([f"wrote {options.plot}"] if options.plot else [])]
    )


def _measure(options: argparse.Namespace) -> tuple[list[Result], list[Growth]]:
    chosen = cases(
        workloads=options.workload,
        dtypes=options.dtype,
        outputs=options.outputs,
        threads=options.threads,
        peers=options.peer,
    )
    results = [measure(case, options.pairs) for case in track(chosen, "measuring")]
    is_part = options.workload or options.dtype or options.outputs or options.peer
    return results, list(track(growth(options.pairs), "growth")) if options.growth or not is_part else []
