"""Feed what nobody would write: attributes and arrays, the text that a node carries, and model files, made of bytes.

Run from the repository root, in the environment of the tests, with atheris if it can be installed (then what is fed is
guided by the coverage of the package), else at random::

    pip install atheris
    python scripts/fuzz.py                       # all three targets, ten minutes in all
    python scripts/fuzz.py models --seconds 60   # one of them
    python scripts/fuzz.py --minimize            # and put what covers most into tests/data/fuzz

Each target lets only MaxPoolError pass, and holds what is not refused against what is right. It starts from what is in
tests/data/fuzz, which the tests feed too. Each runs in a process of its own, so that one that ends is noticed; what ended
it is left in a file, of which the name is printed. Exits with 1 then.
"""

import argparse
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
import importlib.util
from itertools import islice
import logging
from math import prod
from pathlib import Path
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "tests" / "data" / "fuzz"
SEEDS = [*sorted((ROOT / "models").glob("maxpool_*.onnx")), *sorted((ROOT / "tests/data/exports").glob("*.onnx"))]
GOOD = "kernel_shape=3,3;dilations=1,1;pads=0,0,0,0;strides=2,2;ceil_mode=0;storage_order=0;auto_pad=NOTSET"
sys.path.append(str(ROOT / "tests"))  # the oracle


