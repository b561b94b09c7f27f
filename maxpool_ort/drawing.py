"""The pictures of explanations as SVG, PNG or PDF, by matplotlib."""

from collections.abc import Iterable, Sequence
import textwrap
from typing import Any

from maxpool_ort.errors import MaxPoolError
from maxpool_ort.explain import Explanation
from maxpool_ort.picture import (
    BETWEEN,
    DROPPED,
    HIDDEN,
    LEGEND,
    PAD,
    PAD_TAP,
    TAP,
    UNSEEN,
    Picture,
    hidden_windows,
    row_name,
    ruler,
)
from maxpool_ort.report import check_plot
from maxpool_ort.telling import Panel, heading, left_out, panels

__all__ = ["Sheet", "draw_explanations"]

_INCHES = 0.27
"""Width of a column, height of a row; all that is drawn is measured in these."""
_COLUMNS = 36
_MARGIN = 7
"""Columns for the names of the rows."""
_WIDTH = _MARGIN + _COLUMNS + 1
_CHARACTERS = 120
"""Of small text, in such a width."""
_MOST_PANELS = 40
_LONGEST_IN_CELL = 4
_LONGEST_NAME = 20
# Okabe and Ito's colours, which the colour-blind can tell apart; shapes and hatches differ too.
_BLUE, _ORANGE, _RED, _PURPLE, _GREY = "#0072B2", "#E69F00", "#D55E00", "#8E44AD", "#666666"
_STYLES: dict[str, dict[str, Any]] = {
    TAP: {"facecolor": _BLUE, "edgecolor": "white"},
    PAD_TAP: {"facecolor": "white", "edgecolor": _ORANGE, "hatch": "////"},
    DROPPED: {"facecolor": "#FBE5DA", "edgecolor": _RED, "linestyle": (0, (2, 1))},
    PAD: {"facecolor": "white", "edgecolor": "#AAAAAA", "linestyle": (0, (1, 1))},
    "": {"facecolor": "#E6EDF3", "edgecolor": "white"},
}
"""Of the squares; the last one is an input."""
_SIGNS = {DROPPED: (DROPPED, _RED), UNSEEN: ("▲", _PURPLE), HIDDEN: (HIDDEN, _GREY)}


def draw_explanations(path: str, explanations: Sequence[Explanation]) -> None:
    """Draw which inputs each output sees, the axes of all nodes below each other.

    Raises
    ------
    MaxPoolError
        As ``check_plot``, or if there is too much to draw.
    OSError
        If the file cannot be written.
    """
    check_plot(path)
    count = sum(len(panels(found)) for found in explanations)
    if count > _MOST_PANELS:
        raise MaxPoolError(f"--plot draws at most {_MOST_PANELS} axes, got {count}; name nodes with --node")
    Sheet(explanations).figure.savefig(path, dpi=150)


class Sheet:
    """A matplotlib figure of explanations, drawn from the top down; ``y`` is where the next thing comes."""

    def __init__(self, explanations: Sequence[Explanation]) -> None:
        from matplotlib.figure import Figure  # noqa: PLC0415 (an extra)

        self.figure = Figure()
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.y = 0.6
        self.marks: set[str] = set()
        for found in explanations:
            self.write(heading(found))
            for panel in panels(found):
                self.draw(panel)
            self.y += 0.8
            self.write([left_out(found)])
        self.legend()
        self.figure.set_size_inches(_WIDTH * _INCHES, self.y * _INCHES)
        self.axes.set(xlim=(-_MARGIN, _COLUMNS + 1), ylim=(self.y, 0))
        self.axes.set_axis_off()

    def text(self, x: float, y: float, text: str, **style: Any) -> None:
        """Put text somewhere; names of nodes may hold dollar signs."""
        defaults: dict[str, Any] = {"va": "center", "fontsize": 8, "color": "black"}
        self.axes.text(x, y, text, parse_math=False, **defaults | style)

    def square(self, x: float, y: float, style: str) -> None:
        """Put a square into a cell."""
        from matplotlib.patches import Rectangle  # noqa: PLC0415

        self.axes.add_patch(Rectangle((x + 0.06, y + 0.06), 0.88, 0.88, linewidth=0.9, **_STYLES[style]))

    def mark(self, x: float, y: float, mark: str) -> None:
        """Put what a window has in a column into its cell."""
        if mark in _STYLES:
            self.square(x, y, mark)
        if mark in _SIGNS:
            sign, color = _SIGNS[mark]
            self.text(x + 0.5, y + 0.5, sign, ha="center", color=color, weight="bold")
        if mark == BETWEEN:
            self.axes.plot([x, x + 1], [y + 0.5, y + 0.5], color=_GREY, linewidth=1.2)
        self.marks.add(mark)

    def write(self, lines: Iterable[str]) -> None:
        """Write lines, the first one in bold; long ones are wrapped."""
        for number, line in enumerate(lines):
            for part in textwrap.wrap(line, _CHARACTERS, subsequent_indent="    "):
                self.text(0.5 - _MARGIN, self.y + 0.4, part, weight="normal" if number else "bold", fontsize=10)
                self.y += 0.8

    def draw(self, panel: Panel) -> None:
        """Draw one axis: what is told of it, its positions, its windows."""
        picture = Picture.of(panel.axis, panel.dropped, _COLUMNS)
        self.y += 0.5
        self.write([panel.title, *panel.lines])
        self.positions(picture)
        for row in picture.rows:
            if isinstance(row, range):
                self.text(0, self.y + 0.45, f"... {hidden_windows(row)}", color=_GREY, style="italic")
            else:
                self.row(row_name(row, picture.dropped), picture.marks(row))
            self.y += 1
        if picture.unseen.strip():
            self.row("unseen", picture.unseen)
            self.y += 1

    def positions(self, picture: Picture) -> None:
        """Draw the row of X, positions in its cells or, if they are long, some of them above."""
        names = ["" if position is None else str(position) for position in picture.columns]
        is_long = max(map(len, names), default=0) > _LONGEST_IN_CELL
        self.y += 0.9 if is_long else 0.3
        self.text(-0.4, self.y + 0.5, "X", ha="right", weight="bold")
        for x, (name, mark) in enumerate(zip(names, picture.inputs, strict=True)):
            self.mark(x, self.y, "" if mark.isdigit() else mark)
            if not is_long:
                color = "black" if mark.isdigit() else _GREY
                self.text(x + 0.5, self.y + 0.5, name, ha="center", fontsize=6.5, color=color)
        if is_long:
            for x, name in ruler(picture.columns, _COLUMNS):
                self.text(x + 0.1, self.y - 0.3, name, fontsize=6.5)
        self.y += 1.2

    def row(self, name: str, marks: str) -> None:
        """Draw a row of cells."""
        color, size = _RED if name.startswith("dropped") else "black", 8 if len(name) <= _LONGEST_NAME else 7
        self.text(-0.4, self.y + 0.5, name, ha="right", color=color, fontsize=size)
        for x, mark in enumerate(marks):
            if mark != " ":
                self.mark(x, self.y, mark)

    def legend(self) -> None:
        """Say what the marks mean, those that are drawn."""
        self.y += 0.3
        x = 0.5 - _MARGIN
        for mark, meaning in {"": "input", **LEGEND}.items():
            if mark in self.marks:
                if x + 2 + 0.35 * len(meaning) > _COLUMNS:
                    x, self.y = 0.5 - _MARGIN, self.y + 1.3
                self.mark(x, self.y, mark)
                self.text(x + 1.3, self.y + 0.5, meaning)
                x += 2.5 + 0.35 * len(meaning)
        self.y += 1.5
