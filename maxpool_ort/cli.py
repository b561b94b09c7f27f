"""maxpool-ort: what is printed where, and what it exits with."""

from collections.abc import Sequence
import json
import os
import sys

from maxpool_ort.errors import MaxPoolError
from maxpool_ort.options import make_parser

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = make_parser().parse_args(arguments)
    try:
        outcome = options.command(options)
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
    return int(outcome.exit_code)


def _reason(error: Exception) -> str | None:
    """What to tell of work that failed; None for what should not happen and deserves its traceback."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MaxPoolError | OSError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"out of memory: {error}"
    return f"onnxruntime: {str(error).strip()}" if type(error).__module__.startswith("onnxruntime") else None
