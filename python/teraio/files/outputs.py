"""Checks of the files that will be written, before the work whose results they are to have."""

import tempfile
from pathlib import Path

from teraio.errors import Error


def check_outputs(outputs, inputs=()):
    """Checks that files can be written, and that none replaces an input or another output.

    Args:
        outputs: a dict from how the user knows a file to its path. None is no file.
        inputs: the paths of files that are read. None is no file.

    Raises:
        teraio.Error: one of the outputs cannot be written, or is given twice.
    """
    outputs = {name: Path(path) for name, path in outputs.items() if path is not None}
    inputs = [Path(path) for path in inputs if path is not None]
    places = [path.resolve() for path in (*outputs.values(), *inputs)]
    for name, path in outputs.items():
        _check_writable(name, path)
        if places.count(path.resolve()) > 1:
            raise Error(
                f"{name}: {path} is given twice: expected a file that is neither an input nor "
                "another output"
            )


def _check_writable(name, path):
    if path.is_dir():
        raise Error(f"{name}: {path} is a directory, expected a file")
    if not path.parent.is_dir():
        raise Error(f"{name}: the directory {path.parent} does not exist: create it first")
    try:
        if path.exists():
            path.open("ab").close()
        if path.is_file() or not path.exists():  # replace_file() writes a file beside it first
            tempfile.TemporaryFile(dir=path.resolve().parent).close()
    except OSError as error:
        raise Error(f"{name}: {path} cannot be written: {error.strerror}") from None
