"""maxpool-ort: its options, and what is printed where."""

import argparse
from collections.abc import Callable, Sequence
import json
import os
import sys
from typing import Any, get_args

import numpy as np
import onnxruntime

import maxpool_ort
from maxpool_ort import commands
from maxpool_ort.bench import DTYPE_NAMES, PAIRS, PEERS, WORKLOADS
from maxpool_ort.convert import ExternalData
from maxpool_ort.decide import Guard
from maxpool_ort.errors import MaxPoolError
from maxpool_ort.geometry import AutoPad
from maxpool_ort.runtimes import RUNTIMES

__all__ = ["main"]

_EXAMPLES = """\
examples:
  maxpool-ort run models/digits.onnx
  maxpool-ort inspect model.onnx
  maxpool-ort explain model.onnx
  maxpool-ort compare model.onnx
  maxpool-ort convert model.onnx model-python.onnx
  maxpool-ort restore model-python.onnx model.onnx
  maxpool-ort bench --workload tiny

exit codes: 0 all is fine, 1 the work failed, compare found a difference,
conformance a failure or explain an X that is too small, 2 wrong usage
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
_EXPLAIN = """\
Say why Y has its shape: the output size of each axis with the numbers put
in, what would give another one, what ONNX Runtime's own MaxPool does
differently, and, drawn, which inputs each output sees. Of attributes and a
shape, or of the nodes of a MODEL; attributes, shape and dtype that you give
beside it take the place of the model's.
"""
_EXPLAIN_EXAMPLES = """\
examples:
  maxpool-ort explain --input-shape 1,64,57,57 --kernel-shape 3,3 --strides 2,2
  maxpool-ort explain models/digits.onnx --node pool1
  maxpool-ort explain models/digits.onnx --node pool1 --ceil-mode 1
  maxpool-ort explain models/digits.onnx --plot windows.svg

Exits with 1 if an X is too small for a window.
"""
_COMPARE_EXAMPLES = """\
examples:
  maxpool-ort compare models/digits.onnx
  maxpool-ort compare model.onnx --input image=cat.npy --json

Each MaxPool is compared on the X that the model gives it with ONNX Runtime's own
operators (those in bodies and functions: with ours); then the outputs of the
whole model, to rounding.
Exits with 1 if anything differs.
"""
_BENCH = """\
Time whole runs of our operator against those of others, in one process and by
turns, medians of 15 pairs (3, where the other takes more than half a second).
A time counts only if both sides gave the same. All of it takes about half an
hour; name workloads, dtypes and peers to see a part, or models to time those.

peers: onnxruntime (its own MaxPool), border (a PyOp that returns a result that
is ready: what is left is what any operator in Python takes), textbook (a PyOp
of sliding_window_view and max), torch (max_pool1d, 2d and 3d, array against
array, if installed), reference (onnx.reference, the smallest workload only)
"""
_BENCH_EXAMPLES = """\
examples:
  maxpool-ort bench --workload tiny
  maxpool-ort bench --peer onnxruntime --threads 1 --plot ratios.png
  maxpool-ort bench --model models/segnet.onnx
  maxpool-ort bench --json > results.json
  maxpool-ort bench --load results.json --plot ratios.svg
"""
_CONFORMANCE = """\
Hold runtimes against test vectors for MaxPool-12: standard models, inputs, and
outputs that come from plain loops written from the operator's page. Where the
page is silent, cases are marked, and never decide the exit code. Without
--runtime and --command, all runtimes that are installed are tried; each runs
in a process of its own.

Exits with 1 if a runtime that you name (without names: ours) does not pass a
case that the page decides.
"""
_CONFORMANCE_EXAMPLES = """\
examples:
  maxpool-ort conformance
  maxpool-ort conformance --runtime onnxruntime --feature ceil_mode
  maxpool-ort conformance --html conformance.html
  maxpool-ort conformance --command 'mine --model {model} --in {inputs} --out {outputs}'

