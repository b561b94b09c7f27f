"""maxpool-ort: prints what the other modules return."""

import argparse
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
import importlib.util
import json
import os
from pathlib import Path
import sys
from typing import Any

import numpy as np
from onnx import numpy_helper
import onnxruntime

import maxpool_ort
from maxpool_ort.convert import Conversion, convert_file, restore_file
from maxpool_ort.errors import MaxPoolError
from maxpool_ort.feed import Array, check_feed, find_sample, load_arrays, random_feed
from maxpool_ort.files import read_model, write_whole
from maxpool_ort.graphs import Dims, maxpool_nodes
from maxpool_ort.inspection import inspect_model
from maxpool_ort.op import Call, record_calls
from maxpool_ort.schema import DOMAIN
from maxpool_ort.session import InferenceSession
from maxpool_ort.table import table

__all__ = ["main"]

_PIPED_WIDTH = 140
_EXAMPLES = """\
examples:
  maxpool-ort run models/digits.onnx
  maxpool-ort inspect model.onnx
  maxpool-ort convert model.onnx model-python.onnx
  maxpool-ort restore model-python.onnx model.onnx

exit codes: 0 all is fine, 1 the work failed, 2 wrong usage
"""
_RUN = """\
Run a model, every MaxPool in Python. Each input comes from the file that you
name; if you name none, from a sample file beside the model (the model's name
with .npz, .npy or .pb); if there is none, from seeded random data of the
declared dtypes and shapes, unknown sizes being 1 (first) and 16 (others).

A .npz sample holds an array for each input, and may hold an integer array
"label": then it is told how often the first output is largest at the label.
"""
_RUN_EXAMPLES = """\
examples:
  maxpool-ort run models/digits.onnx
  maxpool-ort run model.onnx --input image=cat.npy --output scores.npz
  maxpool-ort run model.onnx --seed 7 --json
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
    except MaxPoolError as error:
        return _failed(str(error))
    except OSError as error:
        return _failed(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except Exception as error:
        if not type(error).__module__.startswith("onnxruntime"):
            raise
        return _failed(f"onnxruntime: {str(error).strip()}")
    return 0


def _failed(text: str) -> int:
    print(f"maxpool-ort: error: {text}", file=sys.stderr)
    return 1


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
    run.add_argument("--seed", type=int, default=0, help="seed of made-up data (default: 0)")

    for name, command, summary in (
        ("convert", _convert, "let every MaxPool of a model run in Python; write the model to DST"),
        ("restore", _restore, "the inverse of convert: write the model with its standard MaxPool nodes to DST"),
    ):
        sub = add(name, command, summary)
        sub.add_argument("src", metavar="SRC", help="the model to read")
        sub.add_argument("dst", metavar="DST", help="the file to write; it appears whole or not at all")

    inspect = add(
        "inspect", _inspect, "each MaxPool of a model, its true shapes, and where ONNX Runtime's own would differ"
    )
    inspect.add_argument("model", metavar="MODEL", help="an ONNX model, converted or not")
    return parser


def _run(options: argparse.Namespace) -> tuple[object, str]:
    session = InferenceSession(options.model)
    feed, source, label = _feed(options, session)
    check_feed(session.get_inputs(), feed)
    with record_calls() as calls:
        outputs = dict(zip([o.name for o in session.get_outputs()], session.run(None, feed), strict=True))
    if options.output:
        _write_outputs(Path(options.output), outputs)
    nodes = _nodes_run(session, calls)
    summaries = [{"name": name, **_summary(value)} for name, value in outputs.items()]
    right = _right(next(iter(outputs.values())), label)
    result = {
        "model": options.model,
        "input": source,
        "outputs": summaries,
        "maxpool": nodes,
        "skipped": [asdict(node) for node in session.skipped],
        "right": None if right is None else {"count": right, "of": len(label)},
    }
    parts = [
        f"input: {source}",
        _table(["output", *list(summaries[0])[1:]], [[_cell(value) for value in row.values()] for row in summaries]),
        *([f"{right} of {len(label)} right ({right / len(label):.1%})"] if right is not None else []),
        _table(
            ["MaxPool", "attributes", "dtype", "X", "Y", "calls", "ms in Python"],
            [[*map(_cell, list(node.values())[:-1]), f"{node['ms']:.2f}"] for node in nodes],
        )
        if nodes
        else "no MaxPool node ran in Python",
        _conversion_text(session),
        *([f"wrote {options.output}"] if options.output else []),
    ]
    return result, "\n\n".join(parts)


def _feed(options: argparse.Namespace, session: InferenceSession) -> tuple[dict[str, Array], str, Array]:
    """Data for each input, where it comes from, and the labels of a sample, if it has any."""
    names = [each.name for each in session.get_inputs()]
    no_label = np.empty(0, np.int64)
    if options.input:
        feed = {}
        for given in options.input:
            name, equals, path = given.partition("=")
            if not equals and len(names) != 1:
                raise MaxPoolError(f"--input {given}: write NAME=FILE; the model has the inputs {', '.join(names)}")
            name, path = (name, path) if equals else (names[0], given)
            if name not in names:
                raise MaxPoolError(f"--input {given}: the model has no input {name!r}, only {', '.join(names)}")
            feed[name] = _pick(load_arrays(path), name, path)
        return feed, ", ".join(options.input), no_label
    sample = find_sample(options.model)
    if sample is None:
        made_up = random_feed(session.get_inputs(), options.seed)
        shapes = ", ".join(f"{name} {array.dtype} {array.shape}" for name, array in made_up.items())
        return made_up, f"random data, seed {options.seed} ({shapes})", no_label
    arrays = load_arrays(sample)
    label = arrays.pop("label", no_label) if "label" not in names else no_label
    if set(arrays) == {""} and len(names) == 1:
        arrays = {names[0]: arrays[""]}
    return arrays, f"sample {sample}", label


def _pick(arrays: dict[str, Array], name: str, path: str) -> Array:
    if name in arrays:
        return arrays[name]
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    got = ", ".join(map(repr, arrays)) or "none"
    raise MaxPoolError(f"{path}: expected an array named {name!r}, or one array only, got {got}")


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


def _right(output: Any, label: Array) -> int | None:
    if not label.size or not isinstance(output, np.ndarray) or output.ndim != 2 or len(output) != len(label):
        return None
    return int((output.argmax(axis=1) == label).sum())


def _nodes_run(session: InferenceSession, calls: Iterable[Call]) -> list[dict[str, Any]]:
    """One entry for each node and shape that ran, in the order in which they first did."""
    attributes = {node.node: str(node.attributes) for node in session.converted}
    groups: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for call in calls:
        groups[call.node, call.dtype, call.input_shape, call.output_shape].append(call.seconds)
    return [
        {
            "node": node,
            "attributes": attributes.get(node, ""),
            "dtype": dtype,
            "x": x,
            "y": y,
            "calls": len(seconds),
            "ms": sum(seconds) * 1e3,
        }
        for (node, dtype, x, y), seconds in groups.items()
    ]


def _write_outputs(path: Path, outputs: dict[str, Any]) -> None:
    only = next(iter(outputs.values()))
    if path.suffix == ".npz":
        write_whole(path, lambda file: np.savez(file, **outputs))
    elif path.suffix not in {".npy", ".pb"}:
        raise MaxPoolError(f"--output {path}: expected a .npz, .npy or .pb file")
    elif len(outputs) != 1:
        raise MaxPoolError(f"--output {path}: the model has {len(outputs)} outputs, which only a .npz file can hold")
    elif path.suffix == ".npy":
        write_whole(path, lambda file: np.save(file, only))
    else:
        tensor = numpy_helper.from_array(only, next(iter(outputs)))
        write_whole(path, lambda file: file.write(tensor.SerializeToString()))


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
    parts = [_table(["converted", "type", "attributes", "guard", "where"], rows)] if rows else []
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
        "maxpool": [{**asdict(report), "attributes": report.attributes.as_text()} for report in reports],
    }
    if not reports:
        return result, "no MaxPool node in this model"
    header = ["MaxPool", "version", "type", "attributes", "X", "Y declared", "Y true", "where"]
    rows = [
        [
            r.node, f"{r.version} (opset {r.opset})", r.element_type, r.attributes,
            _dims(r.input_dims), _dims(r.declared_dims), _dims(r.true_dims), r.where,
        ]
        for r in reports
    ]  # fmt: skip
    notes = [f"{r.node} in {r.where}: {reason}" for r in reports for reason in r.built_in_differs]
    said = (
        ["ONNX Runtime's own operator would give something else:", *notes]
        if notes
        else ["ONNX Runtime's own operator would give the same."]
    )
    return result, f"{_table(header, rows)}\n\n" + "\n".join(said)


def _dims(dims: Dims | None) -> str:
    return "?" if dims is None else f"({', '.join('?' if dim is None else str(dim) for dim in dims)})"


def _table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table as text: by rich where it is installed, else plain; a last column "where" of one value goes above it."""
    if header[-1] == "where" and len({row[-1] for row in rows}) == 1:
        return f"in {rows[0][-1]}:\n{_table(header[:-1], [row[:-1] for row in rows])}"
    if importlib.util.find_spec("rich") is None:
        return table(header, rows)
    from rich import box  # noqa: PLC0415 (an extra)
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH)
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in header:
        drawn.add_column(name, overflow="fold", no_wrap=False)
    for row in rows:
        drawn.add_row(*(Text(str(cell)) for cell in row))
    with console.capture() as capture:
        console.print(drawn)
    return capture.get().strip("\n")
