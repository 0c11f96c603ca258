"""`python -m teraio`, and the `teraio` script of an installed package.

`run` is the launcher, in this process. Every other subcommand is the C++ command's, and this
process becomes it.
"""

import os
import sys
from pathlib import Path


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["run"]:
        from teraio.launcher import run

        return run(arguments[1:])
    return _become_command(arguments)


def _become_command(arguments):
    package = Path(__file__).absolute().parent
    installed, built = package / "bin" / "teraio", package.parent.parent / "bin" / "teraio"
    for command in (installed, built):
        if command.is_file():
            os.execv(command, [str(command), *arguments])
    print(f"teraio: the command is neither at {installed} nor at {built}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