class Told:
    """What to do next, as bytes tell it: zeros where they have ended, so that any bytes tell something."""

    def __init__(self, data: bytes) -> None:
        self._left = iter(data)

    def below(self, count: int) -> int:
        """A number below count."""
        return int.from_bytes(self.take(((count - 1).bit_length() + 7) // 8), "little") % count

    def choice(self, options: Sequence[Any]) -> Any:
        """One of them."""
        return options[self.below(len(options))]

    def take(self, count: int | None = None) -> bytes:
        """The next bytes, or all that are left."""
        return bytes(islice(self._left, count))


def fuzz_attributes(data: bytes) -> None:
    """MaxPool on an array, all of it from bytes."""
    from oracle import assert_same, max_pool_oracle  # noqa: PLC0415

    import maxpool_ort as mp  # noqa: PLC0415 (instrumented first)

    told = Told(data)
    dtype = np.dtype(told.choice(["float32", "float16", "float64", "int8", "uint8", "int32"]))
    rank = told.below(5)

    def entry() -> int:
        kind, value = told.below(16), told.below(256)
        return {15: -value, 14: 2**31 - value, 13: 2**40 + value, 12: 2**60 - value, 11: 2**63}.get(kind, value % 6)

    given: dict[str, Any] = {"kernel_shape": [entry() for _ in range(rank)]}
    for name in ("strides", "dilations", "pads"):
        if told.below(2):
            given[name] = [entry() for _ in range(rank * (1 + (name == "pads")))]
    given["auto_pad"] = told.choice(["NOTSET", "", "VALID", "SAME_UPPER", "SAME_LOWER", "SAME"])
    given["ceil_mode"], given["storage_order"] = told.choice([0, 1, 2]), told.choice([0, 1, 2])
    shape = [told.below(7) for _ in range(rank + told.choice([2, 2, 2, 1, 3]))]
    lowest, highest = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    alphabet = np.array([0, 1, lowest, 2, highest, np.nan if dtype.kind == "f" else 3], dtype)
    x = alphabet[np.resize(np.frombuffer(told.take() or b"\0", np.uint8), shape) % len(alphabet)]
    mp.set_memory_limit(2**24)
    try:
        y, indices = mp.max_pool(x, **given, return_indices=True)
    except mp.MaxPoolError:
        return
    assert_same(mp.max_pool(x, **given), y)
    assert y.shape == indices.shape == mp.MaxPoolAttributes(**given).output_shape(shape)  # noqa: S101
    if prod(max(1, size) for size in (*y.shape, *given["kernel_shape"])) <= 20_000:
        for got, expected in zip((y, indices), max_pool_oracle(x, **given), strict=True):
            assert_same(got, expected, given)


def fuzz_wire(data: bytes) -> None:
    """The text that a node of ours carries, as it is and changed a little."""
    from maxpool_ort import MaxPoolError, wire  # noqa: PLC0415

    for text in (data.decode("latin-1"), _edited(GOOD.encode(), Told(data)).decode("latin-1")):
        try:
            decoded = wire.decode(text)
        except MaxPoolError:
            continue
        assert wire.encode(decoded) == text  # noqa: S101


def fuzz_models(data: bytes) -> None:
    """A model file: converted, restored, inspected; and one of the seeds, changed a little."""
    from maxpool_ort import MaxPoolError, convert_model, restore_model  # noqa: PLC0415
    from maxpool_ort.files import parse_model  # noqa: PLC0415
    from maxpool_ort.inspection import inspect_model  # noqa: PLC0415

    told = Told(data)
    for content in (data, _edited(_read(told.choice(SEEDS)), told)):
        with suppress(MaxPoolError):
            model = parse_model(content, "the file")
            inspect_model(model)
            converted = convert_model(model).model
            assert restore_model(converted) == model  # noqa: S101


_read = cache(Path.read_bytes)


def _edited(text: bytes, told: Told) -> bytes:
    """A text with some bytes put in the place of some, in up to three places."""
    for _ in range(1 + told.below(3)):
        at, length = told.below(len(text) + 1), told.below(12)
        text = text[:at] + told.take(told.below(9)) + text[at + length :]
    return text


TARGETS: dict[str, Callable[[bytes], None]] = {"attributes": fuzz_attributes, "wire": fuzz_wire, "models": fuzz_models}


HAS_ATHERIS = importlib.util.find_spec("atheris") is not None


def feed(target: str, *options: str) -> None:
    """Feed one target, in this process, as libFuzzer's options say: it starts others like this one to minimize."""
    import atheris  # noqa: PLC0415

    with atheris.instrument_imports(include=["maxpool_ort"]):
        import maxpool_ort.inspection  # noqa: F401, PLC0415
    again = shlex.join([sys.executable, __file__, "--in-this-process", target])
    atheris.Setup([again, *options], TARGETS[target])
    atheris.Fuzz()


def feed_at_random(target: str, seconds: str, folder: str) -> None:
    """Feed one target, in this process, what is in a folder, and then anything, of which the last is left there."""
    for file in sorted(Path(folder).iterdir()):
        TARGETS[target](file.read_bytes())
    end, rng, count = time.monotonic() + int(seconds), random.Random(), 0  # noqa: S311
    while time.monotonic() < end:
        data = rng.randbytes(rng.randrange(64))
        (Path(folder) / "last").write_bytes(data)
        TARGETS[target](data)
        count += 1
    print(f"{target}: {count} inputs at random (atheris is not installed)")


def main() -> int:
    """Run the targets that are named, or all, each in a process of its own."""
    if sys.argv[1:2] == ["--in-this-process"]:
        logging.disable(logging.CRITICAL)
        (feed if HAS_ATHERIS else feed_at_random)(*sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="*", choices=[[], *TARGETS], help="what to feed (default: all)")
    parser.add_argument("--seconds", type=int, default=200, help="for each (default: %(default)s)")
    parser.add_argument("--minimize", action="store_true", help="then put what covers most into tests/data/fuzz")
    options = parser.parse_args()
    if options.minimize and not HAS_ATHERIS:
        parser.error("--minimize needs atheris: pip install atheris")
    failed = 0
    for target in options.target or TARGETS:
        command = [sys.executable, __file__, "--in-this-process", target]
        folder, kept = tempfile.mkdtemp(prefix=f"fuzz-{target}-"), CORPUS / target
        shutil.copytree(kept, folder, dirs_exist_ok=True)
        limits = [f"-max_total_time={options.seconds}", "-timeout=20", f"-artifact_prefix={folder}/"]
        given = [*limits, folder] if HAS_ATHERIS else [str(options.seconds), folder]
        code = subprocess.run([*command, *given], check=False).returncode  # noqa: S603 (ourselves)
        if options.minimize and not code:
            shutil.rmtree(kept)
            kept.mkdir()
            merge = ["-set_cover_merge=1", "-use_counters=0", str(kept), folder]
            code = subprocess.run([*command, *merge], check=False).returncode  # noqa: S603 (ourselves)
        print(f"{target}: {f'ended with {code}, see {folder}' if code else 'nothing found'}", flush=True)
        failed += code != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
