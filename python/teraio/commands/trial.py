"""The trial of a program that `teraio run` cannot run: which device budget it needs.

It is `teraio suggest --least-budget` with the same program, in a process of its own.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

from teraio.commands.arguments import program_words
from teraio.units import format_size

_COMMAND = "teraio suggest --least-budget"  # messages name it where no least budget is known
_TIME_LIMIT_S = 60
_END_LIMIT_S = 5


class Trial:
    """A trial, which is prepared before the program runs and may change its surroundings.

    Args:
        options: the options of `teraio run`, which name a program.
    """

    def __init__(self, options):
        words = program_words(options)
        self._script = words[0]
        # The rates of the accelerator do not matter. A GPU is not looked at: the run has it.
        self._command = [sys.executable, "-m", *_COMMAND.split(), "--json"]
        self._command += ["--accelerator", "h100-nvl"]
        self._command += ["--device", "cpu"] if options.device == "cpu" else []
        self._command += ["-m", *words] if options.module else words
        self._directory = os.getcwd()
        self._environment = dict(os.environ)

    def tell_after_traceback(self, error, budget_bytes):
        """Prints what a trial finds when the exception that ends this process has been printed.

        Args:
            error: the exception. A trial is made if it says that the budget is too small, and does
                not know which one suffices.
            budget_bytes: the device budget of this process.
        """
        if _COMMAND not in str(error):
            return
        refused = re.search(r"at least (\d+) bytes", str(error))
        too_little_bytes = int(refused[1]) - 1 if refused else budget_bytes
        hook = sys.excepthook

        def tell(*exception):
            hook(*exception)
            with contextlib.suppress(KeyboardInterrupt):
                print(f"teraio run: {self.sentence(too_little_bytes)}", file=sys.stderr, flush=True)

        sys.excepthook = tell

    def sentence(self, too_little_bytes=0):
        """Makes the trial and returns a sentence about the least budget.

        Args:
            too_little_bytes: a device budget that does not suffice.
        """
        try:
            found, why = self._made()
        except OSError as error:  # there may be no memory for another process
            found, why = None, str(error)
        if why:
            return f"a dry run does not tell the least device budget: {why}"
        least_bytes = found["least_device_budget_bytes"]
        if least_bytes <= too_little_bytes:
            return (
                f"a dry run of the first steps of {self._script} needs {format_size(least_bytes)}: "
                "the least device budget is not known, because later steps need more, or a kernel "
                "that a dry run does not measure"
            )
        guessed = (
            ", with the largest sizes that data can decide" if found["has_guessed_size"] else ""
        )
        return (
            f"the least device budget for the first steps of {self._script} is "
            f"{format_size(least_bytes)}, by a dry run{guessed}: give --device-budget "
            f"{least_bytes}, or more, which is faster"
        )

    def _made(self):
        """Returns what the command prints and "", or None and the reason why it does not."""
        processes = self._environment.get("WORLD_SIZE", "1")
        if processes != "1":
            return (
                None,
                f"`{_COMMAND} --world-size {processes} {self._script}` finds that of a rank",
            )
        told = f"a dry run of {self._script} finds the least device budget, in {_TIME_LIMIT_S} s"
        print(f"teraio run: {told} at most", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="teraio-trial-") as scratch:
            process = subprocess.Popen(
                self._command,
                cwd=self._directory,
                env=self._environment | _surroundings(scratch),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
            return _outcome(process)


def _surroundings(scratch):
    """Returns variables that keep a program from leaving anything behind."""
    return {
        "TMPDIR": scratch,
        "PYTHONDONTWRITEBYTECODE": "1",
        "WANDB_MODE": "disabled",
        "TERAIO_VERBOSE": "0",
    }


def _outcome(process):
    try:
        out, told = process.communicate(timeout=_TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        return None, f"it took more than {_TIME_LIMIT_S} s"
    finally:
        _end(process)
    if process.returncode:
        lines = told.strip().splitlines() or [f"it ended with exit code {process.returncode}"]
        return None, lines[-1].removeprefix("teraio suggest: ")
    return json.loads(out), ""


def _end(process):
    """Ends a process that still runs, so that it removes what it has made."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=_END_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
