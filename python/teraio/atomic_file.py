"""Files that are written whole or not at all."""

import os
from pathlib import Path


def replace_file(path, data):
    """Writes the bytes `data` to `path`: who reads it, or interrupts this, leaves or finds the file
    as it was or as it is to be. A link stays one, and what is no file (a device, a pipe) is written
    to. Raises OSError."""
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
