"""What explain says of sizes and windows, held against the oracle, and what it draws, against a brute force."""

import html
import importlib.util
from itertools import combinations
import json
import os
from pathlib import Path
import re
import subprocess
import sys
import time
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
import numpy as np
import onnx
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException
from oracle import Axis, begin_pad, output_size
import pytest
from versions import describes_ort

import maxpool_ort as mp
from maxpool_ort import cli
from maxpool_ort.arithmetic import missing_window, notes_on, size_of
from maxpool_ort.drawing import Sheet
from maxpool_ort.explain import explain, explain_model
from maxpool_ort.geometry import AutoPad
from maxpool_ort.geometry import Axis as OurAxis
from maxpool_ort.picture import DROPPED, Picture, as_lines
from maxpool_ort.schema import axes_of
from maxpool_ort.telling import panels

MODELS = Path(__file__).parents[1] / "models"
AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


def one_axis(size: int, **attributes: Any) -> tuple[OurAxis, mp.MaxPoolAttributes]:
    """The axis of an X with one spatial axis."""
    made = mp.MaxPoolAttributes(**attributes)
    (axis,) = axes_of(made, (1, 1, size))
    return axis, made


# (id, size, attributes, lines)
SIZES: list[tuple[str, int, dict[str, Any], list[str]]] = [
    (
        "floor, with a rest",
        112,
        {"kernel_shape": [3], "strides": [2], "pads": [1, 1]},
        [
            "floor((112 + 1 + 1 - 3) / 2) + 1 = floor(55.5) + 1 = 56",
            "ceil_mode 1 would give 57: window 56 starts at 111 and ends at 113, 1 beyond the pads",
            "57 outputs need 1 more input or pad",
        ],
    ),
    (
        "floor, without a rest",
        8,
        {"kernel_shape": [2], "strides": [2]},
        [
            "floor((8 + 0 + 0 - 2) / 2) + 1 = floor(3) + 1 = 4",
            "ceil_mode 1 would give the same: the quotient is whole",
            "5 outputs need 2 more inputs or pads",
        ],
    ),
    (
        "floor, where ceil_mode would drop the window again",
        7,
        {"kernel_shape": [2], "strides": [4]},
        [
            "floor((7 + 0 + 0 - 2) / 4) + 1 = floor(1.25) + 1 = 2",
            "ceil_mode 1 would give the same: ceil(1.25) + 1 - 1, since window 2 would start at 8, where there are no "
            "inputs any more",
            "3 outputs need 3 more inputs or pads",
        ],
    ),
    (
        "floor, where ceil_mode would give less",
        5,
        {"kernel_shape": [2], "pads": [0, 3]},
        [
            "floor((5 + 0 + 3 - 2) / 1) + 1 = floor(6) + 1 = 7",
            "ceil_mode 1 would give 6: ceil(6) + 1 - 1, since window 6 would start at 6, where there are no inputs any "
            "more",
            "8 outputs need 1 more input or pad",
        ],
    ),
    (
        "ceil",
        112,
        {"kernel_shape": [3], "strides": [2], "ceil_mode": 1},
        [
            "ceil((112 + 0 + 0 - 3) / 2) + 1 = ceil(54.5) + 1 = 56",
            "ceil_mode 0 would give 55: floor(54.5) + 1",
        ],
    ),
    (
        "ceil, the last window dropped",
        12,
        {"kernel_shape": [1], "strides": [2], "ceil_mode": 1},
        [
            "ceil((12 + 0 + 0 - 1) / 2) + 1 = ceil(5.5) + 1 = 7",
            "less 1 = 6: window 6 would start at 12, where there are no inputs any more",
            "ceil_mode 0 would give the same: floor(5.5) + 1",
        ],
    ),
    (
        "VALID, to which ceil_mode says nothing",
        5,
        {"kernel_shape": [2], "strides": [2], "auto_pad": "VALID", "ceil_mode": 1},
        [
            "ceil((5 - 2 + 1) / 2) = ceil(2) = 2",
            "ceil_mode 1 changes nothing: VALID has a formula of its own",
            "SAME_UPPER and SAME_LOWER would give 3",
            "3 outputs need 1 more input",
        ],
    ),
    (
        "SAME_UPPER with an odd pad",
        8,
        {"kernel_shape": [3], "strides": [2], "auto_pad": "SAME_UPPER"},
        [
            "ceil(8 / 2) = ceil(4) = 4",
            "pads = max(0, (4 - 1) * 2 + 3 - 8) = 1: 0 at the beginning, 1 at the end (the odd one at the end: SAME_UPPER)",
            "VALID would give 3",
        ],
    ),
    (
        "SAME_LOWER with ceil_mode",
        8,
        {"kernel_shape": [3], "strides": [2], "auto_pad": "SAME_LOWER", "ceil_mode": 1},
        [
            "ceil(8 / 2) = ceil(4) = 4",
            "pads = max(0, (4 - 1) * 2 + 3 - 8) = 1: 1 at the beginning, 0 at the end (the odd one at the beginning: "
            "SAME_LOWER)",
            "ceil_mode 1 changes nothing: SAME_LOWER has a formula of its own",
            "VALID would give 3",
        ],
    ),
    (
        "SAME with dilations, of which VALID would be too small",
        2,
        {"kernel_shape": [3], "dilations": [2], "auto_pad": "SAME_UPPER"},
        [
            "extent = (3 - 1) * 2 + 1 = 5",
            "ceil(2 / 1) = ceil(2) = 2",
            "pads = max(0, (2 - 1) * 1 + 5 - 2) = 4: 2 at the beginning, 2 at the end",
            "VALID would give none: X is too small",
        ],
    ),
    (
        "too small",
        2,
        {"kernel_shape": [5], "strides": [2]},
        [
            "floor((2 + 0 + 0 - 5) / 2) + 1 = floor(-1.5) + 1 = -1",
            "ceil_mode 1 would give 0: ceil(-1.5) + 1",
            "1 output needs 3 more inputs or pads",
            "an output size must be >= 0: all inputs and pads together are too few for a window of 5",
        ],
    ),
    (
        "a third",
        6,
        {"kernel_shape": [2], "strides": [3]},
        [
            "floor((6 + 0 + 0 - 2) / 3) + 1 = floor(1.333...) + 1 = 2",
            "ceil_mode 1 would give the same: ceil(1.333...) + 1 - 1, since window 2 would start at 6, where there are "
            "no inputs any more",
            "3 outputs need 2 more inputs or pads",
        ],
    ),
]


