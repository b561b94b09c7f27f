"""Explanations as text, tables, sentences and drawings, and as a document."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
import shutil
import textwrap
from typing import Any

from maxpool_ort.arithmetic import missing_window, notes_on, size_of
from maxpool_ort.explain import Explanation, plain_text
from maxpool_ort.geometry import COLUMNS, Axis
from maxpool_ort.picture import as_lines, legend, shown
from maxpool_ort.table import best_table

__all__ = ["Panel", "as_document", "as_text", "heading", "left_out", "panels"]

_MOST_AXES = 8
"""Different ones of a node, that are told and drawn."""
_LEAST_WIDTH = 40


@dataclass(frozen=True)
class Panel:
    """Axes of one node that are equal, or what ONNX Runtime's own MaxPool makes of them: what is told, and drawn."""

    title: str
    axis: Axis
    dropped: int | None
    lines: tuple[str, ...]


def panels(found: Explanation) -> list[Panel]:
    """What is told and drawn of a node's axes: of at most 8 different ones."""
    pairs = zip(found.axes, found.built_in_axes or found.axes, strict=True)
    alike: dict[tuple[Axis, Axis], list[str]] = {}
    for number, pair in enumerate(pairs, start=1):
        alike.setdefault(pair, []).append(f"D{number}")
    made = []
    for (axis, theirs), names in list(alike.items())[:_MOST_AXES]:
        title = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        lines = (*size_of(axis, found.attributes), *notes_on(axis))
        auto_pad = found.attributes.auto_pad
        made.append(Panel(_sized(title, axis.output), axis, missing_window(axis, auto_pad), lines))
        if theirs != axis and theirs.output >= 0:
            title = _sized(f"{title} in ONNX Runtime's own MaxPool", theirs.output)
            line = f"pads {theirs.pad_begin} and {theirs.pad_end}"
            made.append(Panel(title, theirs, missing_window(theirs, auto_pad), (line,)))
    return made


def left_out(found: Explanation) -> str:
    """What is said of the axes that have no panel; nothing, if all have one."""
    more = len(set(found.axes)) - _MOST_AXES
    return f"... {more} more {'axis that differs' if more == 1 else 'axes that differ'} from these" if more > 0 else ""


def _sized(title: str, output: int) -> str:
    """A title with the number of outputs."""
    return f"{title}: {output} output{'s' * (output != 1)}" if output >= 0 else f"{title}: X is too small"


def heading(found: Explanation) -> list[str]:
    """Which node it is, and its shapes."""
    y = f"Y {plain_text(found.y)}" if found.fits else "no Y: X is too small"
    return [found.node, str(found.attributes), f"X {found.element_type} {plain_text(found.x)} -> {y}"]


def as_text(explanations: Sequence[Explanation]) -> str:
    """Explanations for the terminal: tables, sentences and drawings, as wide as it is."""
    width = max(shutil.get_terminal_size((80, 24)).columns, _LEAST_WIDTH)
    return "\n\n\n".join("\n\n".join(_parts(found, width)) for found in explanations)


def _parts(found: Explanation, width: int) -> Iterator[str]:
    """The paragraphs of an explanation."""
    yield "\n".join(textwrap.fill(line, width) for line in heading(found))
    yield best_table(COLUMNS, [(f"D{number}", *axis.row()) for number, axis in enumerate(found.axes, start=1)])
    drawn: list[str] = []
    for panel in panels(found):
        lines = list(as_lines(panel.axis, panel.dropped, width - 2))
        drawn += lines
        yield _paragraph(panel.title, panel.lines, width)
        yield shown(f"  {line}".rstrip() for line in lines)
    if left_out(found):
        yield left_out(found)
    yield shown(legend(drawn, width))
    yield _paragraph("ONNX Runtime's own MaxPool:", found.differs or ("gives the same",), width)
    if found.wrong_shapes:
        yield _paragraph("Shapes that no run has:", found.wrong_shapes, width)


def _paragraph(title: str, lines: Iterable[str], width: int) -> str:
    """Sentences under a title."""
    told = (textwrap.fill(line, width, initial_indent="  ", subsequent_indent="    ") for line in lines)
    return "\n".join([textwrap.fill(title, width), *told])


def as_document(found: Explanation) -> dict[str, Any]:
    """What can be kept as JSON."""
    auto_pad = found.attributes.auto_pad
    return {
        "node": found.node,
        "attributes": found.attributes.as_text(),
        "element_type": found.element_type,
        "x": found.x,
        "y": found.y if found.fits else None,
        "axes": [
            asdict(axis)
            | {
                "extent": axis.extent,
                "dropped": missing_window(axis, auto_pad),
                "size": list(size_of(axis, found.attributes)),
                "notes": list(notes_on(axis)),
            }
            for axis in found.axes
        ],
        "built_in_axes": [asdict(axis) for axis in found.built_in_axes],
        "differs": found.differs,
        "wrong_shapes": found.wrong_shapes,
    }
