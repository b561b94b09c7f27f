"""Many threads and many runs: every result is right, failures go to their callers, and memory does not grow.

``STRESS=20 pytest tests/test_stress.py`` runs twenty times as long.
"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
import os
from pathlib import Path
import random
import re
import threading
import time
from typing import Any

import numpy as np
import onnx
import onnxruntime
from oracle import max_pool_oracle
import pytest
from subprocesses import printed

import maxpool_ort as mp
from maxpool_ort import op

STRESS = int(os.environ.get("STRESS", "1"))
KINDS = [
    {"dtype": dtype, "kernel_shape": kernel, "strides": [stride] * len(kernel), "with_indices": with_indices}
    for dtype in ("float16", "float32", "float64", "int8", "uint8")
    for kernel, stride in (([3], 1), ([2, 3], 2))
    for with_indices in (False, True)
]


def model(kind: dict) -> onnx.ModelProto:
    """A model of one kind, of unknown sizes."""
    return mp.make_maxpool_model(**kind, input_shape=[None] * (2 + len(kind["kernel_shape"])))


def draw(rng: random.Random, kind: dict) -> np.ndarray:
    """X of some size, now and then too small for the window."""
    shape = [rng.randint(1, 3), rng.randint(1, 4), *(rng.choice([1, rng.randint(1, 24)]) for _ in kind["kernel_shape"])]
    values = np.random.default_rng(rng.randint(0, 10**6)).integers(-100, 100, shape)
    return values.astype(kind["dtype"]) if kind["dtype"] != "uint8" else (values + 100).astype(np.uint8)


def check(session: Any, kind: dict, x: np.ndarray) -> bool:
    """Run, and hold the result against the oracle; whether it was a failure, as it should be."""
    attributes = {name: kind[name] for name in ("kernel_shape", "strides")}
    try:
        mp.MaxPoolAttributes(**attributes).output_shape(x.shape)
    except mp.InvalidShapeError:
        with pytest.raises(mp.InvalidShapeError, match=re.escape(f"{x.shape}; kernel_shape=")):
            session.run(None, {"X": x})
        return True
    for got, expected in zip(session.run(None, {"X": x}), max_pool_oracle(x, **attributes), strict=False):
        np.testing.assert_array_equal(got, expected)
    return False


@pytest.mark.parametrize("is_shared", [True, False])
def test_16_threads(is_shared: bool) -> None:
    """16 threads on the same sessions, or each on its own, with mixed sizes, dtypes and failures."""
    shared = [(kind, mp.InferenceSession(model(kind))) for kind in KINDS]

    def work(number: int) -> int:
        rng = random.Random(number)  # noqa: S311
        own = [(kind, mp.InferenceSession(model(kind))) for kind in rng.sample(KINDS, 3)]
        drawn = [rng.choice(shared if is_shared else own) for _ in range(60 * STRESS)]
        return sum(check(session, kind, draw(rng, kind)) for kind, session in drawn)

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(work, range(16))) > 50


class Plain:
    """A session of onnxruntime's own, for a model that has been converted, which raises what failed."""

    def __init__(self, model: onnx.ModelProto, options: onnxruntime.SessionOptions) -> None:
        mp.register(options)
        conversion = mp.convert_model(model)
        assert mp.restore_model(conversion.model) == model
        self.session = onnxruntime.InferenceSession(conversion.model.SerializeToString(), options)

    def run(self, *arguments: Any) -> Any:
        """Run."""
        try:
            return self.session.run(*arguments)
        except Exception as error:  # noqa: BLE001 (onnxruntime's have no common base)
            raise mp.failure_of(error) from None


def make_sessions_at_once() -> dict[str, int]:
    """In a new process: 16 threads begin at once; how often each of our operators is registered in the end."""
    onnxruntime.set_default_logger_severity(4)
    together, shared = threading.Barrier(16), onnxruntime.SessionOptions()
    real = op.onnx_op

    def slow(**arguments: Any) -> Any:
        time.sleep(0.01)  # as on a machine that is busy
        return real(**arguments)

    def work(number: int) -> int:
        rng, failures = random.Random(number), 0  # noqa: S311
        together.wait()
        for kind in rng.choices(KINDS, k=6 * STRESS):
            make = rng.choice([Plain, mp.InferenceSession])
            session = make(model(kind), rng.choice([shared, onnxruntime.SessionOptions()]))
            failures += check(session, kind, draw(rng, kind))
        return failures

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(16) as pool:
        patch.setattr(op, "onnx_op", slow)
        assert sum(pool.map(work, range(16))) > 0
    native = [each._nativedef for each in op.Opdef._odlist.values() if each.op_type.startswith("maxpool_ort::")]  # noqa: SLF001
    return Counter(f"{each.op_type} {each.input_types}" for each in native)


def test_sessions_made_at_once() -> None:
    """16 threads that convert, make sessions and run at once, the first time too: all is right, and registered once."""
    code = """
        import sys
        sys.path.insert(0, sys.argv[1])
        from test_stress import make_sessions_at_once
        print(list(make_sessions_at_once().values()))
    """
    assert printed(code, str(Path(__file__).parent), timeout=120 * STRESS) == str([1] * 8)


def test_memory_does_not_grow() -> None:
    """Tens of thousands of runs of many shapes, some failing, and hundreds of sessions: as much memory as after the first."""
    code = """
        import gc, random, sys
        import numpy as np, onnxruntime, maxpool_ort as mp
        onnxruntime.set_default_logger_severity(4)
        session = mp.InferenceSession(mp.make_maxpool_model(kernel_shape=[2, 2], input_shape=[None] * 4, with_indices=True))
        rng = random.Random(0)
        def resident():
            gc.collect()
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096 / 2**20
        def run(count):
            for _ in range(count):
                shape = (1, 2, rng.randint(1, 30), rng.randint(1, 30))
                try:
                    session.run(None, {"X": np.zeros(shape, np.float32)})
                except mp.InvalidShapeError:
                    pass
        def sessions(count):
            for _ in range(count):
                mp.InferenceSession(mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4]))
        run(4000), sessions(50)
        before = resident()
        run(30000 * int(sys.argv[1])), sessions(200)
        print(resident() - before)
    """
    assert float(printed(code, str(STRESS), timeout=120 * STRESS)) < 16  # MiB