@pytest.mark.parametrize(("size", "attributes", "lines"), [row[1:] for row in SIZES], ids=[row[0] for row in SIZES])
def test_sizes(size: int, attributes: dict[str, Any], lines: list[str]) -> None:
    """How an output size comes about, in whole sentences."""
    assert list(size_of(*one_axis(size, **attributes))) == lines


@st.composite
def axes(draw: st.DrawFn, largest: int = 12) -> tuple[Axis, str, int]:
    """One axis for the oracle, its auto_pad and ceil_mode; X may be too small."""
    auto_pad = draw(st.sampled_from(["NOTSET", *AUTO_PADS]))
    pad = st.integers(0, largest // 2 if auto_pad == "NOTSET" else 0)
    integers = [draw(st.integers(least, most)) for least, most in ((0, largest), (1, 5), (1, 4), (1, 4))]
    return Axis(*integers, draw(pad), draw(pad)), auto_pad, draw(st.integers(0, 1))


def explained(axis: Axis, auto_pad: str, ceil_mode: int) -> tuple[OurAxis, mp.MaxPoolAttributes]:
    """Our axis for the oracle's."""
    return one_axis(
        axis.size,
        kernel_shape=[axis.kernel],
        strides=[axis.stride],
        dilations=[axis.dilation],
        pads=[axis.begin, axis.end],
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
    )


def size_or_none(axis: Axis, auto_pad: str, ceil_mode: int) -> int | None:
    """The oracle's output size; None where it is negative."""
    try:
        return output_size(axis, auto_pad, ceil_mode)
    except ValueError:
        return None


@given(drawn=axes())
def test_numbers_are_the_oracles(drawn: tuple[Axis, str, int]) -> None:
    """Every size that is told is what the oracle counts for those attributes or that input."""
    axis, auto_pad, ceil_mode = drawn
    size = size_or_none(*drawn)
    lines = list(size_of(*explained(*drawn)))
    text = "\n".join(lines)
    assert ("an output size must be >= 0" in text) == (size is None)
    if size is None:
        return
    (formula,) = re.findall(r"^(?:floor|ceil)\(.*= (-?\d+)$", text, re.MULTILINE)
    (less,) = re.findall(r"^less 1 = (\d+)", text, re.MULTILINE) or [formula]
    assert int(less) == size
    for other, said in re.findall(r"^(.+?) would give (none|the same|\d+)", text, re.MULTILINE):
        mode = int(other[-1]) if other.startswith("ceil_mode") else ceil_mode
        expected = size_or_none(axis, auto_pad if other.startswith("ceil_mode") else other.split()[0], mode)
        assert said == ("none" if expected is None else "the same" if expected == size else str(expected))
    for more, needed in re.findall(r"^(\d+) outputs? needs? (\d+) more", text, re.MULTILINE):
        grown = [axis._replace(size=axis.size + int(needed) - less) for less in (0, 1)]
        assert [size_or_none(each, auto_pad, 0) for each in grown] == [int(more), size]
        assert int(more) == size + 1
    counted = len(re.findall(r"would give|need", text))
    assert counted == {"NOTSET": 1 if ceil_mode else 2, "VALID": 2}.get(auto_pad, 1)


def seen(axis: Axis, auto_pad: str, size: int) -> list[set[int]]:
    """The positions that each window has a tap on, those in padding too."""
    begin = begin_pad(axis, size, auto_pad)
    return [{o * axis.stride + t * axis.dilation - begin for t in range(axis.kernel)} for o in range(size)]


def numbers(text: str) -> set[int]:
    """Read the numbers of a sentence: 2, 5 to 7."""
    found: set[int] = set()
    for first, last in re.findall(r"(\d+)(?: to (\d+))?", text):
        found |= set(range(int(first), int(last or first) + 1))
    return found


@given(drawn=axes())
def test_notes_are_true(drawn: tuple[Axis, str, int]) -> None:
    """Inputs that no window sees, windows of padding only and those beyond the pads are those of a brute force."""
    axis, auto_pad, _ = drawn
    size = size_or_none(*drawn)
    ours, _ = explained(*drawn)
    notes = list(notes_on(ours))
    if not size:
        assert notes == []
        return
    windows = seen(axis, auto_pad, size)
    inputs = set(range(axis.size))
    expected: list[tuple[str, set[int] | int]] = []
    beyond = max(windows[-1]) + 1 - (axis.size + ours.pad_end)
    if beyond > 0:
        expected.append((f"window {size - 1} reaches {beyond} beyond the pads, which ceil_mode allows", set()))
    unseen = inputs - set().union(*windows)
    if unseen:
        expected.append(("no window sees", unseen))
    of_padding = {o for o, window in enumerate(windows) if not window & inputs}
    if of_padding:
        expected.append(("padding only", of_padding))
    assert len(notes) == len(expected)
    for note, (what, which) in zip(notes, expected, strict=True):
        assert note.startswith(what)
        if "in all" in note:
            assert f", {len(which)} in all" in note
            assert numbers(note.partition(", ...")[0]) <= which
        elif which:
            assert numbers(note.partition("; Y is")[0]) == which


def mark_of(axis: Axis, begin: int, window: int, positions: range, *, dropped: bool) -> str:
    """What a window has at a position, or at several that are not drawn."""
    start = window * axis.stride - begin
    taps = {start + t * axis.dilation for t in range(axis.kernel)}
    is_between = any(start < position < max(taps) for position in positions)
    if len(positions) > 1:
        return "…" if taps & set(positions) else "─" if is_between else " "
    if positions[0] in taps:
        return DROPPED if dropped else "■" if 0 <= positions[0] < axis.size else "□"
    return "─" if is_between else " "


@given(drawn=axes() | st.integers(1, 6).flatmap(lambda scale: axes(60 * scale)), width=st.integers(40, 160))
def test_drawings_are_true(drawn: tuple[Axis, str, int], width: int) -> None:
    """What is drawn for a position and a window is what a brute force finds there; nothing is wider than it may be."""
    axis, auto_pad, _ = drawn
    size = size_or_none(*drawn) or 0
    ours, _ = explained(*drawn)
    dropped = missing_window(ours, AutoPad(auto_pad))
    begin = ours.pad_begin if size_or_none(*drawn) is None else begin_pad(axis, size, auto_pad)
    above, inputs, *rows = as_lines(ours, dropped, width)
    assert max(map(len, [above, inputs, *rows])) <= width
    assert dropped in (None, size)
    count = size + (dropped is not None)
    margin = 2 + max(len(f"window {max(size - 1, 0)}"), 0 if dropped is None else len(f"dropped {size}"))

    columns = Picture.of(ours, dropped, (width - margin + 1) // 2).columns
    ranges = [
        range(columns[x - 1] + 1, columns[x + 1]) if position is None else range(position, position + 1)
        for x, position in enumerate(columns)
    ]
    first, stop = -begin, max(axis.size + ours.pad_end, (count - 1) * axis.stride - begin + axis.extent)
    assert [position for each in ranges for position in each] == list(range(first, stop))
    assert all((position is None) == (len(each) > 1) for position, each in zip(columns, ranges, strict=True))

    def cells(row: str) -> str:
        return row.ljust(width + 1)[margin : margin + 2 * len(columns) : 2]

    marks = ["…" if len(r) > 1 else str(r[0] % 10) if 0 <= r[0] < axis.size else None for r in ranges]
    pads = range(-begin, axis.size + ours.pad_end)
    assert cells(inputs) == "".join(m or ("·" if r[0] in pads else " ") for m, r in zip(marks, ranges, strict=True))
    for label in re.finditer(r"-?\d+", above):
        assert columns[(label.start() - margin) // 2] == int(label[0])

    unseen = set(range(axis.size)).difference(*seen(axis, auto_pad, size)) if size else set(range(axis.size))
    expected = "".join("^" if len(r) == 1 and r[0] in unseen else " " for r in ranges)
    assert cells(rows.pop() if expected.strip() else "") == expected
    window = 0
    for row in rows:
        if row.startswith("..."):
            hidden = int(re.fullmatch(r"\.\.\. (\d+) more windows?", row)[1])
            window += hidden
            continue
        is_dropped = window == dropped
        assert row.startswith(f"{'dropped' if is_dropped else 'window'} {window} ")
        assert cells(row) == "".join(mark_of(axis, begin, window, r, dropped=is_dropped) for r in ranges)
        window += 1
    assert window == count
    assert not count or rows[0].startswith(("window 0", "dropped 0"))


def test_no_gap_hides_one_position() -> None:
    """Where a gap would be one position wide, the position itself is drawn."""
    axis, _ = one_axis(5, kernel_shape=[1], pads=[100, 100])
    assert Picture.of(axis, None, 15).columns == (-100, -99, None, *range(-2, 7), None, 103, 104)


@pytest.mark.parametrize("size", [1, 40, 400])
def test_few_windows_are_all_drawn(size: int) -> None:
    """Up to 13 windows and as many positions as fit are drawn whole."""
    axis, _ = one_axis(size, kernel_shape=[1], strides=[-(-size // 13)])
    lines = list(as_lines(axis, None, 2 * size + 12))
    assert sum(line.startswith("window") for line in lines) == axis.output <= 13
    assert not any("..." in line or "…" in line for line in lines)


# (id, shape, attributes)
HUGE: list[tuple[str, list[int], dict[str, Any]]] = [
    ("all large", [2**60, 1, 2**60], {"kernel_shape": [2**60], "strides": [3], "pads": [2**60, 2**60], "ceil_mode": 1}),
    ("a large input", [1, 1, 2**40], {"kernel_shape": [2**31], "strides": [7]}),
    ("large strides that skip", [1, 1, 2**60], {"kernel_shape": [2], "strides": [2**50 + 1]}),
    ("a large window", [1, 1, 5], {"kernel_shape": [2**31], "dilations": [2**30]}),
    ("large pads, gaps larger than X", [1, 1, 3], {"kernel_shape": [9], "dilations": [2**50], "pads": [2**55, 2**55]}),
    ("a hundred axes", [1, 1, *range(1, 101)], {"kernel_shape": [2] * 100, "auto_pad": "SAME_UPPER"}),
    ("a hundred large axes", [1, 1, *range(2**40, 2**40 + 100)], {"kernel_shape": [2**20] * 100, "strides": [5] * 100}),
]


@pytest.mark.parametrize(("shape", "attributes"), [row[1:] for row in HUGE], ids=[row[0] for row in HUGE])
def test_huge_sizes(shape: list[int], attributes: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """However large sizes are, and however many, it takes seconds at most, and a few hundred lines."""
    lists = {
        key: ",".join(map(str, value)) if isinstance(value, list) else str(value) for key, value in attributes.items()
    }
    options = [f"--{key.replace('_', '-')}={value}" for key, value in lists.items()]
    start = time.perf_counter()
    code = cli.main(["explain", f"--input-shape={','.join(map(str, shape))}", *options])
    assert time.perf_counter() - start < 20  # most take milliseconds
    printed = capsys.readouterr().out
    assert code == (1 if "no Y: X is too small" in printed else 0)
    assert len(printed.splitlines()) < 400


# (id, attributes, dims, further arguments, what is said of ONNX Runtime's own)
DIFFERENT: list[tuple[str, dict[str, Any], tuple[Any, ...], dict[str, Any], list[str]]] = [
    ("nothing", {"kernel_shape": [2]}, ("N", 1, 8), {"element_type": "int8"}, []),
    (
        "another shape",
        {"kernel_shape": [3], "dilations": [2], "auto_pad": "SAME_UPPER"},
        (1, 1, 5),
        {"with_indices": True},
        ["SAME with dilations: 3 outputs along D1 instead of 5", "may lose NaN"],
    ),
    ("refused", {"kernel_shape": [2], "pads": [2, 0]}, (1, 1, 5), {}, ["refuses the model: pads >= kernel_shape"]),
    ("refused and too small", {"kernel_shape": [9], "pads": [9, 0], "dilations": [9]}, (1, 1, 5), {}, ["refuses the model: pads >= kernel_shape"]),
    ("too small", {"kernel_shape": [5]}, (1, 1, 2), {}, ["fails at the run too"]),
    (
        "too small, and truncated",
        {"kernel_shape": [5, 1], "strides": [2, 1]},
        (1, 1, 2, 3),
        {},
        ["X smaller than a window: 0 outputs along D1 instead of an error"],
    ),
    ("too small along two axes, one of them truncated", {"kernel_shape": [5, 5], "strides": [2, 1]}, (1, 1, 2, 2), {}, ["fails at the run too"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("attributes", "dims", "more", "expected"), [row[1:] for row in DIFFERENT], ids=[row[0] for row in DIFFERENT]
)
def test_what_differs(
    attributes: dict[str, Any], dims: tuple[Any, ...], more: dict[str, Any], expected: list[str]
) -> None:
    """What ONNX Runtime's own does differently, also with an X that is too small."""
    assert list(explain(mp.MaxPoolAttributes(**attributes), dims, **more).differs) == expected


@describes_ort
@pytest.mark.parametrize("row", [row for row in DIFFERENT if "too small" in row[0]], ids=lambda row: row[0])
def test_ort_on_too_small(row: tuple[str, dict[str, Any], tuple[int, ...], dict[str, Any], list[str]]) -> None:
    """ONNX Runtime's own does with an X that is too small what is said of it."""
    _, attributes, dims, _, (said,) = row
    model = mp.make_maxpool_model(**attributes, input_shape=[None] * len(dims))
    try:
        (y,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"X": np.zeros(dims, np.float32)})
    except (Fail, InvalidArgument, RuntimeException):
        assert said.startswith(("refuses", "fails"))
    else:
        assert said == f"X smaller than a window: {y.shape[2]} outputs along D1 instead of an error"


@describes_ort
@given(drawn=axes(), second=axes())
def test_ort_has_the_windows_that_are_drawn(drawn: tuple[Axis, str, int], second: tuple[Axis, str, int]) -> None:
    """Where ONNX Runtime's own has other windows they are drawn, and their number is that of its outputs."""
    (first, auto_pad, ceil_mode), other = drawn, second[0]._replace(begin=0, end=0)
    columns = zip(first, other, strict=True)
    sizes, kernel_shape, strides, dilations, begins, ends = columns
    attributes = mp.MaxPoolAttributes(
        kernel_shape=kernel_shape,
        strides=strides,
        dilations=dilations,
        pads=[*begins, *ends],
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
    )
    found = explain(attributes, (1, 1, *sizes), element_type="float")
    assume(found.built_in_axes)
    model = mp.make_maxpool_model(
        kernel_shape, [None] * 4, strides=strides, dilations=dilations, pads=None if auto_pad != "NOTSET" else [*begins, *ends],
        auto_pad=auto_pad, ceil_mode=ceil_mode, with_indices=True,
    )  # fmt: skip
    try:
        y, _ = onnxruntime.InferenceSession(model.SerializeToString()).run(
            None, {"X": np.zeros((1, 1, *sizes), np.float32)}
        )
    except (Fail, InvalidArgument, RuntimeException):
        assert found.differs
        assert any(axis.output < 0 for axis in found.built_in_axes)
        return
    assert tuple(axis.output for axis in found.built_in_axes) == y.shape[2:]
    drawn_theirs = [panel for panel in panels(found) if "in ONNX Runtime's own" in panel.title]
    assert bool(drawn_theirs) == (found.built_in_axes != found.axes)


def test_shapes_that_no_run_has() -> None:
    """What onnx infers one too large before opset 22, and what the model declares, is told; a changed node declares nothing."""
    attributes = {"kernel_shape": [1, 1], "strides": [2, 2], "ceil_mode": 1}
    model = mp.make_maxpool_model(**attributes, input_shape=["N", 1, 12, 11])
    model.graph.output[0].type.tensor_type.shape.dim[2].dim_value = 7
    (found,) = explain_model(model)
    assert found.y == ("N", 1, 6, 6)
    assert found.wrong_shapes == (
        "declared by the model: 7 along D1 instead of 6",
        "inferred by onnx for opset 12: 7 along D1 instead of 6",
    )
    (changed,) = explain_model(model, changes={"ceil_mode": 0})
    assert changed.wrong_shapes == ()
    assert explain(mp.MaxPoolAttributes(**attributes), (1, 1, 12, 11), opset=22).wrong_shapes == ()


BODIES = """
    <ir_version: 8, opset_import: ["": 13, "local": 1]>
    main (bool c, double[1, 1, 8] x, int8[1, 1, 5] i) => (double[1, 1, A] y, double[1, 1, B] z, int8[1, 1, C] j) {
        [choose] y = If (c) <
            then_branch = a () => (double[1, 1, M] p) { [pool1] p = MaxPool <kernel_shape = [2]> (x) },
            else_branch = b () => (double[1, 1, Q] q) { [same] q = MaxPool <kernel_shape = [3]> (x) }
        >
        [call1] z = local.free <k = [4]> (x)
        j = MaxPool <kernel_shape = [5]> (i)
    }
    <domain: "local", opset_import: ["": 13]> free <k> (p) => (q) { [same] q = MaxPool <kernel_shape: ints = @k> (p) }
    <domain: "local", opset_import: ["": 13]> unused <k> (p) => (q) { q = MaxPool <kernel_shape: ints = @k> (p) }
"""
# (names, nodes, sizes of Y)
NODES = [
    ([], ["'pool1' in graph 'main', then_branch of If 'choose'", "'same' in graph 'main', else_branch of If 'choose'", "'same' in function 'free', call 'call1' in graph 'main'", "with output 'j' in graph 'main'"], [7, 6, 5, 1]),
    (["same"], ["'same' in graph 'main', else_branch of If 'choose'", "'same' in function 'free', call 'call1' in graph 'main'"], [6, 5]),
    (["j", "pool1"], ["'pool1' in graph 'main', then_branch of If 'choose'", "with output 'j' in graph 'main'"], [7, 1]),
]  # fmt: skip


@pytest.mark.parametrize("is_converted", [False, True])
@pytest.mark.parametrize(("names", "nodes", "sizes"), NODES, ids=["all", "a name twice", "an output"])
def test_nodes_of_a_model(names: list[str], nodes: list[str], sizes: list[int], *, is_converted: bool) -> None:
    """Nodes at any depth and in functions, standard or converted, in the model's order, with the shapes of their X."""
    model = onnx.parser.parse_model(BODIES)
    if is_converted:
        model = mp.convert_model(model).model
    found = explain_model(model, names)
    assert [each.node for each in found] == [f"MaxPool {node}" for node in nodes]
    assert [each.y[2] for each in found] == sizes


def test_what_takes_the_place_of_the_models() -> None:
    """Attributes, shape, type and Indices that are given come before what the model says."""
    model = mp.make_maxpool_model(kernel_shape=[3], input_shape=["N", 3, "L"], strides=[2], dtype="float64")
    (found,) = explain_model(model, input_dims=(1, 3, 9))
    assert (found.x, found.y, found.element_type, found.differs) == ((1, 3, 9), (1, 3, 4), "double", ("may lose NaN",))
    (found,) = explain_model(
        model, input_dims=(1, 3, 1), changes={"pads": [2, 2], "dilations": [2]}, element_type="float", with_indices=True
    )
    assert str(found.attributes) == "kernel_shape=3 dilations=2 pads=2,2 strides=2"
    assert found.differs == ()
    (found,) = explain_model(
        model, input_dims=(2, 3, 1), changes={"kernel_shape": [2], "pads": [1, 1], "dilations": [2]}, with_indices=True
    )
    assert found.differs == ("windows of padding only along D1: lowest finite value, stray index",)


def test_shape_of_a_chosen_node() -> None:
    """A shape goes to the nodes of one name, however many others there are, and Indices are those of the node."""
    model = onnx.parser.parse_model(BODIES)
    assert [each.y for each in explain_model(model, ["same"], input_dims=(1, 1, 9))] == [(1, 1, 7), (1, 1, 6)]
    for with_indices, lost in ((False, "may lose NaN and -inf"), (True, "may lose NaN")):
        pool = mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 8], with_indices=with_indices)
        assert [each.differs for each in explain_model(pool)] == [(lost,)]


def test_models_at_hand(capsys: pytest.CaptureFixture[str]) -> None:
    """Every model here is explained, and fits into 80 columns; Y is what inspect says."""
    for path in sorted(MODELS.glob("*.onnx")):
        assert cli.main(["inspect", str(path), "--json"]) == 0
        inspected = json.loads(capsys.readouterr().out)["maxpool"]
        if path.stem == "maxpool_all_together":  # says no sizes
            assert cli.main(["explain", str(path)]) == 1
            assert "give --input-shape" in capsys.readouterr().err
            continue
        assert cli.main(["explain", str(path), "--json"]) == 0
        said = json.loads(capsys.readouterr().out)["maxpool"]
        assert [each["y"] for each in said] == [each["true_dims"] for each in inspected]
        assert [each["differs"] for each in said] == [each["built_in_differs"] for each in inspected]
        assert cli.main(["explain", str(path)]) == 0
        printed = capsys.readouterr().out
        assert max(map(len, printed.splitlines())) <= 80
        assert all(each["node"] in printed for each in said)


# (id, arguments, exit code, what the output must hold, in order)
LINES = [
    (
        "of attributes",
        "--input-shape 1,64,112,112 --kernel-shape 3,3 --strides 2,2 --ceil-mode 1 --dtype int8 --with-indices",
        0,
        [
            r"MaxPool\nkernel_shape=3,3 ceil_mode=1 strides=2,2\nX int8 \(1, 64, 112, 112\) -> Y \(1, 64, 56, 56\)\n",
            r"axis +input +kernel +stride +dilation +extent +pad begin +pad end +output\n",
            r"D2 +112 +3 +2 +1 +3 +0 +0 +56\n",
            r"D1 and D2: 56 outputs\n  ceil\(\(112 \+ 0 \+ 0 - 3\) / 2\) \+ 1 = ceil\(54.5\) \+ 1 = 56\n",
            r"\n  \.\.\. \d+ more windows\n",
            r"■ tap on an input   □ tap on padding   … not drawn\n\nONNX Runtime's own MaxPool:\n  gives the same\n$",
        ],
    ),
    ("three axes", "--input-shape 1,1,4,5,4 --kernel-shape 2,2,2", 0, [r"D1 and D3: 3 outputs", "D2: 4 outputs"]),
    ("four axes", "--input-shape 1,1,4,4,4,4 --kernel-shape 2,2,2,2", 0, ["D1, D2, D3 and D4: 3 outputs", "more than 3 sp"]),
    ("no outputs", "--input-shape 1,1,4 --kernel-shape 3 --dilations 2 --strides 2", 0, [r"Y \(1, 1, 0\)", "D1: 0 outputs"]),
    ("one output", "--input-shape 1,1,2 --kernel-shape 2", 0, ["D1: 1 output\n"]),
    ("no inputs", "--input-shape 1,1,0 --kernel-shape 2 --pads 1,1", 0, [r"\n +-1\n +X +· ·\n +window 0 +□ □\n", "of 0 that is not N"]),
    (
        "too small",
        "--input-shape 1,1,8,1 --kernel-shape 3,3",
        1,
        ["no Y: X is too small", "D2 +1 +3 +1 +1 +3 +0 +0 +-1\n", "D1: 6 outputs", "D2: X is too small", f"dropped 0 +{' '.join(3 * DROPPED)}", "fails at the run too"],
    ),
    ("theirs", "--input-shape 1,1,5 --kernel-shape 3 --dilations 2 --auto-pad SAME_UPPER", 0, ["D1: 5 outputs", "D1 in ONNX Runtime's own MaxPool: 3 outputs\n  pads 1 and 1\n", "instead of 5"]),
    ("negative pads", "--input-shape 1,1,6 --kernel-shape 1 --strides 3 --auto-pad SAME_UPPER", 0, ["MaxPool: 2 outputs\n  pads -1 and -1\n", r"\n  X +0 1 2 3 4 5\n  window 0    ■\n  window 1          ■\n  unseen    \^   \^ \^   \^\n"]),
    ("too many axes", "--input-shape 1,1,1,2,3,4,5,6,7,8,9 --kernel-shape 1,1,1,1,1,1,1,1,1", 0, ["D8: 8 outputs", "1 more axis that differs"]),
    ("of a model", "models/digits.onnx --node pool2", 0, [r"^MaxPool 'pool2' in graph 'digits'\n", r"X float \(N, 32, 4, 4\)", "lose NaN"]),
    ("changed", "models/digits.onnx --node pool2 --ceil-mode 0", 0, [r"kernel_shape=3,3 strides=2,2\n", "Y .N, 32, 1, 1"]),
    ("help", "--help", 0, ["--kernel-shape", "examples:", "Exits with 1"]),
]  # fmt: skip


@pytest.mark.parametrize("rich", [True, False])
@pytest.mark.parametrize(("line", "code", "expected"), [row[1:] for row in LINES], ids=[row[0] for row in LINES])
def test_commands(
    line: str,
    code: int,
    expected: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    rich: bool,
) -> None:
    """The command prints what it should, with and without rich, within 80 columns, without colours."""
    monkeypatch.chdir(MODELS.parent)
    monkeypatch.setenv("COLUMNS", "80")
    if not rich:
        monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    try:
        got = cli.main(["explain", *line.split()])
    except SystemExit as exit_:  # how argparse ends --help
        got = exit_.code
    printed, complained = capsys.readouterr()
    assert (got, complained) == (code, "")
    assert re.search(".*".join(expected), printed, re.DOTALL), printed
    assert max(map(len, printed.splitlines())) <= 80
    assert "\x1b" not in printed


def drawn_rows(sheet: Sheet) -> dict[float, dict[int, str]]:
    """The squares of a sheet by the middle of their row, and where they stand: blue, orange, red."""
    marks = {"0072b2": "■", "ffffff": "□", "fbe5da": DROPPED}
    rows: dict[float, dict[int, str]] = {}
    for square in sheet.axes.patches:
        mark = marks.get("".join(f"{round(255 * part):02x}" for part in square.get_facecolor()[:3]))
        if mark and (mark != "□" or square.get_hatch()):
            rows.setdefault(round(square.get_y() + 0.44, 2), {})[round(square.get_x() - 0.06)] = mark
    return rows


@settings(max_examples=15)
@given(drawn=axes() | axes(200))
def test_plots_are_true(drawn: tuple[Axis, str, int]) -> None:
    """A sheet has, in the row of each window that it draws, the squares of its taps, and says the same sentences."""
    ours, attributes = explained(*drawn)
    found = explain(attributes, (1, 1, ours.input))
    sheet = Sheet([found])
    texts = [(text.get_text(), round(text.get_position()[1], 2)) for text in sheet.axes.texts]
    said = " ".join(" ".join(text.split()) for text, _ in texts)  # long lines are wrapped
    assert all(
        line in said for line in (*size_of(ours, attributes), *notes_on(ours), *(p.title for p in panels(found)))
    )
    rows = drawn_rows(sheet)
    dropped = missing_window(ours, attributes.auto_pad)
    picture = Picture.of(ours, dropped, 36)
    for row in picture.rows:
        if isinstance(row, range):
            assert any(text == f"... {len(row)} more window{'s' * (len(row) > 1)}" for text, _ in texts)
        else:
            name = f"{'dropped' if row == dropped else 'window'} {row}"
            y = next(y for text, y in texts if text == name)  # ours comes before ONNX Runtime's own
            assert rows.get(y, {}) == {x: mark for x, mark in enumerate(picture.marks(row)) if mark in "■□" + DROPPED}


def test_plots_say_what_they_leave_out() -> None:
    """More than 8 different axes of a node are not drawn, which is said; of all nodes at most 40 are."""
    many = explain(mp.MaxPoolAttributes(kernel_shape=[1] * 10), (1, 1, *range(1, 11)))
    texts = [text.get_text() for text in Sheet([many]).axes.texts]
    assert [text for text in texts if re.match(r"D\d+:|\.\.\. \d+ more axes", text)] == [
        *(f"D{number}: {number} output{'s' * (number > 1)}" for number in range(1, 9)),
        "... 2 more axes that differ from these",
    ]


# (id, shape, attributes)
PLOTS: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("usual", [1, 64, 112, 57], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("long numbers", ["N", 1, 2**40], {"kernel_shape": [2**31], "strides": [7], "pads": [2**30, 2**30]}),
    ("the longest numbers", [1, 1, 2**60], {"kernel_shape": [2**59], "strides": [1], "pads": [2**58, 2**58]}),
    ("four digits", [1, 1, 9999], {"kernel_shape": [2], "strides": [3], "pads": [1000, 1]}),
    ("theirs too", [1, 1, 15, 9], {"kernel_shape": [3, 2], "dilations": [2, 1], "strides": [1, 4], "auto_pad": "SAME_UPPER"}),
    ("too small", [1, 1, 2, 0], {"kernel_shape": [50, 3]}),
    ("all marks", [1, 1, 60], {"kernel_shape": [3], "dilations": [3], "strides": [8], "pads": [9, 9]}),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "attributes"), [row[1:] for row in PLOTS], ids=[row[0] for row in PLOTS])
def test_nothing_in_a_plot_overlaps(shape: list[Any], attributes: dict[str, Any]) -> None:
    """No text of a sheet lies over another one, or beyond the sheet."""
    sheet = Sheet([explain(mp.MaxPoolAttributes(**attributes), tuple(shape), node="MaxPool '$x^$' in graph 'g'")])
    sheet.figure.draw_without_rendering()
    boxes = [(text.get_text(), text.get_window_extent()) for text in sheet.axes.texts]
    sheet_box = sheet.figure.bbox
    assert [
        text for text, box in boxes if box.x0 < 0 or box.x1 > sheet_box.x1 or box.y0 < 0 or box.y1 > sheet_box.y1
    ] == []
    assert [(a, b) for (a, one), (b, other) in combinations(boxes, 2) if a and b and one.overlaps(other)] == []


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_plot_files(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--plot writes files of the kind that their names say; a .svg holds all that is drawn as text, too."""
    path = tmp_path / f"drawn.{suffix}"
    assert cli.main(["explain", str(MODELS / "digits.onnx"), "--plot", str(path)]) == 0
    assert capsys.readouterr().out.endswith(f"\n\nwrote {path}\n")
    data = path.read_bytes()
    assert data.startswith({"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[suffix])
    if suffix == "svg":
        said = [html.unescape(text) for text in re.findall(r"<!-- (.+?) -->", data.decode())]
        assert [text for text in said if text.startswith(("MaxPool", "D1"))] == [
            "MaxPool 'pool1' in graph 'digits'",
            "D1 and D2: 4 outputs",
            "MaxPool 'pool2' in graph 'digits'",
            "D1 and D2: 2 outputs",
        ]
        assert {"window 3", "dropped 4", "input", "tap on an input", "tap on padding", "tap of a dropped window"} <= {
            *said
        }


def test_terminals_that_are_too_narrow(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Below 40 columns it is drawn for 40, and no line of a drawing is broken."""
    monkeypatch.setenv("COLUMNS", "30")
    assert cli.main(["explain", "--input-shape=1,1,99", "--kernel-shape=2"]) == 0
    lines = list(as_lines(one_axis(99, kernel_shape=[2])[0], None, 38))
    assert max(map(len, lines)) > 30
    assert "".join(f"  {line}\n" for line in lines) in capsys.readouterr().out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """--json has numbers as numbers, for each axis."""
    line = "explain --input-shape 1,1,2,7 --kernel-shape 3,2 --dilations 2,1 --strides 1,3 --json"
    assert cli.main(line.split()) == 1
    (said,) = json.loads(capsys.readouterr().out)["maxpool"]
    assert (said["x"], said["y"], said["attributes"]["strides"]) == ([1, 1, 2, 7], None, "1,3")
    assert [(a["input"], a["extent"], a["output"], a["dropped"]) for a in said["axes"]] == [(2, 5, -2, 0), (7, 2, 2, 2)]
    assert said["axes"][1]["size"][0] == "floor((7 + 0 + 0 - 2) / 3) + 1 = floor(1.666...) + 1 = 2"
    assert said["axes"][1]["notes"] == ["no window sees inputs 2, 5 to 6"]
    assert said["differs"] == ["fails at the run too"]


def explain_in_a_process(**environment: str) -> str:
    """What a process of its own prints, with other variables in its environment."""
    line = "explain --input-shape 1,1,7 --kernel-shape 2 --dilations 2 --strides 5 --pads 1,0"
    kept = {key: value for key, value in os.environ.items() if key not in {"FORCE_COLOR", "NO_COLOR", "COLUMNS"}}
    command = [sys.executable, "-m", "maxpool_ort", *line.split()]
    return subprocess.run(command, capture_output=True, check=True, env=kept | environment).stdout.decode()  # noqa: S603


def test_colours_and_letters() -> None:
    """Colours only mark what marks tell without them; a terminal without other letters gets ASCII."""
    plain = explain_in_a_process(PYTHONIOENCODING="utf-8")
    assert "\x1b" not in plain
    assert "  window 0  □ ─ ■\n  window 1            ■ ─ ■\n  unseen      ^   ^ ^   ^\n" in plain
    coloured = explain_in_a_process(PYTHONIOENCODING="utf-8", FORCE_COLOR="1", TERM="xterm")
    assert "\x1b[32m■" in coloured
    picture = slice(plain.index("  window 0"), None)
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured)[-len(plain[picture]) :] == plain[picture]
    for quiet in ({"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "dumb"}):
        assert not re.search(
            r"\x1b\[[\d;]*3\dm", explain_in_a_process(PYTHONIOENCODING="utf-8", FORCE_COLOR="1", **quiet)
        )
    ascii_only = explain_in_a_process(PYTHONIOENCODING="ascii")
    assert "  window 0  o - #\n  window 1            # - #\n  unseen      ^   ^ ^   ^\n" in ascii_only
    assert "# tap on an input   o tap on padding   - between taps" in ascii_only


def test_readme(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What README shows is what the command prints."""
    monkeypatch.chdir(MODELS.parent)
    (block,) = re.findall(r"```text\n\$ maxpool-ort (explain .+?)```", Path("README.md").read_text(), re.DOTALL)
    line, said, _ = block.split("\n...\n")
    assert cli.main(line.split()) == 0
    assert said in capsys.readouterr().out
