"""Runs the `teraio` command of the build."""

import os
import subprocess

from evaluation import cases

TERAIO = cases.ROOT / "build" / "bin" / "teraio"


class Refused(Exception):
    """`teraio` said that something is not possible; the message is what it said."""


def teraio(*arguments, **environment):
    """What it prints. Raises Refused when it fails."""
    words = [str(word) for word in (TERAIO, *arguments)]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | environment)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no message"]
        raise Refused(said[-1].partition(": ")[2] or said[-1])
    return done.stdout
