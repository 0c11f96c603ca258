"""The path of the C++ command, in the installed package or in the build directory beside it."""

from pathlib import Path

from teraio.errors import Error


def command_path():
    """Returns the path of the C++ command.

    Raises:
        teraio.Error: the command is in neither place.
    """
    package = Path(__file__).absolute().parents[1]
    installed, built = package / "bin" / "teraio", package.parent.parent / "bin" / "teraio"
    for command in (installed, built):
        if command.is_file():
            return command
    raise Error(
        f"the `teraio` command is neither at {installed} nor at {built}: install the package "
        "again, or run `make build`"
    )
