"""Atomic replacement of files: a reader sees either the old content or the new content."""

import os
from pathlib import Path


def replace_file(path, data):
    """Replaces the content of the file `path` with the bytes `data`.

    An interruption or a failure leaves the file as it was. If the path is a symbolic link, the file
    that it points to is replaced. A path that is not a regular file, such as a device or a pipe, is
    written to directly.

    Raises:
        OSError: the file cannot be written.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
