"""Runs Python code in a process of its own, for what could end the process."""

import os
from pathlib import Path
import signal
import subprocess
import sys
import textwrap
import time


def run_python(code: str, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run code; what it exits with, and what it printed, is the caller's to judge."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)  # noqa: S603


def be_killed(_: object) -> None:
    """End the process that this is called in, as a system that has no more memory does."""
    os.kill(os.getpid(), signal.SIGKILL)


def interrupt_who_waits(mark: Path, _: object) -> None:
    """Interrupt the parent process, then go on; leave a mark if this process lives to its end."""
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(5)
    mark.touch()


def printed(code: str, *arguments: str, timeout: float = 120) -> str:
    """What code prints; it must exit with 0."""
    result = run_python(code, *arguments, timeout=timeout)
    assert result.returncode == 0, f"exit {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result.stdout.strip()
