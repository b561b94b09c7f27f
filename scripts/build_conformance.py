"""Build `models/conformance/`: test vectors for MaxPool-12 that any runtime can be held against.

Run from anywhere, in the environment of the tests::

    python scripts/build_conformance.py            # write the kit
    python scripts/build_conformance.py --check    # write nothing; exit 1 and list what differs from what is built

Each case is a folder in the layout of ONNX's backend tests: `model.onnx` (one standard MaxPool, opset 12) and, in
`test_data_set_0`, the inputs and the outputs as TensorProto. What is expected comes from the oracle in
`tests/oracle.py`, plain loops written from the operator's page, never from the package. `cases.json` lists the cases:
what each pins down, its source, and, where the page is silent, what it leaves open. Every run gives the same bytes.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
import json
from math import prod
from pathlib import Path
import shutil
import sys
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from oracle import max_pool_oracle  # noqa: E402 (the tests' own)
from regression import regression_cases  # noqa: E402

KIT = ROOT / "models" / "conformance"
NAN, INF = np.nan, np.inf
DTYPES = ("float16", "float32", "float64", "int8", "uint8")
FLOATS = DTYPES[:3]

EXPLICIT = "MaxPool-12, output_spatial_shape, explicit padding"
CEIL = "MaxPool-12, output_spatial_shape, ceil_mode"
VALID = "MaxPool-12, output_spatial_shape, VALID"
SAME = "MaxPool-12, output_spatial_shape and pad_shape, SAME"
PADDING = "MaxPool-12, 'maximum number of elements exclude pad'"
RANK = "MaxPool-12, X: (N x C x D1 x D2 ... Dn)"
INDICES = "MaxPool-12, Indices: flat, in [0, N x C x D1 x ... x Dn), padding not considered"
ORDER = "MaxPool-12, storage_order"
TYPES = "MaxPool-12, type constraints"
DEFAULTS = "MaxPool-12, attributes and their defaults"

DROPPED = (
    "a last window that would start in the end pad: version 12 counts it, MaxPool-22 and all known kernels drop it "
    "(onnx/onnx#5711), and so does this"
)
PADDING_ONLY = "what a window of padding only gives: here the lowest value of the type, and index -1"
FIRST_OF_TIES = "which of equal elements Indices names: here the first in row-major order of the window"
NAN_WINS = "NaN: here a window that holds one gives NaN, and its index is that of the first"
SPATIAL_ONLY = "whether column-major turns N and C around too: here the spatial axes only"
NEGATIVE_PADS = "SAME with strides beyond the window, of which pad_shape is negative: here 0"
PADS_BESIDE = "pads beside auto_pad: here allowed if all are 0"
EMPTY_TEXT = "auto_pad of an empty text: here NOTSET"


@dataclass(frozen=True)
class Case:
    """One test vector: what it is about, and what it pins down."""

    name: str
    feature: str
    attributes: dict[str, Any]
    x: np.ndarray
    pins: str
    source: str
    with_indices: bool = False

    @property
    def silent(self) -> str:
        """What of it the page leaves open; empty where the page decides all."""
        return "; ".join(dict.fromkeys([*_silent_on_shape(self), *_silent_on_values(self)]))


def distinct(*shape: int, dtype: str = "float32") -> np.ndarray:
    """A shuffled ramp, for signed types all below 0: whoever takes padding for 0 is found out. 8 bits repeat after 256."""
    count = prod(shape)
    # The stream of RandomState is frozen, unlike that of default_rng.
    values = np.random.RandomState(count).permutation(count)
    least = {"int8": -128, "uint8": 0}.get(dtype, -count)
    return (values % 256 + least if dtype.endswith("int8") else values + least).astype(dtype).reshape(shape)


def ramp(*shape: int, dtype: str = "float32") -> np.ndarray:
    """0, 1, 2, ... in a shape."""
    return np.arange(prod(shape)).astype(dtype).reshape(shape)


def row(values: Sequence[float], dtype: str = "float32") -> np.ndarray:
    """X of one plane along one axis."""
    return np.array([[values]], dtype)


def k(*kernel_shape: int, **attributes: Any) -> dict[str, Any]:
    """Attributes, kernel_shape first."""
    return {"kernel_shape": list(kernel_shape), **attributes}


def windows() -> Iterator[Case]:
    """Ranks, windows, strides."""
    for rank, shape, kernel in (
        (1, (2, 3, 11), (3,)),
        (2, (2, 3, 6, 5), (3, 2)),
        (3, (2, 2, 4, 3, 5), (2, 3, 2)),
        (4, (2, 2, 3, 2, 3, 2), (2, 1, 2, 2)),
        (5, (1, 2, 2, 3, 2, 2, 3), (2, 2, 1, 2, 2)),
    ):
        yield Case(f"rank_{rank}", "ranks", k(*kernel), distinct(*shape), f"{rank} spatial axes", RANK)
    x = distinct(2, 2, 7, 6)
    for name, kernel, pins in (
        ("1x1", (1, 1), "a window of one element gives X"),
        ("whole_plane", (7, 6), "a window as large as the plane gives its maximum"),
        ("flat", (1, 4), "a window along the last axis only"),
        ("tall", (4, 1), "a window along the first axis only"),
        ("even", (2, 4), "even sizes, another along each axis"),
        ("odd", (3, 5), "odd sizes, another along each axis"),
    ):
        yield Case(f"window_{name}", "windows", k(*kernel), x, pins, EXPLICIT)
    yield Case("window_13", "windows", k(13, 13), distinct(1, 2, 20, 17), "a large window", EXPLICIT)
    yield Case("window_64_of_one_axis", "windows", k(64), distinct(1, 2, 150), "a very large window", EXPLICIT)
    for name, kernel, strides, pins in (
        ("2", (2, 2), (2, 2), "windows side by side"),
        ("overlapping", (3, 3), (2, 2), "windows that overlap"),
        ("unequal", (2, 2), (3, 1), "another stride along each axis"),
        ("beyond_the_window", (2, 1), (3, 4), "elements between windows that none sees"),
        ("beyond_the_input", (2, 2), (9, 9), "a stride beyond the input: one output"),
        ("remainder_floored", (3, 2), (3, 4), "what is left over at the end is dropped: floor"),
    ):
        yield Case(f"strides_{name}", "strides", k(*kernel, strides=list(strides)), x, pins, EXPLICIT)


def padding() -> Iterator[Case]:
    """Explicit pads."""
    x = distinct(2, 2, 5, 6)
    for name, attributes, pins in (
        ("symmetric", k(3, 3, pads=[1, 1, 1, 1]), "padding is no 0: X is below 0"),
        ("begin", k(3, 2, pads=[2, 1, 0, 0]), "all begins first, then all ends"),
        ("end", k(3, 2, pads=[0, 0, 2, 1]), "all begins first, then all ends"),
        ("all_different", k(5, 6, pads=[1, 2, 3, 4]), "another pad at each side"),
        ("first_axis", k(3, 3, pads=[1, 0, 2, 0]), "pads along one axis only"),
        ("last_axis", k(3, 3, pads=[0, 2, 0, 1]), "pads along one axis only"),
        ("with_strides", k(3, 4, pads=[1, 2, 0, 3], strides=[2, 3]), "pads and strides"),
        ("largest_below_kernel", k(4, 3, pads=[3, 2, 3, 2]), "pads of kernel - 1"),
        ("window_beyond_the_input", k(8, 9, pads=[2, 2, 3, 3]), "a window larger than X"),
        ("of_kernel", k(2, 2, pads=[2, 2, 2, 2]), "pads as large as the window"),
        ("far_beyond_kernel", k(2, 2, pads=[5, 0, 0, 7]), "pads much larger than the window"),
        (
            "of_kernel_strided_over",
            k(2, 2, pads=[2, 2, 0, 0], strides=[3, 3]),
            "pads as large as the window, some windows of padding only",
        ),
    ):
        yield Case(f"pads_{name}", "pads", attributes, x, pins, PADDING)
    x = distinct(2, 1, 4, 3, 5)
    attributes = k(2, 3, 3, pads=[1, 0, 2, 0, 1, 1], strides=[2, 1, 2])
    yield Case("pads_3d", "pads", attributes, x, "three axes, another pad at each side", PADDING)
    yield Case("pads_1d", "pads", k(4, pads=[3, 1]), distinct(2, 3, 7), "one axis, another pad at each side", PADDING)


def dilated() -> Iterator[Case]:
    """Dilations."""
    x = distinct(2, 2, 8, 9)
    for name, attributes, pins in (
        ("2", k(2, 2, dilations=[2, 2]), "every second element"),
        ("unequal", k(3, 2, dilations=[2, 5]), "another dilation along each axis"),
        ("one_axis", k(2, 3, dilations=[1, 3]), "dilated along one axis only"),
        ("strides", k(3, 3, dilations=[2, 3], strides=[2, 2]), "dilations and strides"),
        ("pads", k(3, 3, dilations=[3, 2], pads=[1, 2, 3, 0]), "dilations and pads"),
        ("pads_strides", k(2, 3, dilations=[4, 3], pads=[2, 1, 1, 2], strides=[3, 2]), "dilations, pads and strides"),
        ("exact", k(2, 3, dilations=[7, 4]), "an extent as large as X: one output"),
        ("window_of_one", k(1, 1, dilations=[3, 4]), "a dilation of a window of one element does nothing"),
    ):
        yield Case(f"dilations_{name}", "dilations", attributes, x, pins, EXPLICIT)
    yield Case(
        "dilations_pads_not_below_kernel", "dilations", k(2, dilations=[4], pads=[2, 2]), distinct(1, 2, 5),
        "pads as large as the kernel and below its extent", PADDING,
    )  # fmt: skip
    yield Case(
        "dilations_3d", "dilations", k(2, 2, 2, dilations=[3, 1, 2]), distinct(1, 2, 5, 4, 6), "three axes", EXPLICIT
    )
    yield Case(
        "dilations_taps_all_in_one_gap", "dilations", k(2, dilations=[9], pads=[4, 4]), distinct(1, 1, 3),
        "windows whose taps lie before and behind X", PADDING,
    )  # fmt: skip


def valid() -> Iterator[Case]:
    """auto_pad VALID."""
    for ceil_mode in (0, 1):
        for name, attributes, shape, pins in (
            ("remainder", k(2, strides=[2]), (1, 2, 5), "what is left over is dropped"),
            ("exact", k(2, 3, strides=[2, 3]), (1, 2, 6, 6), "nothing is left over"),
            ("dilated", k(3, 2, dilations=[2, 3], strides=[2, 1]), (2, 1, 8, 7), "dilations"),
            ("one_output", k(4, 5), (1, 2, 4, 5), "a window as large as X"),
        ):
            given = {**attributes, "auto_pad": "VALID", **({"ceil_mode": 1} if ceil_mode else {})}
            said = f"VALID: {pins}" + (", also with ceil_mode" if ceil_mode else "")
            yield Case(f"valid_{name}" + "_ceil" * ceil_mode, "auto_pad VALID", given, distinct(*shape), said, VALID)


def same() -> Iterator[Case]:
    """auto_pad SAME_UPPER and SAME_LOWER."""
    for auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        end = "end" if auto_pad == "SAME_UPPER" else "begin"
        for name, attributes, shape, pins in (
            ("even_total", k(3, 5), (2, 2, 5, 6), "as many pads at both ends"),
            ("odd_total", k(2, 4), (2, 2, 5, 6), f"the odd pad is at the {end}"),
            ("strided", k(3, 3, strides=[2, 2]), (1, 2, 6, 8), f"stride 2: the odd pad is at the {end}"),
            ("strided_odd_size", k(3, 3, strides=[2, 2]), (1, 2, 7, 5), "stride 2 and odd sizes"),
            ("strided_2x2", k(2, 2, strides=[2, 2]), (1, 2, 5, 5), f"one pad, at the {end}"),
            ("stride_3", k(4, 5, strides=[3, 3]), (1, 2, 8, 7), "stride 3"),
            ("no_pads", k(2, 3, strides=[2, 3]), (1, 2, 6, 6), "no pads are needed"),
            ("dilated", k(3, 2, dilations=[2, 3]), (2, 2, 5, 7), "the extent counts, not the kernel"),
            ("dilated_strided", k(3, 2, dilations=[2, 3], strides=[2, 2]), (1, 2, 9, 8), "dilations and strides"),
            ("ceil_mode", k(3, 2, strides=[2, 3]), (1, 2, 6, 8), "ceil_mode changes nothing"),
            ("3d", k(2, 3, 2, strides=[1, 2, 2]), (1, 2, 3, 4, 5), "three axes"),
            ("beyond_the_window", k(1, strides=[3]), (1, 2, 6), "strides beyond the window"),
        ):
            given = {**attributes, "auto_pad": auto_pad, **({"ceil_mode": 1} if name == "ceil_mode" else {})}
            name = f"{auto_pad.lower()}_{name}"  # noqa: PLW2901
            yield Case(name, f"auto_pad {auto_pad}", given, distinct(*shape), f"{auto_pad}: {pins}", SAME)


def ceil_mode() -> Iterator[Case]:
    """ceil_mode 1 with explicit pads."""
    for name, attributes, shape, pins in (
        ("partial_window", k(3, 3, strides=[2, 2]), (1, 2, 6, 8), "a last window that hangs over the end"),
        ("exact", k(3, 2, strides=[2, 2]), (1, 2, 7, 6), "nothing hangs over: as with floor"),
        ("stride_1", k(3, 2), (1, 2, 5, 6), "stride 1: as with floor"),
        ("one_axis", k(2, 2, strides=[2, 2]), (1, 2, 5, 6), "one axis hangs over, the other not"),
        ("one_element", k(3, strides=[3]), (1, 2, 7), "the last window sees one element"),
        ("pads", k(3, 3, strides=[2, 2], pads=[1, 0, 0, 1]), (1, 2, 7, 8), "pads and ceil"),
        ("dilated", k(2, 3, strides=[3, 2], dilations=[2, 2]), (1, 2, 7, 8), "dilations and ceil"),
        ("3d", k(2, 3, 2, strides=[2, 2, 3]), (1, 2, 5, 6, 7), "three axes"),
        ("dropped", k(1, 1, strides=[2, 2]), (1, 2, 6, 4), "a window that would start behind X"),
        ("dropped_in_pads", k(2, 2, strides=[3, 3], pads=[0, 0, 1, 1]), (1, 2, 3, 6), "in the end pad"),
        ("dropped_along_one_axis", k(1, 2, strides=[2, 2]), (1, 2, 4, 5), "along one axis only"),
        ("kept_in_begin_pad", k(2, strides=[2], pads=[1, 1]), (1, 2, 4), "begin pads count for where it starts"),
    ):
        given = {**attributes, "ceil_mode": 1}
        yield Case(f"ceil_{name}", "ceil_mode", given, distinct(*shape), f"ceil: {pins}", CEIL)


def indices() -> Iterator[Case]:
    """The second output, in both orders."""
    plain = [
        ("1d", k(3, strides=[2]), (2, 3, 9)),
        ("2d", k(2, 3), (2, 2, 4, 5)),
        ("3d", k(2, 2, 3), (2, 2, 3, 4, 4)),
        ("4d", k(2, 1, 2, 2), (1, 2, 2, 2, 3, 3)),
        ("pads", k(3, 3, pads=[1, 2, 0, 1]), (2, 2, 4, 5)),
        ("strides", k(2, 2, strides=[3, 2]), (2, 2, 7, 6)),
        ("dilations", k(2, 3, dilations=[3, 2]), (2, 2, 6, 7)),
        ("same_upper", k(3, 2, auto_pad="SAME_UPPER", strides=[2, 1]), (2, 2, 5, 4)),
        ("same_lower", k(2, 4, auto_pad="SAME_LOWER", strides=[1, 3]), (2, 2, 5, 7)),
        ("ceil", k(3, 3, ceil_mode=1, strides=[2, 2]), (2, 2, 6, 4)),
    ]
    for name, attributes, shape in plain:
        pins = "counted over all of X, N and C too; padding is not counted"
        yield Case(f"indices_{name}", "Indices", attributes, distinct(*shape), pins, INDICES, with_indices=True)
    for name, attributes, shape in plain:
        given = {**attributes, "storage_order": 1}
        for batch in ((1, 1), shape[:2]):
            x = distinct(*batch, *shape[2:])
            name_of_one = f"{name}_one_plane" if batch == (1, 1) else name
            pins = "column-major: D1 is fastest" + (", N and C stay" if batch != (1, 1) else "")
            yield Case(f"column_major_{name_of_one}", "Indices, column-major", given, x, pins, ORDER, with_indices=True)
    yield Case(
        "column_major_without_indices", "Indices, column-major", k(2, 3, storage_order=1), distinct(2, 2, 4, 5),
        "storage_order does nothing to Y", ORDER,
    )  # fmt: skip


def ties() -> Iterator[Case]:
    """Equal elements."""
    levels = (distinct(2, 2, 6, 5) % 3).astype("float32")
    for name, attributes, x in (
        ("all_equal", k(2, 2), np.ones((2, 2, 3, 4), "float32")),
        ("few_values", k(3, 2), levels),
        ("few_values_strided", k(3, 3, strides=[2, 2]), levels),
        ("few_values_padded", k(3, 3, pads=[2, 1, 1, 2]), levels),
        ("few_values_dilated", k(2, 3, dilations=[3, 2]), levels),
        ("few_values_3d", k(2, 2, 2), (distinct(1, 2, 3, 4, 3) % 2).astype("float32")),
        ("column_major", k(2, 2, storage_order=1), levels[:1, :1]),
        ("int8", k(3, 2), levels.astype("int8")),
        ("float64_long_axis", k(9), (distinct(1, 2, 40) % 2).astype("float64")),
    ):
        yield Case(f"ties_{name}", "ties", attributes, x, "Indices of ties", INDICES, with_indices=True)


def special_values() -> Iterator[Case]:
    """What only floats have, and the ends of every type's range."""
    for dtype in FLOATS:
        finfo = np.finfo(dtype)
        low, tiny = float(finfo.min), float(finfo.smallest_subnormal)
        nans = row([NAN, 1, 2, NAN, NAN, NAN, 3, 1, -INF, NAN, INF, NAN], dtype)
        for name, attributes, x, with_indices, pins in (
            ("nan", k(2, strides=[2]), nans, False, "NaN at any place of a window"),
            ("nan_indices", k(3), nans, True, "the index of the first NaN"),
            ("nan_padded", k(3, pads=[2, 1]), nans, False, "NaN beside padding"),
            ("minus_inf", k(3, pads=[1, 1]), row([-INF] * 6, dtype), False, "-inf is a value"),
            ("inf", k(2), row([-INF, INF, 3, -INF, 2], dtype), True, "inf and -inf are values"),
            ("lowest_finite", k(2, pads=[1, 1]), row([low, -INF, -INF, low], dtype), False, "lowest above -inf"),
            ("subnormal", k(2), row([0, tiny, -tiny, -2 * tiny, 2 * tiny], dtype), True, "subnormals are no 0"),
            ("zeros", k(2), row([-0.0, 0.0, -0.0, -1], dtype), False, "-0 and 0 are equal: either is right"),
        ):
            yield Case(f"{name}_{dtype}", "NaN, inf, ends of the range", attributes, x, pins, PADDING, with_indices)
    for dtype, low, high in (("int8", -128, 127), ("uint8", 0, 255)):
        yield Case(
            f"lowest_{dtype}", "NaN, inf, ends of the range", k(3, pads=[1, 1]), row([low] * 5, dtype),
            "all are the lowest value", PADDING,
        )  # fmt: skip
        x = row([low, high, low + 1, 5, high - 1, low], dtype)
        yield Case(
            f"range_{dtype}", "NaN, inf, ends of the range", k(2), x, "both ends of the range", TYPES, with_indices=True
        )
        yield Case(
            f"padding_only_{dtype}", "NaN, inf, ends of the range", k(1, pads=[1, 2]), x,
            "the lowest value where there is none", PADDING, with_indices=True,
        )  # fmt: skip


