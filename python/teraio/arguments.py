"""What the commands that run a script have in common on their command lines."""

import argparse
import tempfile

from teraio.errors import Error
from teraio.program import Program


class Parser(argparse.ArgumentParser):
    """Refuses bad input in one line."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")


def add_program(parser):
    """`SCRIPT ARGUMENTS...` or `-m MODULE ARGUMENTS...`, at the end of the line."""
    add = parser.add_argument
    add("-m", dest="module", nargs=argparse.REMAINDER, help="run a module, as python -m does")
    add("script", nargs=argparse.REMAINDER, help="the training script and its arguments")


def program_words(options):
    """The words that add_program's arguments have got. Raises teraio.Error when there are none."""
    words = options.module or options.script
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        raise Error("no script given: expected SCRIPT or -m MODULE after the options")
    return words


def program_of(options):
    """The program that they name. Raises teraio.Error when there is none."""
    return Program(program_words(options), is_module=bool(options.module))


def check_output(option, path):
    """Raises teraio.Error when no file can be written at `path`."""
    if path.is_dir():
        raise Error(f"{option}: {path} is a directory, expected a file")
    if not path.parent.is_dir():
        raise Error(f"{option}: the directory {path.parent} does not exist")
    try:
        if path.exists():
            path.open("ab").close()
        if path.is_file() or not path.exists():  # it is replaced as a whole
            tempfile.TemporaryFile(dir=path.resolve().parent).close()
    except OSError as error:
        raise Error(f"{option}: {path} cannot be written: {error.strerror}") from None
