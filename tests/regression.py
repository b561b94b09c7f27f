"""Small vectors with right answers, each from a public report of a wrong MaxPool (data/regression_cases.json)."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class RegressionCase(NamedTuple):
    """One report: attributes as keyword arguments, X, and the right Y and Indices."""

    name: str
    source: str
    attributes: dict[str, Any]
    x: np.ndarray
    y: np.ndarray
    indices: np.ndarray


def regression_cases() -> list[RegressionCase]:
    """Read all cases, in the order of the file."""
    rows = json.loads((Path(__file__).parent / "data" / "regression_cases.json").read_text())
    return [
        RegressionCase(
            row["name"],
            row["source"],
            {name: tuple(value) if isinstance(value, list) else value for name, value in row["attributes"].items()},
            *(_tensor(**row[name]) for name in ("x", "y", "indices")),
        )
        for row in rows
    ]


def _tensor(dtype: str, shape: list[int], data: list[float | str]) -> np.ndarray:
    # JSON has no NaN and no infinities; the file spells them as strings, which float() reads
    return np.array([float(value) for value in data], dtype).reshape(shape)
