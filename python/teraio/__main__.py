"""The entry point of `python -m teraio` and of the `teraio` script of an installed package.

The subcommands `run`, `suggest`, `dry-run`, `report`, `merge-timelines` and `top` execute in this
process. For every other subcommand the process replaces itself with the C++ command.
"""

import os
import sys

from teraio.errors import Error
from teraio.native_command import command_path


def main():
    """Executes the command line and returns the exit code.

    It does not return for a subcommand of the C++ command.
    """
    arguments = sys.argv[1:]
    if arguments[:1] == ["run"]:
        from teraio.launcher import run

        return run(arguments[1:])
    if arguments[:1] == ["suggest"]:
        from teraio.suggest.command import suggest

        return suggest(arguments[1:])
    if arguments[:1] == ["dry-run"]:
        from teraio.dry_run.command import dry_run

        return dry_run(arguments[1:])
    if arguments[:1] == ["report"]:
        from teraio.report.command import report

        return report(arguments[1:])
    if arguments[:1] == ["merge-timelines"]:
        from teraio.timelines import merge_command

        return merge_command(arguments[1:])
    if arguments[:1] == ["top"]:
        from teraio.top import top

        return top(arguments[1:])
    return _execute_native_command(arguments)


def _execute_native_command(arguments):
    try:
        command = command_path()
    except Error as error:
        print(f"teraio: {error}", file=sys.stderr)
        return 1
    os.execv(command, [str(command), *arguments])


if __name__ == "__main__":
    sys.exit(main())
