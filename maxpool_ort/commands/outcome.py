"""What a command finds."""

from typing import NamedTuple

__all__ = ["Outcome"]


class Outcome(NamedTuple):
    """What a command found, as JSON would have it and as text, and its exit code."""

    result: object
    text: str
    exit_code: int = 0
