"""One piece of X, of one plane or of several: to its outputs."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxpool_ort.kernel import taps
from maxpool_ort.kernel.flat import Program, greater_or_first_nan
from maxpool_ort.kernel.plan import Layout, Work, clipped, first_taps
from maxpool_ort.kernel.positions import grid
from maxpool_ort.kernel.sortable import from_sortable, lowest, to_sortable
from maxpool_ort.kernel.workspace import Workspace

__all__ = ["put_maxima", "put_maxima_and_indices"]

Array = NDArray[Any]
Strides = tuple[int, ...]

_INT16 = np.dtype(np.int16)


def put_maxima(space: Workspace, x: Array, work: Work, y: Array) -> None:
    """Fill y, of any memory layout, with the maxima of the windows of x: (planes, inputs along each axis)."""
    best = _to_compare(space, y)
    if work.layout is not None:
        _run(space, x, work.layout, best, None, np.greater)
    elif x.size:
        best[...] = taps.maxima(to_sortable(x) if x.dtype == np.float16 else x, work.axes)
    _from_compared(best, y)


def put_maxima_and_indices(
    space: Workspace, x: Array, work: Work, y: Array, indices: Array, strides: Strides, origins: Array
) -> None:
    """Likewise, and fill indices: ``origins`` is that of the first of x in each plane, ``strides`` are a plane's."""
    best = _to_compare(space, y)
    if work.layout is not None:
        program = _run(space, x, work.layout, best, strides, np.greater)
        if best.dtype.kind == "f" and np.isnan(best.max()):
            program = _run(space, x, work.layout, best, strides, greater_or_first_nan)
        np.add(program.positions, origins - program.origin, out=indices)
        _mend_ties_with_gaps(work, best, indices, strides, origins)
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


def _run(space: Workspace, x: Array, layout: Layout, y: Array, strides: Strides | None, greater: Any) -> Program:
    is_copied = layout.has_gaps or x.dtype == np.float16 or not (x.flags.c_contiguous and x.flags.aligned)
    program: Program = space.program(Program, layout, len(x), y.dtype, strides, is_copied, greater)
    if not is_copied:
        program.run(y, x.reshape(-1))
        return program
    program.clear()
    if x.dtype == np.float16:
        to_sortable(x, program.inputs)
    else:
        program.inputs[...] = x
    program.run(y)
    return program


def _mend_ties_with_gaps(work: Work, y: Array, indices: Array, strides: Strides, origins: Array) -> None:
    """Where a maximum is as low as the gaps, it may be a gap that was found first: it is the first tap, then.

    Only windows that begin in a gap can have found one; what comes behind the first tap has to be greater.
    """
    for number, axis in enumerate(work.axes, start=1):
        if axis.pad_begin:
            outputs = (*[slice(None)] * number, slice(0, clipped(axis)))
            is_lowest = y[outputs] == lowest(y.dtype)
            if is_lowest.any():
                which = map(np.arange, is_lowest.shape[1:])
                first = [first_taps(axis, outputs)[0] for axis, outputs in zip(work.axes, which, strict=True)]
                np.copyto(indices[outputs], origins + grid(first, strides), where=is_lowest)
