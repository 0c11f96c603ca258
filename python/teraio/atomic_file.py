"""Atomic replacement of files: a reader sees either the old content or the new content."""

import contextlib
import os
import secrets
from pathlib import Path

_ATTEMPTS = 100


def replace_file(path, data, lasts=True):
    """Replaces the content of the file `path` with the bytes `data`.

    An interruption or a failure leaves the file as it was. The mode of an existing file is kept;
    the umask decides that of a new one. If the path is a symbolic link, the file that it points to
    is replaced. A path that is not a regular file, such as a device or a pipe, is written to
    directly.

    Args:
        path: a path.
        data: bytes.
        lasts: whether the drive has the bytes and the name when this function returns, so that
            they outlast a power failure.

    Raises:
        OSError: the file cannot be written.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    path = path.resolve()
    descriptor, temporary = _create_beside(path)
    try:
        with open(descriptor, "wb") as file:
            _keep_mode(descriptor, path)
            file.write(data)
            file.flush()
            if lasts:
                os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if lasts:
        _sync_directory(path.parent)


def _create_beside(path):
    """Returns a descriptor and the name of a new file, which nobody can predict or plant."""
    flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY | os.O_CLOEXEC
    for attempt in range(_ATTEMPTS):
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            return os.open(temporary, flags, 0o666), temporary
        except FileExistsError:
            if attempt == _ATTEMPTS - 1:
                raise


def _keep_mode(descriptor, path):
    """Gives the file the mode and, where allowed, the owner of the file that it will replace."""
    try:
        old = os.stat(path)
    except FileNotFoundError:
        return
    with contextlib.suppress(OSError):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    with contextlib.suppress(OSError):
        os.fchmod(descriptor, old.st_mode & 0o777)


def _sync_directory(path):
    """Makes the new name last. File systems that cannot do that refuse it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
