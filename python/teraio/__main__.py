"""`python -m teraio`, and the `teraio` script of an installed package.

`run` and `dry-run` are in this process. Every other subcommand is the C++ command's, and this
process becomes it.
"""

import os
import sys

from teraio.errors import Error
from teraio.native_command import command_path


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["run"]:
        from teraio.launcher import run

        return run(arguments[1:])
    if arguments[:1] == ["dry-run"]:
        from teraio.dry_run.command import dry_run

        return dry_run(arguments[1:])
    return _become_command(arguments)


def _become_command(arguments):
    try:
        command = command_path()
    except Error as error:
        print(f"teraio: {error}", file=sys.stderr)
        return 1
    os.execv(command, [str(command), *arguments])


if __name__ == "__main__":
    sys.exit(main())
