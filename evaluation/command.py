"""Runs the `teraio` command of the build."""

import os
import subprocess

from evaluation import cases

TERAIO = cases.ROOT / "build" / "bin" / "teraio"


class CommandFailed(Exception):
    """Raised when `teraio` ends with an error; the message is the last line that it printed."""


def teraio(*arguments, **environment):
    """Runs `teraio` with the arguments, and with `environment` added to that of this process.

    Returns what it prints. Raises CommandFailed when its exit code is not 0.
    """
    words = [str(word) for word in (TERAIO, *arguments)]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | environment)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise CommandFailed(lines[-1].partition(": ")[2] or lines[-1])
    return done.stdout
