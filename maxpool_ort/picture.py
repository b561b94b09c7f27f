"""Which positions each window of an axis sees: what of it is drawn, and the drawing as text."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
import sys

from maxpool_ort.arithmetic import is_seen
from maxpool_ort.geometry import Axis
from maxpool_ort.table import coloured

__all__ = [
    "BETWEEN",
    "DROPPED",
    "HIDDEN",
    "LEGEND",
    "PAD",
    "PAD_TAP",
    "TAP",
    "UNSEEN",
    "Picture",
    "as_lines",
    "hidden_windows",
    "legend",
    "row_name",
    "ruler",
    "shown",
]

TAP, PAD_TAP, BETWEEN, DROPPED, UNSEEN, PAD, HIDDEN = "■□─×^·…"  # noqa: RUF001 (marks)
LEGEND = {
    TAP: "tap on an input",
    PAD_TAP: "tap on padding",
    BETWEEN: "between taps",
    DROPPED: "tap of a dropped window",
    UNSEEN: "input that no window sees",
    PAD: "pad",
    HIDDEN: "not drawn",
}
"""What the marks of a picture mean."""
_IN_ASCII = str.maketrans({TAP: "#", PAD_TAP: "o", BETWEEN: "-", DROPPED: "x", PAD: ".", HIDDEN: "~"})
_STYLES = {TAP: "green", PAD_TAP: "magenta", DROPPED: "bold red", UNSEEN: "bold red"}
"""Colours that are readable on dark and on light terminals."""
_MOST_WINDOWS = 13
_LEAST_COLUMNS = 8


@dataclass(frozen=True)
class Picture:
    """An axis as it is drawn: its positions as columns, its windows as rows, not all of very many.

    ``dropped`` is the window that would come next, where it is worth showing.
    """

    axis: Axis
    dropped: int | None
    columns: tuple[int | None, ...]
    """Positions, from left to right; None stands for those that are not drawn."""
    rows: tuple[int | range, ...]
    """Windows; a range stands for those that are not drawn."""

    @classmethod
    def of(cls, axis: Axis, dropped: int | None, most_columns: int) -> "Picture":
        """Choose what is drawn: what lies at the ends of X, of its pads and of the windows.

        >>> picture = Picture.of(Axis.of(100, 2, stride=2), None, 9)
        >>> picture.columns, picture.rows
        ((0, 1, 2, 3, None, 96, 97, 98, 99), (0, 1, range(2, 48), 48, 49))
        """
        count = max(axis.output, 0) + (dropped is not None)
        last_end = (count - 1) * axis.stride - axis.pad_begin + axis.extent
        first = min(0, -axis.pad_begin)  # the built-in can have negative pads
        end = axis.input + max(0, axis.pad_end, last_end - axis.input)
        runs = _around((first, 0, axis.input, end), first, end, max(most_columns, _LEAST_COLUMNS))
        columns = [*runs[0]] if runs else []
        for run in runs[1:]:
            columns += [None, *run]
        reach = axis.pad_begin - axis.extent + 1
        seeing = (-(-reach // axis.stride), (axis.input + axis.pad_begin) // axis.stride)
        chosen = (w for run in _around((0, *seeing, count), 0, count, _MOST_WINDOWS) for w in run)
        drawn = [w for w in chosen if any(p is not None and _is_tap(axis, w, p) for p in columns)]
        rows: list[int | range] = []
        for before, window in pairwise([-1, *drawn, count]):
            rows += [range(before + 1, window)] if window > before + 1 else []
            rows += [window] if window < count else []
        return cls(axis, dropped, tuple(columns), tuple(rows))

    def marks(self, window: int) -> str:
        """What a window has in each column."""
        columns = self.columns
        return "".join(
            self._mark(window, position)
            if position is not None
            else self._hidden_mark(window, columns[number - 1], columns[number + 1])
            for number, position in enumerate(columns)
        )

    def _mark(self, window: int, position: int) -> str:
        if not 0 <= _offset(self.axis, window, position) < self.axis.extent:
            return " "
        if not _is_tap(self.axis, window, position):
            return BETWEEN
        if window == self.dropped:
            return DROPPED
        return TAP if 0 <= position < self.axis.input else PAD_TAP

    def _hidden_mark(self, window: int, before: int | None, after: int | None) -> str:
        """What a window has between two columns."""
        assert before is not None and after is not None  # noqa: S101, PT018 (runs are not empty)
        first, end = (_offset(self.axis, window, position) for position in (before + 1, after))
        tap = max(0, -(-first // self.axis.dilation)) * self.axis.dilation
        if tap < min(end, self.axis.extent):
            return HIDDEN
        return BETWEEN if max(first, 0) < min(end, self.axis.extent) else " "

    @property
    def inputs(self) -> str:
        """The row of X: the last digit of each position in it, and its pads."""
        return "".join(map(self._input, self.columns))

    def _input(self, position: int | None) -> str:
        axis = self.axis
        if position is None:
            return HIDDEN
        if 0 <= position < axis.input:
            return str(position % 10)
        return PAD if -axis.pad_begin <= position < axis.input + axis.pad_end else " "

    @property
    def unseen(self) -> str:
        """Marks below the inputs that no window sees."""
        is_input = (p is not None and 0 <= p < self.axis.input and not is_seen(self.axis, p) for p in self.columns)
        return "".join(UNSEEN if marked else " " for marked in is_input)


def _offset(axis: Axis, window: int, position: int) -> int:
    return position - (window * axis.stride - axis.pad_begin)


def _is_tap(axis: Axis, window: int, position: int) -> bool:
    offset = _offset(axis, window, position)
    return 0 <= offset < axis.extent and offset % axis.dilation == 0


def _around(anchors: Sequence[int], start: int, stop: int, most: int) -> list[range]:
    """Runs of the numbers from start to stop that lie around the anchors, together at most so many, gaps counted.

    >>> _around((0, 90), 0, 100, 7)
    [range(0, 2), range(88, 92)]
    """
    runs = [range(start, stop)] if stop > start else []
    for radius in range(most, 0, -1):
        if not runs or sum(run.stop - run.start for run in runs) + len(runs) - 1 <= most:
            break
        around = [(max(start, anchor - radius), min(stop, anchor + radius)) for anchor in anchors]
        runs = []
        for first, end in sorted(pair for pair in around if pair[0] < pair[1]):
            if runs and first <= runs[-1].stop + 1:
                runs[-1] = range(runs[-1].start, max(end, runs[-1].stop))
            else:
                runs.append(range(first, end))
    return runs


def as_lines(axis: Axis, dropped: int | None, width: int) -> Iterator[str]:
    """Draw an axis as text of at most so many columns.

    >>> for line in as_lines(Axis.of(5, 2, stride=2, pad_begin=1), 3, 80):
    ...     print(line)
                 0         5
    X          · 0 1 2 3 4
    window 0   □ ■
    window 1       ■ ■
    window 2           ■ ■
    dropped 3              × ×
    """  # noqa: RUF002
    margin = 2 + max(len(row_name(window, dropped)) for window in (max(axis.output - 1, 0), dropped or 0))
    picture = Picture.of(axis, dropped, (width - margin + 1) // 2)
    above = ""
    for number, label in ruler(picture.columns, (width - margin) // 2):
        above = above.ljust(margin + 2 * number) + label
    yield above
    yield _line("X", picture.inputs, margin)
    for row in picture.rows:
        if isinstance(row, range):
            yield f"... {hidden_windows(row)}"
        else:
            yield _line(row_name(row, dropped), picture.marks(row), margin)
    if picture.unseen.strip():
        yield _line("unseen", picture.unseen, margin)


def row_name(window: int, dropped: int | None) -> str:
    """What stands before the row of a window."""
    return f"{'dropped' if window == dropped else 'window'} {window}"


def hidden_windows(row: range) -> str:
    """What stands in place of windows that are not drawn."""
    count = row.stop - row.start
    return f"{count} more window{'s' * (count > 1)}"


def _line(label: str, marks: str, margin: int) -> str:
    return f"{label.ljust(margin)}{' '.join(marks)}".rstrip()


def ruler(columns: Sequence[int | None], most: int) -> Iterator[tuple[int, str]]:
    """Columns whose positions are to stand above them: every fifth, and one at least of a short run, where room is.

    There are ``most`` columns of room; a column takes two characters.
    """
    end = -1
    for number, position in enumerate(columns):
        if position is None:
            continue
        label = str(position)
        starts_run = number == 0 or columns[number - 1] is None
        ahead = [p for p in columns[number : number + 5] if p is not None]
        has_fifth = len(ahead) == 5 and 2 * (number + -position % 5) + len(label) <= 2 * most
        if (position % 5 == 0 or (starts_run and not has_fifth)) and end < 2 * number <= 2 * most - len(label):
            yield number, label
            end = 2 * number + len(label)


def legend(lines: Iterable[str], width: int) -> list[str]:
    """What the marks in a drawing mean, those that it has."""
    text = "\n".join(lines)
    entries = [f"{mark} {meaning}" for mark, meaning in LEGEND.items() if mark in text]
    rows: list[str] = []
    for entry in entries:
        if rows and len(rows[-1]) + 3 + len(entry) <= width:
            rows[-1] += f"   {entry}"
        else:
            rows.append(entry)
    return rows


def shown(lines: Iterable[str]) -> str:
    """Drawings for the terminal: in colours where it has some, in ASCII where it has nothing else."""
    text = coloured("\n".join(lines), _STYLES)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return text.translate(_IN_ASCII)
    return text
