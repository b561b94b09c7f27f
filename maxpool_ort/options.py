"""The options of maxpool-ort, a function for each command."""

import argparse
from collections.abc import Callable
from typing import get_args

import numpy as np
import onnxruntime

import maxpool_ort
from maxpool_ort import commands, manual
from maxpool_ort.bench import PAIRS
from maxpool_ort.convert import ExternalData
from maxpool_ort.decide import Guard
from maxpool_ort.geometry import AutoPad
from maxpool_ort.runtimes import RUNTIMES
from maxpool_ort.workloads import DATA, DTYPE_NAMES, PEERS, WORKLOADS

__all__ = ["make_parser"]

_FORMATTER = argparse.RawDescriptionHelpFormatter


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands; what it returns has the command's function as ``command``."""
    parser = argparse.ArgumentParser(
        prog="maxpool-ort",
        description="ONNX MaxPool-12 for ONNX Runtime, in Python and NumPy: run, convert and inspect models.",
        epilog=manual.EXAMPLES,
        formatter_class=_FORMATTER,
    )
    versions = f"onnxruntime {onnxruntime.__version__}, numpy {np.__version__}"
    parser.add_argument("--version", action="version", version=f"maxpool-ort {maxpool_ort.__version__} ({versions})")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, add_options, summary, description, examples in (
        ("run", _run, "run a model, every MaxPool in Python", manual.RUN, manual.RUN_EXAMPLES),
        (
            "convert", _convert, "let every MaxPool of a model run in Python; write the model to DST", "",
            manual.CONVERT_EXAMPLES,
        ),
        (
            "restore", _restore,
            "the inverse of convert: write the model with its standard MaxPool nodes to DST", "",
            manual.RESTORE_EXAMPLES,
        ),
        (
            "inspect", _inspect,
            "each MaxPool of a model, its true shapes, and where ONNX Runtime's own would differ", "",
            manual.INSPECT_EXAMPLES,
        ),
        (
            "explain", _explain, "why Y has its shape, and what each output sees", manual.EXPLAIN,
            manual.EXPLAIN_EXAMPLES,
        ),
        (
            "compare", _compare, "ONNX Runtime's own MaxPool against ours on the same data, node by node", "",
            manual.COMPARE_EXAMPLES,
        ),
        (
            "conformance", _conformance, "hold runtimes against test vectors for MaxPool-12",
            manual.CONFORMANCE, manual.CONFORMANCE_EXAMPLES,
        ),
        ("bench", _bench, "how fast it is, against others", manual.BENCH, manual.BENCH_EXAMPLES),
    ):  # fmt: skip
        sub = subparsers.add_parser(
            name,
            help=summary,
            description=description or summary,
            epilog=examples,
            formatter_class=_FORMATTER,
        )
        sub.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
        sub.set_defaults(command=getattr(commands, name))
        add_options(sub)
    return parser


def _run(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help="an ONNX model, converted or not")
    _add_input(command)
    _add_select(command)
    command.add_argument(
        "--output", metavar="FILE", help="write the outputs: .npz, or .npy or .pb if there is only one"
    )


def _restore(command: argparse.ArgumentParser) -> None:
    command.add_argument("src", metavar="SRC", help="the model to read")
    command.add_argument("dst", metavar="DST", help="the file to write; it appears whole or not at all")
    command.add_argument(
        "--external-data",
        choices=get_args(ExternalData),
        default="refuse",
        help="what to do with files in which the model keeps tensors, if DST is in another folder (default: "
        "refuse; link makes hard links, which onnxruntime follows and onnx.load does not)",
    )


def _convert(command: argparse.ArgumentParser) -> None:
    _restore(command)
    _add_select(command)
    command.add_argument(
        "--guard",
        choices=get_args(Guard),
        default="needed",
        help="behind which nodes a failed run is refused in onnxruntime's own session: where sizes do not "
        "prove that it cannot fail, or behind all, also for want of memory (default: needed)",
    )


def _inspect(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help="an ONNX model, converted or not")


def _explain(command: argparse.ArgumentParser) -> None:
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


def _compare(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help="an ONNX model, not converted")
    _add_input(command)


def _conformance(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--runtime", action="append", default=[], choices=RUNTIMES, metavar="NAME",
        help=f"one of {', '.join(RUNTIMES)}; repeat for more (default: all that are installed)",
    )  # fmt: skip
    command.add_argument(
        "--command", dest="command_line", metavar="TEXT", help="a command that runs a model, see below"
    )
    command.add_argument(
        "--case",
        action="append",
        default=[],
        metavar="NAME",
        help="only the cases of this name, which may hold *; repeat for more",
    )
    command.add_argument(
        "--feature", action="append", default=[], metavar="NAME", help="only the cases of this feature; repeat for more"
    )
    command.add_argument("--kit", metavar="FOLDER", help="another folder of such cases (default: what is installed)")
    command.add_argument(
        "--timeout", type=_at_least(1), default=60, metavar="SECONDS", help="for one case (default: %(default)s)"
    )
    command.add_argument("--load", metavar="FILE", help="show what --json has printed, rather than run")
    command.add_argument("--html", metavar="FILE", help="write all of it as one page")


def _bench(command: argparse.ArgumentParser) -> None:
    names = [workload.name for workload in WORKLOADS]
    for option, choices, what in (
        ("--workload", names, "one workload"),
        ("--dtype", DTYPE_NAMES, "one dtype"),
        ("--outputs", ("Y", "Y+Indices"), "only these outputs"),
        ("--peer", PEERS, "one peer"),
    ):
        command.add_argument(
            option, action="append", default=[], choices=choices, metavar=option[2:].upper(),
            help=f"{what}; repeat for more (default: all of {', '.join(choices)})",
        )  # fmt: skip
    command.add_argument(
        "--threads", action="append", default=[], type=_at_least(1), metavar="N", help="threads of both sides; repeat "
        "for more (default: 1, and as many as there are processors)",
    )  # fmt: skip
    command.add_argument(
        "--data", choices=DATA, default=DATA[0], help="X of random numbers, which are at their worst for branches of "
        "loops in C++, or of these added up along each axis and cut off at 0 (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--model", action="append", default=[], metavar="MODEL", help="time this whole model with ONNX Runtime's own "
        "MaxPool, with all of them ours, with the recommended ones, and with all of them in Python whose results are "
        "ready; repeat for more",
    )  # fmt: skip
    command.add_argument(
        "--pairs", type=_at_least(1), default=PAIRS, metavar="N", help=f"pairs of runs (default: {PAIRS})"
    )
    command.add_argument(
        "--growth",
        action="store_true",
        help="also how time and memory grow; without names of a part, it is told anyway",
    )
    command.add_argument("--load", metavar="FILE", help="show what --json has printed, rather than measure")
    command.add_argument(
        "--plot", metavar="FILE", help="draw the ratios against onnxruntime: .png, .svg or .pdf (needs matplotlib)"
    )


def _add_input(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="data for one input: .npy, .npz (its array of that name, or its only one) or TensorProto .pb; NAME= may "
        "be left out if the model has one input; repeat for each input",
    )
    command.add_argument("--seed", type=_at_least(0), default=0, help="seed of made-up data (default: 0)")


def _add_select(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--select",
        choices=("all", "recommended"),
        default="all",
        help="which MaxPool nodes: all, or those for which ONNX Runtime's own operator is wrong or clearly slower "
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
