"""Text tables, plain ones for what prints itself, and progress; better ones where rich is installed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import importlib.util
import re
import sys
from typing import Any, TypeVar

__all__ = ["best_table", "coloured", "table", "track"]

T = TypeVar("T")

_PIPED_WIDTH = 140
_NUMBER = re.compile(r"-?[\d.]+(e[-+]?\d+)?|-|")


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Lay out rows under a header, columns two spaces apart, numbers to the right.

    >>> print(table(["axis", "output size"], [["D1", 112], ["D2", 56]]))
    axis  output size
    D1            112
    D2             56
    """
    body = [[str(cell) for cell in row] for row in rows]
    columns = list(zip(header, *body, strict=True))
    widths = [max(map(len, column)) for column in columns]
    numeric = [all(cell.lstrip("-").isdigit() for cell in column[1:]) for column in columns]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in [list(header), *body]
    )


def best_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table as text: by rich where it is installed, else plain; a last column "where" of one value goes above it."""
    if header[-1] == "where" and len({row[-1] for row in rows}) == 1:
        return f"in {rows[0][-1]}:\n{best_table(header[:-1], [row[:-1] for row in rows])}"
    if importlib.util.find_spec("rich") is None:
        return table(header, rows)
    from rich.console import Console  # noqa: PLC0415 (an extra)

    console = Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH)
    drawn = _rich_table(header, rows, is_narrow=False)
    if console.measure(drawn, options=console.options.update(max_width=10_000)).maximum > console.width:
        drawn = _rich_table(header, rows, is_narrow=True)
    with console.capture() as capture:
        console.print(drawn)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def _rich_table(header: Sequence[str], rows: Sequence[Sequence[object]], *, is_narrow: bool) -> Any:
    """A rich table; a narrow one has one attribute a line, and lines between its rows."""
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    drawn = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), leading=int(is_narrow))
    for name, column in zip(header, zip(*rows, strict=True), strict=True):
        is_number = all(map(_NUMBER.fullmatch, map(str, column)))
        is_list = name == "attributes" and is_narrow
        drawn.add_column(name, overflow="fold", no_wrap=is_list, justify="right" if is_number else "left")
    for row in rows:
        cells = [
            str(c).replace(" ", "\n") if n == "attributes" and is_narrow else str(c)
            for n, c in zip(header, row, strict=True)
        ]
        drawn.add_row(*map(Text, cells))
    return drawn


def coloured(text: str, styles: Mapping[str, str]) -> str:
    """Text whose characters have these styles: where rich is installed, and the terminal has colours."""
    if importlib.util.find_spec("rich") is None:
        return text
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console()
    drawn = Text(text)
    for character, style in styles.items():
        drawn.highlight_regex(re.escape(character), style)
    with console.capture() as capture:
        console.print(drawn, soft_wrap=True, end="")
    return capture.get()


def track(items: Iterable[T], what: str) -> Iterator[T]:
    """Hand on the items, and show on stderr how far it is: a bar, if rich is installed."""
    if importlib.util.find_spec("rich") is not None:
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import track as bar  # noqa: PLC0415

        yield from bar(items, what, console=Console(stderr=True))
        return
    count = len(items) if isinstance(items, Sequence) else None
    for number, item in enumerate(items, start=1):
        if sys.stderr.isatty():
            print(f"\r{what} {number}" + (f" of {count}" if count else ""), end="", file=sys.stderr, flush=True)
        yield item
    if sys.stderr.isatty():
        print(file=sys.stderr)
