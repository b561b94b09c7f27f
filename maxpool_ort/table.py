"""Plain text tables, for what prints itself."""

from collections.abc import Iterable, Sequence

__all__ = ["table"]


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
