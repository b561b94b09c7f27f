"""One piece of X, of one plane or of several: to its outputs."""

from collections.abc import Callable
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxpool_ort.kernel import taps
from maxpool_ort.kernel.passes import Layout
from maxpool_ort.kernel.plan import Work
from maxpool_ort.kernel.positions import grid
from maxpool_ort.kernel.program import Program, greater_or_first_nan
from maxpool_ort.kernel.sortable import from_sortable, to_sortable
from maxpool_ort.kernel.workspace import Workspace

__all__ = ["put_maxima", "put_maxima_and_indices"]

Array = NDArray[Any]
Strides = tuple[int, ...]

_INT16 = np.dtype(np.int16)


def put_maxima(space: Workspace, x: Array, work: Work, y: Array) -> None:
    """Fill y, of any memory layout, with the maxima of the windows of x: (planes, inputs along each axis)."""
    best = _to_compare(space, y)
    if work.layout is not None:
        _run(space, x, work.layout, best)
    elif x.size:
        best[...] = taps.maxima(to_sortable(x) if x.dtype == np.float16 else x, work.axes)
    _from_compared(best, y)


def put_maxima_and_indices(
    space: Workspace, x: Array, work: Work, y: Array, indices: Array, strides: Strides, origins: Array
) -> None:
    """Likewise, and fill indices: ``origins`` is that of the first of x in each plane, ``strides`` are a plane's."""
    best = _to_compare(space, y)
    if work.layout is not None:
        _run(space, x, work.layout, best, indices, strides, origins)
        if best.dtype.kind == "f" and isnan(best[work.layout.outputs].max()):
            _run(space, x, work.layout, best, indices, strides, origins, greater_or_first_nan)
    elif x.size:
        positions = origins + grid([np.arange(size) for size in x.shape[1:]], strides)
        keys = to_sortable(x) if x.dtype == np.float16 else x
        best[...], indices[...] = taps.maxima_and_positions(keys, positions, work.axes)
    _from_compared(best, y)


def _to_compare(space: Workspace, y: Array) -> Array:
    """Where to put maxima: y itself, or integers in the order of float16."""
    return space.array("best", y.shape, _INT16) if y.dtype == np.float16 else y


def _from_compared(best: Array, y: Array) -> None:
    if best is not y:
        from_sortable(best, y)


def _run(
    space: Workspace,
    x: Array,
    layout: Layout,
    y: Array,
    indices: Array | None = None,
    strides: Strides | None = None,
    origins: Array | None = None,
    greater: Callable[..., Any] = np.greater,
) -> None:
    y = y[layout.outputs]
    indices = None if indices is None else indices[layout.outputs]
    is_copied = layout.has_gaps or x.dtype == np.float16 or not (x.flags.c_contiguous and x.flags.aligned)
    is_one_run = y.flags.c_contiguous
    of_origins = None if origins is None else origins.dtype
    what = layout, len(x), y.dtype, strides, of_origins, is_copied, is_one_run, greater
    program: Program = space.program(Program, *what)
    if not is_copied:
        program.run(y, x, indices, origins)
        return
    program.clear()
    if x.dtype == np.float16:
        to_sortable(x, program.inputs)
    else:
        program.inputs[...] = x
    program.run(y, None, indices, origins)
