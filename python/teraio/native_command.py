"""Where the C++ command is: in the installed package, or in the build beside it."""

from pathlib import Path

from teraio.errors import Error


def command_path():
    """Raises teraio.Error when it is at neither place."""
    package = Path(__file__).absolute().parent
    installed, built = package / "bin" / "teraio", package.parent.parent / "bin" / "teraio"
    for command in (installed, built):
        if command.is_file():
            return command
    raise Error(f"the command is neither at {installed} nor at {built}")
