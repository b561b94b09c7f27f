"""max_pool: MaxPool-12 on NumPy arrays, without ONNX Runtime."""

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxpool_ort.errors import UnsupportedTypeError
from maxpool_ort.geometry import AutoPad
from maxpool_ort.kernel import pooling
from maxpool_ort.limits import check_memory
from maxpool_ort.schema import MaxPoolAttributes

__all__ = ["DTYPES", "max_pool"]

DTYPES = tuple(map(np.dtype, (np.float16, np.float32, np.float64, np.int8, np.uint8)))
"""The dtypes that MaxPool-12 takes."""


@overload
def max_pool(
    x: ArrayLike,
    kernel_shape: Sequence[int],
    *,
    auto_pad: AutoPad | str = ...,
    ceil_mode: int = ...,
    dilations: Sequence[int] | None = ...,
    pads: Sequence[int] | None = ...,
    storage_order: int = ...,
    strides: Sequence[int] | None = ...,
    return_indices: Literal[False] = ...,
) -> NDArray[Any]: ...
@overload
def max_pool(
    x: ArrayLike,
    kernel_shape: Sequence[int],
    *,
    auto_pad: AutoPad | str = ...,
    ceil_mode: int = ...,
    dilations: Sequence[int] | None = ...,
    pads: Sequence[int] | None = ...,
    storage_order: int = ...,
    strides: Sequence[int] | None = ...,
    return_indices: Literal[True],
) -> tuple[NDArray[Any], NDArray[np.int64]]: ...
def max_pool(
    x: ArrayLike,
    kernel_shape: Sequence[int],
    *,
    auto_pad: AutoPad | str = AutoPad.NOTSET,
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    storage_order: int = 0,
    strides: Sequence[int] | None = None,
    return_indices: bool = False,
) -> NDArray[Any] | tuple[NDArray[Any], NDArray[np.int64]]:
    """Maximum of each window over the spatial axes of X, as ONNX MaxPool-12 defines it.

    Padding never takes part; a NaN in a window is its maximum; a window of padding only yields -inf (for integers the
    smallest), and index -1.

    Parameters
    ----------
    x
        X: (N, C, D1, ..., Dr), r >= 1; float16, float32, float64, int8 or uint8.
    kernel_shape, auto_pad, ceil_mode, dilations, pads, storage_order, strides
        The attributes of the operator, see ``MaxPoolAttributes``. For r spatial axes ``kernel_shape``, ``dilations``
        and ``strides`` have r entries, ``pads`` 2r: all begins, then all ends.
    return_indices
        Also return Indices.

    Returns
    -------
    Y
        (N, C, O1, ..., Or), the dtype of X.
    Indices
        Only with ``return_indices``: int64, the shape of Y; where in X, counted over the whole of X without padding,
        each maximum stands, the first of equals in the window.

    Raises
    ------
    InvalidAttributeError
        If an attribute is not what the operator's page allows.
    InvalidShapeError
        If the rank of X is not r + 2, or an output size would be negative.
    MemoryLimitError
        If the outputs would take more than ``set_memory_limit`` allows.
    UnsupportedTypeError
        If X has another dtype.

    Examples
    --------
    >>> x = np.array([[[3, 1, 4, 1, 5, 9]]], np.float32)
    >>> max_pool(x, [2])
    array([[[3., 4., 4., 5., 9.]]], dtype=float32)
    >>> max_pool(x, [2], strides=[2], return_indices=True)
    (array([[[3., 4., 9.]]], dtype=float32), array([[[0, 2, 5]]]))
    >>> max_pool(np.zeros((1, 64, 112, 112), np.uint8), [3, 3], strides=[2, 2], pads=[1, 1, 1, 1]).shape
    (1, 64, 56, 56)
    """
    x = np.asarray(x)
    if x.dtype not in DTYPES:
        raise UnsupportedTypeError(f"X must have one of the dtypes {', '.join(map(str, DTYPES))}, got {x.dtype}")
    attributes = MaxPoolAttributes(
        kernel_shape=kernel_shape,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
        dilations=dilations,
        pads=pads,
        storage_order=storage_order,
        strides=strides,
    )
    geometry = attributes.geometry(x.shape)
    check_memory((*x.shape[:2], *geometry.output_spatial_shape), x.itemsize, with_indices=bool(return_indices))
    y, indices = pooling(geometry, x.shape, attributes.storage_order, with_indices=bool(return_indices))(x)
    return y if indices is None else (y, indices)
