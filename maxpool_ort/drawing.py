"""The pictures of explanations, drawn by matplotlib."""

from collections.abc import Sequence

from maxpool_ort.explain import Explanation


def draw_panels(path: str, explanations: Sequence[Explanation]) -> None:
    """Draw."""