def dtypes() -> Iterator[Case]:
    """Every element type with every kind of attribute."""
    for dtype in DTYPES:
        for name, attributes, shape in (
            ("plain", k(3, 2), (2, 2, 6, 5)),
            ("strides", k(2, 2, strides=[2, 2]), (2, 2, 6, 5)),
            ("pads", k(3, 3, pads=[1, 2, 1, 0]), (2, 2, 5, 6)),
            ("dilations", k(2, 3, dilations=[3, 2]), (2, 2, 6, 7)),
            ("same_upper", k(2, 2, auto_pad="SAME_UPPER", strides=[2, 2]), (2, 2, 5, 5)),
            ("same_lower", k(2, 2, auto_pad="SAME_LOWER", strides=[2, 2]), (2, 2, 5, 5)),
            ("ceil", k(3, 3, ceil_mode=1, strides=[2, 2]), (2, 2, 6, 4)),
            ("1d", k(3), (2, 2, 9)),
            ("3d", k(2, 2, 2), (1, 2, 3, 4, 3)),
        ):
            x = distinct(*shape, dtype=dtype)
            yield Case(f"{dtype}_{name}", dtype, attributes, x, f"{dtype}: {name.replace('_', ' ')}", TYPES)
        x = distinct(1, 2, 5, 6, dtype=dtype)
        yield Case(f"{dtype}_indices", dtype, k(3, 2), x, f"{dtype}: Indices", TYPES, with_indices=True)


