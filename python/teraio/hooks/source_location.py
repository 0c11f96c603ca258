"""The line of the script that is being executed, for messages."""

import functools
import sys
from pathlib import Path

import torch

from teraio.hooks.generated_lines import locations

_TORCH = str(Path(torch.__file__).parent) + "/"
_TERAIO = str(Path(__file__).parents[1]) + "/"
_STAND_IN = _TERAIO + "stand_in/"  # a program, though it comes with TERAIO
# The files of torch between a tensor's method and the operator that it calls.
_METHODS = tuple(
    _TORCH + name
    for name in (
        "_tensor.py",
        "_subclasses/",
        "utils/_python_dispatch.py",
        "_ops.py",
        "_compile.py",
        "_dynamo/eval_frame.py",
    )
)


def path_in_torch(name):
    """Returns the path of a file or folder of torch."""
    return _TORCH + name


def is_of_program(path):
    """Returns whether a file with Python code belongs to neither torch nor TERAIO."""
    return not _is_own(path) and not path.startswith(_TORCH)


def _is_own(path):
    return path.startswith(("<", _TERAIO)) and not path.startswith(_STAND_IN)


@functools.lru_cache(maxsize=1024)
def short_path(path):
    """Returns a path as people know it: relative to the current directory, or to a directory that
    Python imports from."""
    folders = [Path.cwd(), *(Path(entry) for entry in sys.path if entry)]
    inside = [Path(path).relative_to(each) for each in folders if Path(path).is_relative_to(each)]
    return str(min(inside, key=lambda each: len(each.parts), default=path))


class SourceLocation:
    """A line of a file, in a function. `is_in_torch` tells whether the file belongs to torch."""

    def __init__(self, path, line, function=""):
        self.path = path
        self.line = line
        self.function = function
        self.is_in_torch = path.startswith(_TORCH)

    def __str__(self):
        return f"{self.path.removeprefix(_TORCH)}:{self.line}"

    def __eq__(self, other):
        return (self.path, self.line) == (other.path, other.line)

    def __hash__(self):
        return hash((self.path, self.line))

    def is_at(self, path, line):
        """Returns whether this is line `line` of `path`, which may omit leading folders."""
        return self.line == line and (self.path == path or self.path.endswith("/" + path))


def calling_location():
    """Returns the `SourceLocation` that called the tensor's method, in the script or a library."""
    return _first_frame(lambda path: path.startswith(_METHODS))


def script_location():
    """Returns the innermost `SourceLocation` outside of torch."""
    return _first_frame(lambda path: path.startswith(_TORCH))


def described_script_location():
    """Returns script_location() as text, with the function: "train.py:31 in Net.forward".

    The path is relative to the current directory if the file is below it. The text is empty where
    no such line is executed.
    """
    location = script_location()
    if location.line == 0:
        return ""
    path = Path(location.path)
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return f"{path}:{location.line} in {location.function}"


def _first_frame(is_skipped):
    frame = sys._getframe(1)
    while frame is not None:
        for path, line, function in locations(frame):
            if not _is_own(path) and not is_skipped(path):
                return SourceLocation(path, line, function)
        frame = frame.f_back
    return SourceLocation("?", 0)
