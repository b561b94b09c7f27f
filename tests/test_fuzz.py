"""What the fuzzer is fed (scripts/fuzz.py): what it has found to cover most, and anything."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest
from subprocesses import printed

import maxpool_ort as mp
from maxpool_ort import limits, wire

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "fuzz.py"
REPLAY = """
    import logging, sys
    sys.path.insert(0, sys.argv[1])
    import fuzz
    logging.disable(logging.CRITICAL)
    files = sorted((fuzz.CORPUS / sys.argv[2]).iterdir())
    for file in files:
        print(file.name, file=sys.stderr)
        fuzz.TARGETS[sys.argv[2]](file.read_bytes())
    print(len(files))
"""


@pytest.fixture(scope="module")
def fuzz() -> ModuleType:
    """Import the script by its path: scripts are no package."""
    spec = importlib.util.spec_from_file_location("fuzz", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("target", ["attributes", "wire", "models"])
def test_what_covers_most(target: str) -> None:
    """Each file of the corpus is refused or right; in a process of its own, which onnx might end."""
    assert int(printed(REPLAY, str(SCRIPT.parent), target)) > 5


@pytest.mark.parametrize("target", ["attributes", "wire"])
def test_anything(target: str, fuzz: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any bytes are refused or right."""
    monkeypatch.setattr(limits, "_limit", limits._limit)  # noqa: SLF001 (put back: the targets set it)

    @settings(max_examples=200)
    @given(st.binary(max_size=100))
    def feed(data: bytes) -> None:
        fuzz.TARGETS[target](data)

    feed()


POOL = bytes([0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 1, 4, 0, 1, 3])  # kernel_shape [2] on X of shape (1, 1, 4)
MODEL = (ROOT / "models" / "maxpool_indices.onnx").read_bytes()
real = mp.max_pool


def other_maxima(x: Any, *, return_indices: bool = False, **given: Any) -> Any:
    """Y with one more than the maxima."""
    y, indices = real(x, **given, return_indices=True)
    return (y + 1, indices) if return_indices else y + 1


def other_indices(x: Any, *, return_indices: bool = False, **given: Any) -> Any:
    """Indices of other elements."""
    y, indices = real(x, **given, return_indices=True)
    return (y, indices + 1) if return_indices else y


# (what it is fed, where something is wrong: what, and what is there instead, target)
SLIPS: list[tuple[bytes, Any, str, Any, str]] = [
    (POOL, mp, "max_pool", other_maxima, "attributes"),
    (POOL, mp, "max_pool", other_indices, "attributes"),
    (b"", wire, "decode", lambda _: mp.MaxPoolAttributes(kernel_shape=[2]), "wire"),
    (MODEL, mp, "restore_model", lambda model: model, "models"),
]


@pytest.mark.parametrize("slip", SLIPS, ids=["maxima", "indices", "wire", "models"])
def test_targets_notice(slip: Any, fuzz: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target lets what is right pass, and nothing else."""
    data, *wrong, target = slip
    monkeypatch.setattr(limits, "_limit", limits._limit)  # noqa: SLF001 (put back: the targets set it)
    fuzz.TARGETS[target](data)
    monkeypatch.setattr(*wrong)
    with pytest.raises(AssertionError):
        fuzz.TARGETS[target](data)


def test_every_target_is_tested(fuzz: ModuleType) -> None:
    """The corpus has a folder for each target, of less than 100 KiB in all."""
    assert sorted(folder.name for folder in fuzz.CORPUS.iterdir()) == sorted(fuzz.TARGETS)
    assert sum(file.stat().st_size for file in fuzz.CORPUS.rglob("*")) < 100 * 1024
