"""What the Python tests share: running commands, and a directory on a real drive."""

import subprocess
import sys

import pytest


class Outcome:
    def __init__(self, completed):
        self.code = completed.returncode
        self.out = completed.stdout
        self.err = completed.stderr

    def __eq__(self, other):
        return (self.code, self.out, self.err) == (other.code, other.out, other.err)

    def __repr__(self):
        return f"exit code {self.code}\n--- stdout\n{self.out}--- stderr\n{self.err}"


@pytest.fixture
def execute(tmp_path):
    """Runs a command line in an empty folder; gives its exit code, stdout and stderr."""

    def execute(*command, cwd=tmp_path, timeout_s=120, **options):
        command = [str(word) for word in command]
        return Outcome(
            subprocess.run(
                command, cwd=cwd, capture_output=True, text=True, timeout=timeout_s, **options
            )
        )

    return execute


@pytest.fixture
def python(execute):
    """Runs `python ARGUMENTS...` with the interpreter of the tests."""
    return lambda *arguments, **options: execute(sys.executable, *arguments, **options)


@pytest.fixture
def teraio_run(python):
    """Runs `python -m teraio run ARGUMENTS...`."""
    return lambda *arguments, **options: python("-m", "teraio", "run", *arguments, **options)