{model} is a file, {inputs} a folder with input_0.pb, {outputs} a folder into
which the command writes output_0.pb (Y) and, where the model has Indices,
output_1.pb: TensorProto all of them. An exit code other than 0 is a refusal.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        outcome: commands.Outcome = options.command(options)
        # A name that is not UTF-8 comes as bytes from a model.
        print(json.dumps(outcome.result, indent=2, ensure_ascii=False, default=repr) if options.json else outcome.text)
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
    return outcome.exit_code


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
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, command: Any, summary: str, description: str | None = None, epilog: str = "") -> Any:
        sub = subparsers.add_parser(
            name, help=summary, description=description or summary, epilog=epilog, formatter_class=formatter
        )
        sub.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
        sub.set_defaults(command=command)
        return sub

    run = add("run", commands.run, "run a model, every MaxPool in Python", _RUN, _RUN_EXAMPLES)
    run.add_argument("model", metavar="MODEL", help="an ONNX model, converted or not")
    _add_input(run)
    _add_select(run)
    run.add_argument("--output", metavar="FILE", help="write the outputs: .npz, or .npy or .pb if there is only one")

    for name, command, summary, epilog in (
        (
            "convert",
            commands.convert,
            "let every MaxPool of a model run in Python; write the model to DST",
            _CONVERT_EXAMPLES,
        ),
        (
            "restore",
            commands.restore,
            "the inverse of convert: write the model with its standard MaxPool nodes to DST",
            _RESTORE_EXAMPLES,
        ),
    ):
        sub = add(name, command, summary, epilog=epilog)
        sub.add_argument("src", metavar="SRC", help="the model to read")
        sub.add_argument("dst", metavar="DST", help="the file to write; it appears whole or not at all")

        sub.add_argument(
            "--external-data",
            choices=get_args(ExternalData),
            default="refuse",
            help="what to do with files in which the model keeps tensors, if DST is in another folder (default: "
            "refuse; link makes hard links, which onnxruntime follows and onnx.load does not)",
        )
        if name == "convert":
            _add_select(sub)
            sub.add_argument(
                "--guard",
                choices=get_args(Guard),
                default="needed",
                help="behind which nodes a failed run is refused in onnxruntime's own session: where sizes do not "
                "prove that it cannot fail, or behind all, also for want of memory (default: needed)",
            )

    inspect = add(
        "inspect",
        commands.inspect,
        "each MaxPool of a model, its true shapes, and where ONNX Runtime's own would differ",
        epilog=_INSPECT_EXAMPLES,
    )
    inspect.add_argument("model", metavar="MODEL", help="an ONNX model, converted or not")

    _add_explain(
        add("explain", commands.explain, "why Y has its shape, and what each output sees", _EXPLAIN, _EXPLAIN_EXAMPLES)
    )

    compare = add(
        "compare",
        commands.compare,
        "ONNX Runtime's own MaxPool against ours on the same data, node by node",
        epilog=_COMPARE_EXAMPLES,
    )
    compare.add_argument("model", metavar="MODEL", help="an ONNX model, not converted")
    _add_input(compare)

    conformance = add(
        "conformance",
        commands.conformance,
        "hold runtimes against test vectors for MaxPool-12",
        _CONFORMANCE,
        _CONFORMANCE_EXAMPLES,
    )
    conformance.add_argument(
        "--runtime", action="append", default=[], choices=RUNTIMES, metavar="NAME",
        help=f"one of {', '.join(RUNTIMES)}; repeat for more (default: all that are installed)",
    )  # fmt: skip
    conformance.add_argument(
        "--command", dest="command_line", metavar="TEXT", help="a command that runs a model, see below"
    )
    conformance.add_argument(
        "--case",
        action="append",
        default=[],
        metavar="NAME",
        help="only the cases of this name, which may hold *; repeat for more",
    )
    conformance.add_argument(
        "--feature", action="append", default=[], metavar="NAME", help="only the cases of this feature; repeat for more"
    )
    conformance.add_argument(
        "--kit", metavar="FOLDER", help="another folder of such cases (default: what is installed)"
    )
    conformance.add_argument(
        "--timeout", type=_at_least(1), default=60, metavar="SECONDS", help="for one case (default: %(default)s)"
    )
    conformance.add_argument("--load", metavar="FILE", help="show what --json has printed, rather than run")
    conformance.add_argument("--html", metavar="FILE", help="write all of it as one page")

    bench = add("bench", commands.bench, "how fast it is, against others", _BENCH, _BENCH_EXAMPLES)
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
        "--threads", action="append", default=[], type=_at_least(1), metavar="N", help="threads of both sides; repeat "
        "for more (default: 1, and as many as there are processors)",
    )  # fmt: skip
    bench.add_argument(
        "--model", action="append", default=[], metavar="MODEL", help="time this whole model with ONNX Runtime's own "
        "MaxPool, with all of them ours, and with the recommended ones; repeat for more",
    )  # fmt: skip
    bench.add_argument(
        "--pairs", type=_at_least(1), default=PAIRS, metavar="N", help=f"pairs of runs (default: {PAIRS})"
    )
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


def _add_explain(command: Any) -> None:
    command.add_argument("model", nargs="?", metavar="MODEL", help="an ONNX model, converted or not")
    command.add_argument(
        "--node",
        action="append",
        default=[],
        metavar="NAME",
        help="the node of this name; repeat for more (default: all)",
    )
    command.add_argument("--input-shape", type=_integers, metavar="N,C,D1,...", help="shape of the node's X")
    for name, what in (
        ("kernel-shape", "size of a window, one entry per spatial axis"),
        ("strides", "one entry per spatial axis (default: 1)"),
        ("pads", "all begins, then all ends (default: 0)"),
        ("dilations", "one entry per spatial axis (default: 1)"),
    ):
        command.add_argument(f"--{name}", type=_integers, metavar="N,...", help=what)
    command.add_argument("--auto-pad", choices=list(AutoPad.__members__), help="how to choose pads (default: NOTSET)")
    command.add_argument("--ceil-mode", type=int, choices=(0, 1), help="default: 0")
    command.add_argument("--storage-order", type=int, choices=(0, 1), help="default: 0")
    command.add_argument("--dtype", choices=DTYPE_NAMES, help="of X (default: float32)")
    command.add_argument("--with-indices", action="store_true", help="the node puts out Indices too")
    command.add_argument("--plot", metavar="FILE", help="draw it: .png, .svg or .pdf (needs matplotlib)")
    command.set_defaults(refuse=command.error)


def _add_input(command: Any) -> None:
    command.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="data for one input: .npy, .npz (its array of that name, or its only one) or TensorProto .pb; NAME= may "
        "be left out if the model has one input; repeat for each input",
    )
    command.add_argument("--seed", type=_at_least(0), default=0, help="seed of made-up data (default: 0)")


def _add_select(command: Any) -> None:
    command.add_argument(
        "--select",
        choices=("all", "recommended"),
        default="all",
        help="which MaxPool nodes: all, or those for which ONNX Runtime's own operator is slower or wrong "
        "(default: all)",
    )
    command.add_argument("--node", action="append", metavar="NAME", help="only the nodes of this name; repeat for more")


def _integers(text: str) -> tuple[int, ...]:
    """Read a list of integers."""
    try:
        return tuple(map(int, text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be integers with commas between them, got {text!r}") from None


def _at_least(least: int) -> Callable[[str], int]:
    """A reader of integers from this one on."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(f"must be an integer >= {least}, got {text!r}")
        return number

    return read
