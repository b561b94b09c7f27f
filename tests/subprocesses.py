"""Runs Python code in a process of its own, for what could end the process."""

import subprocess
import sys
import textwrap


def run_python(code: str, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run code; what it exits with, and what it printed, is the caller's to judge."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)  # noqa: S603


def printed(code: str, *arguments: str, timeout: float = 120) -> str:
    """What code prints; it must exit with 0."""
    result = run_python(code, *arguments, timeout=timeout)
    assert result.returncode == 0, f"exit {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result.stdout.strip()