def sizes_of_nothing() -> Iterator[Case]:
    """Empty tensors."""
    for name, attributes, shape, pins in (
        ("batch", k(2, 2), (0, 2, 4, 5), "N = 0"),
        ("channels", k(2, 2), (2, 0, 4, 5), "C = 0"),
        ("output", k(3, dilations=[2], strides=[2]), (1, 2, 4), "floor, not truncation: size 0"),
        ("output_of_one_axis", k(1, 5), (1, 2, 3, 4), "size 0 along one axis"),
        ("input_padded", k(2, pads=[1, 1]), (1, 2, 0), "a spatial size of 0"),
    ):
        yield Case(f"empty_{name}", "empty", attributes, np.zeros(shape, "float32"), pins, EXPLICIT)


def spellings() -> Iterator[Case]:
    """The same said in other ways."""
    ones, zeros = [1, 1], [0, 0, 0, 0]
    for name, attributes, pins in (
        ("notset", k(3, 2, auto_pad="NOTSET"), "auto_pad NOTSET is the default"),
        ("strides", k(3, 2, strides=ones), "strides of 1 are the default"),
        ("dilations", k(3, 2, dilations=ones), "dilations of 1 are the default"),
        ("pads", k(3, 2, pads=zeros), "pads of 0 are the default"),
        ("flags", k(3, 2, ceil_mode=0, storage_order=0), "ceil_mode and storage_order of 0 are the default"),
        (
            "all",
            k(3, 2, auto_pad="NOTSET", ceil_mode=0, dilations=ones, pads=zeros, storage_order=0, strides=ones),
            "all defaults spelled out",
        ),
        ("empty_auto_pad", k(3, 2, auto_pad=""), "as some exporters write it"),
        ("pads_with_valid", k(3, 2, auto_pad="VALID", pads=zeros), "as some exporters write it"),
        ("pads_with_same", k(3, 2, auto_pad="SAME_UPPER", pads=zeros), "as some exporters write it"),
    ):
        yield Case(f"spelled_out_{name}", "spellings", attributes, distinct(2, 2, 5, 4), pins, DEFAULTS)


