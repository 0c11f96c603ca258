"""The command lines of the commands in Python."""

import argparse
import sys

from teraio import verbosity
from teraio.commands.program import Program
from teraio.errors import Error


class _BeVerbose(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):
        verbosity.be_verbose()


class CommandParser(argparse.ArgumentParser):
    """A parser of `teraio NAME ...` that reports bad input in one line.

    With -v, which every command has, details follow.
    """

    def __init__(self, name, **options):
        super().__init__(prog=f"teraio {name}", allow_abbrev=False, **options)
        self.add_argument(
            "-v",
            "--verbose",
            action=_BeVerbose,
            nargs=0,
            help="print the details of errors and warnings (also TERAIO_VERBOSE=1)",
        )

    def error(self, message):
        """Ends the process with exit code 2 and the message in one line on stderr."""
        self.exit(2, f"{self.prog}: {message}\n")

    def failure(self, error, code):
        """Prints the error in one line on stderr, and returns the exit code `code`.

        In a verbose process, its causes and circumstances follow.
        """
        print(f"{self.prog}: {error}", file=sys.stderr)
        if verbosity.is_verbose():
            verbosity.print_circumstances(error)
        return code


class Parser(CommandParser):
    """A parser of `teraio NAME [options] (SCRIPT | -m MODULE) [ARGUMENT ...]`.

    `required` is the text of the required options in the usage.
    """

    def __init__(self, name, description, epilog, required=""):
        super().__init__(
            name,
            usage=f"teraio {name} {required}[options] (SCRIPT | -m MODULE) [ARGUMENT ...]",
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def add_program(self):
        """Adds the words of the program's own command line, after all other options."""
        add = self.add_argument
        add("-m", dest="module", nargs=argparse.REMAINDER, help="run a module, as python -m does")
        add("script", nargs=argparse.REMAINDER, help="the training script and its arguments")


def program_words(options):
    """Returns the command line of the program as a list of strings.

    Raises:
        teraio.Error: it is empty.
    """
    words = options.module or options.script
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        raise Error("no script given: expected SCRIPT or -m MODULE after the options")
    return words


def program_of(options):
    """Returns the `Program` that the options name.

    Raises:
        teraio.Error: the options name no program, or one that does not exist.
    """
    return Program(program_words(options), is_module=bool(options.module))
