"""The entry point of `python -m teraio` and of the `teraio` script of an installed package.

The subcommands that are written in Python execute in this process. For every other subcommand the
process replaces itself with the C++ command.
"""

import os
import sys

from teraio import verbosity
from teraio.commands import COMMANDS
from teraio.errors import Error
from teraio.files.native_command import command_path


def main():
    """Executes the command line and returns the exit code.

    It does not return for a subcommand of the C++ command.
    """
    verbosity.follow_environment()
    arguments = sys.argv[1:]
    while len(arguments) > 1 and arguments[0] in ("-v", "--verbose"):
        verbosity.be_verbose()
        del arguments[0]
    name = arguments[0] if arguments else ""
    if name not in COMMANDS:
        return _execute_native_command(arguments)
    return COMMANDS[name].execute(arguments[1:])


def _execute_native_command(arguments):
    try:
        command = command_path()
    except Error as error:
        print(f"teraio: {error}", file=sys.stderr)
        return 1
    os.environ.setdefault("TERAIO_PYTHON", sys.executable)
    os.execv(command, [str(command), *arguments])


if __name__ == "__main__":
    sys.exit(main())