def together() -> Iterator[Case]:
    """Drawn attributes, all kinds at once."""
    for number in range(40):
        draw = np.random.RandomState(number)
        rank = 1 + number % 3
        shape = [1 + number % 2, 2, *(int(size) for size in draw.randint(4, 9, rank))]
        attributes = k(*(int(size) for size in draw.randint(1, 4, rank)))
        for name, high in (("strides", 4), ("dilations", 3)):
            if draw.randint(3):
                attributes[name] = [int(entry) for entry in draw.randint(1, high, rank)]
        kernels = attributes["kernel_shape"]
        if draw.randint(3) == 0:
            attributes["auto_pad"] = ("SAME_UPPER", "SAME_LOWER", "VALID")[draw.randint(3)]
        else:
            attributes["pads"] = [int(draw.randint(size)) for size in (*kernels, *kernels)]
        if draw.randint(2):
            attributes["ceil_mode"] = 1
        x = distinct(*shape, dtype=DTYPES[number % 5])
        pins = "all kinds of attributes at once"
        yield Case(f"together_{number:02}", "all together", attributes, x, pins, EXPLICIT)


def reports() -> Iterator[Case]:
    """Small vectors from public reports of a wrong MaxPool."""
    for case in regression_cases():
        attributes = {key: list(v) if isinstance(v, tuple) else v for key, v in case.attributes.items()}
        for got, expected in zip(max_pool_oracle(case.x, **attributes), (case.y, case.indices), strict=True):
            np.testing.assert_array_equal(got, expected, strict=True)
        yield Case(
            f"report_{case.name}", "public reports", attributes, case.x, case.name.replace("_", " "), case.source,
            with_indices=True,
        )  # fmt: skip


