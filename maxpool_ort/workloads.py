"""What the benchmark measures: MaxPool as networks have it, in all dtypes, with whom and on how many threads."""

from collections.abc import Sequence
from dataclasses import dataclass
import math
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxpool_ort.kernel import get_num_threads
from maxpool_ort.schema import MaxPoolAttributes

__all__ = ["DATA", "DTYPE_NAMES", "PEERS", "WORKLOADS", "Case", "Workload", "cases", "make_workload"]

Array = NDArray[Any]

DATA = ("random", "smooth")
"""Numbers that have nothing to do with one another; or these added up along each axis, cut off at 0 as by a ReLU."""
PEERS = ("onnxruntime", "border", "textbook", "torch", "reference")
DTYPE_NAMES = ("float32", "float64", "float16", "int8", "uint8")


@dataclass(frozen=True)
class Workload:
    """A MaxPool as a network has it."""

    name: str
    shape: tuple[int, ...]
    attributes: MaxPoolAttributes


def make_workload(name: str, shape: tuple[int, ...], kernel: int, **attributes: Any) -> Workload:
    """All axes alike: an integer stands for as many as there are entries in the attribute."""
    rank = len(shape) - 2
    entries: dict[str, Any] = {
        key: [value] * rank * (1 + (key == "pads")) if isinstance(value, int) else value
        for key, value in attributes.items()
    }
    return Workload(name, shape, MaxPoolAttributes(kernel_shape=[kernel] * rank, **entries))


WORKLOADS = (
    make_workload("resnet stem", (1, 64, 112, 112), 3, strides=2, pads=1),
    make_workload("vgg block", (1, 64, 224, 224), 2, strides=2),
    make_workload("inception branch", (1, 256, 28, 28), 3, pads=1),
    make_workload("spp 5", (1, 512, 20, 20), 5, pads=2),
    make_workload("spp 13", (1, 512, 20, 20), 13, pads=6),
    make_workload("dilated", (1, 64, 112, 112), 3, dilations=2),
    make_workload("same upper odd", (1, 128, 57, 57), 3, strides=2, auto_pad="SAME_UPPER"),
    make_workload("unet batch", (8, 32, 64, 64), 2, strides=2),
    make_workload("wide window", (1, 8, 256, 256), 128, pads=[64, 64, 63, 63]),
    make_workload("video", (1, 32, 32, 56, 56), 2, strides=2),
    make_workload("audio", (8, 64, 16000), 3, strides=2),
    make_workload("audio k64", (8, 8, 16000), 64),
    make_workload("tiny", (1, 4, 8, 8), 2, strides=2),
)


@dataclass(frozen=True)
class Case:
    """What is compared with whom, on how many threads."""

    workload: Workload
    dtype: str
    with_indices: bool
    threads: int
    peer: str
    data: str = "random"

    @property
    def outputs(self) -> str:
        """Y or Y+Indices."""
        return "Y+Indices" if self.with_indices else "Y"

    @property
    def attributes(self) -> dict[str, Any]:
        """Those that are not at their defaults."""
        a = self.workload.attributes
        given = {"pads": a.pads} if a.auto_pad == "NOTSET" else {"auto_pad": a.auto_pad}
        return {"kernel_shape": a.kernel_shape, "strides": a.strides, "dilations": a.dilations, **given}

    def x(self) -> Array:
        """X, the same at each call."""
        rng, dtype, shape = np.random.default_rng(0), np.dtype(self.dtype), self.workload.shape
        if self.data == "smooth":
            x: Array = rng.standard_normal(shape)
            for axis in range(2, x.ndim):
                x = x.cumsum(axis)
            x = x.clip(0) * 127 / x.max()
            return x.astype(dtype)
        if dtype.kind == "f":
            return (rng.standard_normal(shape) * 50).astype(dtype)
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def cases(
    *,
    workloads: Sequence[str] = (),
    dtypes: Sequence[str] = (),
    outputs: Sequence[str] = (),
    threads: Sequence[int] = (),
    peers: Sequence[str] = (),
    data: str = "random",
) -> list[Case]:
    """All cases, or those that are named; peers that have no threads, at the smallest number of these only."""
    threads = sorted({min(count, os.cpu_count() or 1) for count in threads or (1, get_num_threads())})
    return [
        case
        for count in threads
        for workload in WORKLOADS
        for dtype in DTYPE_NAMES
        for with_indices in (False, True)
        for peer in PEERS
        if (case := Case(workload, dtype, with_indices, count, peer, data))
        and (not workloads or workload.name in workloads)
        and (not dtypes or dtype in dtypes)
        and (not outputs or case.outputs in outputs)
        and (not peers or peer in peers)
        and (peer not in {"textbook", "reference"} or count == threads[0])
        and (peer != "reference" or math.prod(workload.shape) < 1000)
    ]
