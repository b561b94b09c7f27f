"""What each command of maxpool-ort does, and how it says it."""

from maxpool_ort.commands.findings import bench, conformance, explain
from maxpool_ort.commands.models import compare, convert, inspect, restore, run
from maxpool_ort.commands.outcome import Outcome

__all__ = ["Outcome", "bench", "compare", "conformance", "convert", "explain", "inspect", "restore", "run"]