def _silent_on_shape(case: Case) -> Iterator[str]:
    """What the page leaves open of sizes and pads, found by its own formulas."""
    attributes, rank = case.attributes, case.x.ndim - 2
    ones = [1] * rank
    strides, dilations = attributes.get("strides", ones), attributes.get("dilations", ones)
    pads, auto_pad = attributes.get("pads", [0] * 2 * rank), attributes.get("auto_pad", "NOTSET")
    if not auto_pad:
        yield EMPTY_TEXT
    if "pads" in attributes and auto_pad not in ("", "NOTSET"):
        yield PADS_BESIDE
    columns = zip(
        case.x.shape[2:], attributes["kernel_shape"], strides, dilations, pads[:rank], pads[rank:], strict=True
    )
    for size, kernel, stride, dilation, begin, end in columns:
        extent = (kernel - 1) * dilation + 1
        if auto_pad.startswith("SAME") and (-(-size // stride) - 1) * stride + extent < size:
            yield NEGATIVE_PADS
        last_start = -(-(size + begin + end - extent) // stride) * stride
        if auto_pad == "NOTSET" and attributes.get("ceil_mode") and last_start >= size + begin:
            yield DROPPED


def _silent_on_values(case: Case) -> Iterator[str]:
    """What the page leaves open of the elements that windows see."""
    indices = max_pool_oracle(case.x, **case.attributes)[1]
    if (indices == -1).any():
        yield PADDING_ONLY
    if np.isnan(case.x).any():
        yield NAN_WINS
    if not case.with_indices:
        return
    later_wins = np.argsort(np.argsort(case.x, axis=None, kind="stable")).astype("float64").reshape(case.x.shape)
    if (max_pool_oracle(later_wins, **case.attributes)[1] != indices).any():
        yield FIRST_OF_TIES
    if case.attributes.get("storage_order") and case.x.ndim > 3 and prod(case.x.shape[:2]) > 1:
        yield SPATIAL_ONLY


FAMILIES = (
    windows, padding, dilated, valid, same, ceil_mode, indices, ties, special_values, dtypes, sizes_of_nothing,
    spellings, together, reports,
)  # fmt: skip


def cases() -> list[Case]:
    """All cases, in order."""
    return [case for family in FAMILIES for case in family()]


def model_of(case: Case) -> ModelProto:
    """A standard model; of Y only the rank is declared, so that no runtime is held to what another infers."""
    element_type = helper.np_dtype_to_tensor_dtype(case.x.dtype)
    dims = ["N", "C", *(f"D{axis + 1}_out" for axis in range(case.x.ndim - 2))]
    outputs = [("Y", element_type), ("Indices", TensorProto.INT64)][: 1 + case.with_indices]
    node = helper.make_node("MaxPool", ["X"], [name for name, _ in outputs], name=case.name, **case.attributes)
    graph = helper.make_graph(
        [node],
        case.name,
        [helper.make_tensor_value_info("X", element_type, case.x.shape)],
        [helper.make_tensor_value_info(name, kind, dims) for name, kind in outputs],
        doc_string=f"{case.pins}; {case.source}" + (f"; the page is silent on {case.silent}" if case.silent else ""),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], producer_name="maxpool_ort")
    model.ir_version = 7
    return model


def build() -> dict[str, bytes]:
    """Every file of the kit, by its path in it."""
    files = {}
    listed = []
    for case in cases():
        attributes = dict(case.attributes)
        y, indices = max_pool_oracle(case.x, **attributes)
        outputs = [("Y", y), ("Indices", indices)][: 1 + case.with_indices]
        files[f"{case.name}/model.onnx"] = model_of(case).SerializeToString(deterministic=True)
        for kind, arrays in (("input", [("X", case.x)]), ("output", outputs)):
            for number, (name, array) in enumerate(arrays):
                tensor = numpy_helper.from_array(array, name)
                files[f"{case.name}/test_data_set_0/{kind}_{number}.pb"] = tensor.SerializeToString(deterministic=True)
        listed.append(
            {
                "name": case.name,
                "feature": case.feature,
                "pins": case.pins,
                "source": case.source,
                "silent": case.silent,
            }
        )
    if len({each["name"] for each in listed}) < len(listed):
        raise SystemExit("two cases have one name")
    files["cases.json"] = (json.dumps(listed, indent=1, ensure_ascii=False) + "\n").encode()
    return files


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=KIT, help="the folder (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 if anything differs")
    options = parser.parse_args()
    built = build()
    there = {str(p.relative_to(options.out)) for p in options.out.rglob("*") if p.is_file() and p.name != "README.md"}
    changed = [name for name, data in built.items() if name not in there or (options.out / name).read_bytes() != data]
    stray = sorted(there - set(built))
    if options.check:
        found = [*(f"differs: {name}" for name in changed), *(f"not built: {name}" for name in stray)]
        print("\n".join(found) or f"{options.out}: all as built")
        return 1 if changed or stray else 0
    for name in stray:
        (options.out / name).unlink()
    for folder in filter(Path.is_dir, list(options.out.iterdir())):
        if folder.name not in {name.partition("/")[0] for name in built}:
            shutil.rmtree(folder)
    for name in changed:
        path = options.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(built[name])
    cases_there = sum(name.endswith("model.onnx") for name in built)
    print(f"{options.out}: {cases_there} cases, {sum(map(len, built.values()))} bytes; wrote {len(changed)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
