"""Feed what nobody would write: attributes, the text that a node carries, and model files, made of bytes.

Run from the repository root, in the environment of the tests, with atheris if it can be installed (then what is fed is
guided by the coverage of the package), else with hypothesis::

    pip install atheris
    python scripts/fuzz.py                       # all three targets, ten minutes in all
    python scripts/fuzz.py models --seconds 60   # one of them

Each target lets only MaxPoolError pass, and TypeError for arguments of other types. Each runs in a process of its own, so
that one that ends is noticed; what ended it is left in a file, of which the name is printed. Exits with 1 then.
"""

import argparse
from collections.abc import Callable
from contextlib import suppress
import importlib.util
import logging
from pathlib import Path
import random
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = Path(__file__).parents[1]
SEEDS = [*sorted((ROOT / "models").glob("maxpool_*.onnx")), *sorted((ROOT / "tests/data/exports").glob("*.onnx"))]


def fuzz_attributes(data: bytes) -> None:
    """MaxPool on an array, all of it from bytes."""
    import maxpool_ort as mp  # noqa: PLC0415 (instrumented first)

    draw = random.Random(data)  # noqa: S311
    values = list(data) or [0]

    def entry() -> int:
        kind, value = draw.choice(values) % 8, draw.choice(values)
        return {0: -value, 1: 2**31 - value, 2: 2**40 + value, 3: 2**60 - value, 4: 2**63}.get(kind, value % 6)

    rank = draw.choice(values) % 4
    entries = {
        name: [entry() for _ in range(rank * (1 + (name == "pads")))]
        for name in ("kernel_shape", "strides", "dilations", "pads")
    }
    given = {name: value for name, value in entries.items() if name == "kernel_shape" or draw.random() < 0.5}
    given["auto_pad"] = draw.choice(["NOTSET", "", "VALID", "SAME_UPPER", "SAME_LOWER", data[:4].decode("latin-1")])
    given["ceil_mode"], given["storage_order"] = draw.choice(values) % 3, draw.choice(values) % 3
    shape = [draw.choice(values) % 7 for _ in range(rank + draw.choice([2, 2, 2, 1, 3]))]
    x = np.zeros(shape, draw.choice(["float16", "float32", "float64", "int8", "uint8", "int32"]))
    mp.set_memory_limit(2**24)
    try:
        y, indices = mp.max_pool(x, **given, return_indices=True)
    except mp.MaxPoolError:
        return
    assert y.shape == indices.shape == mp.MaxPoolAttributes(**given).output_shape(shape)  # noqa: S101


def fuzz_wire(data: bytes) -> None:
    """The text that a node of ours carries, as it is and changed a little."""
    from maxpool_ort import MaxPoolError, wire  # noqa: PLC0415

    good = "kernel_shape=3,3;dilations=1,1;pads=0,0,0,0;strides=2,2;ceil_mode=0;storage_order=0;auto_pad=NOTSET"
    at = len(data) % len(good)
    for text in (data.decode("latin-1"), good[:at] + data.decode("latin-1") + good[at + len(data) % 7 :]):
        try:
            decoded = wire.decode(text)
        except MaxPoolError:
            continue
        assert wire.encode(decoded) == text  # noqa: S101


def fuzz_models(data: bytes) -> None:
    """A model file: converted, restored, inspected; and one of the seeds with these bytes in it."""
    from maxpool_ort import MaxPoolError, convert_model, restore_model  # noqa: PLC0415
    from maxpool_ort.files import parse_model  # noqa: PLC0415
    from maxpool_ort.inspection import inspect_model  # noqa: PLC0415

    draw = random.Random(data)  # noqa: S311
    seed = draw.choice(SEEDS).read_bytes()
    at = draw.randrange(len(seed))
    for content in (data, seed[:at] + data[:8] + seed[at + draw.randrange(12) :]):
        with suppress(MaxPoolError):
            model = parse_model(content, "the file")
            inspect_model(model)
            converted = convert_model(model).model
            assert restore_model(converted) == model  # noqa: S101


TARGETS: dict[str, Callable[[bytes], None]] = {"attributes": fuzz_attributes, "wire": fuzz_wire, "models": fuzz_models}


def run(target: str, seconds: int, corpus: Path) -> None:
    """Feed one target, in this process."""
    logging.disable(logging.CRITICAL)
    if importlib.util.find_spec("atheris") is None:
        end, rng, count = time.monotonic() + seconds, random.Random(0), 0  # noqa: S311
        while time.monotonic() < end:
            TARGETS[target](rng.randbytes(rng.randrange(64)))
            count += 1
        print(f"{target}: {count} inputs at random (atheris is not installed)")
        return
    import atheris  # noqa: PLC0415

    with atheris.instrument_imports(include=["maxpool_ort"]):
        import maxpool_ort.inspection  # noqa: F401, PLC0415
    atheris.Setup(
        [sys.argv[0], f"-max_total_time={seconds}", "-timeout=20", f"-artifact_prefix={corpus}/", str(corpus)],
        TARGETS[target],
    )
    atheris.Fuzz()


def main() -> int:
    """Run the targets that are named, or all, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="*", choices=[[], *TARGETS], help="what to feed (default: all)")
    parser.add_argument("--seconds", type=int, default=200, help="for each (default: %(default)s)")
    parser.add_argument("--in-this-process", metavar="CORPUS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_this_process:
        run(options.target[0], options.seconds, Path(options.in_this_process))
        return 0
    failed = []
    for target in options.target or TARGETS:
        corpus = tempfile.mkdtemp(prefix=f"fuzz-{target}-")
        command = [sys.executable, __file__, target, "--seconds", str(options.seconds), "--in-this-process", corpus]
        code = subprocess.run(command, check=False).returncode  # noqa: S603 (ourselves)
        print(f"{target}: {'ended with ' + str(code) + ', see ' + corpus if code else 'nothing found'}", flush=True)
        failed += [target] if code else []
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
