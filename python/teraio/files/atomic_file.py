"""Atomic replacement of files: a reader sees either the old content or the new content."""

import contextlib
import os
import secrets
import stat
from pathlib import Path

_ATTEMPTS = 100


def replace_file(path, data, lasts=True, mode=0o666):
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
        mode: that of a new file, before the umask.

    Raises:
        OSError: the file cannot be written.
    """
    path = os.fspath(path)
    old = _status_of(path)
    if old is not None and not stat.S_ISREG(old.st_mode):
        Path(path).write_bytes(data)
        return
    if os.path.islink(path):
        path = os.path.realpath(path)
    descriptor, temporary = _create_beside(path, mode)
    try:
        with open(descriptor, "wb", buffering=0) as file:
            if old is not None:
                _keep_mode(descriptor, old)
            _write_all(file, data)
            if lasts:
                os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if lasts:
        _sync_directory(os.path.dirname(path) or ".")


def replace_text(path, text):
    """Replaces the content of a file by text, compressed if its name ends in .gz.

    Raises:
        OSError: the file cannot be written.
    """
    data = text.encode()
    if Path(path).suffix == ".gz":
        import gzip

        data = gzip.compress(data, mtime=0)
    replace_file(path, data)


def _status_of(path):
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _write_all(file, data):
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _create_beside(path, mode):
    """Returns a descriptor and the name of a new file, which nobody can predict or plant."""
    flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY | os.O_CLOEXEC
    for attempt in range(_ATTEMPTS):
        directory, name = os.path.split(path)
        temporary = os.path.join(directory, f".{name}.{secrets.token_hex(8)}")
        try:
            return os.open(temporary, flags, mode), temporary
        except FileExistsError:
            if attempt == _ATTEMPTS - 1:
                raise


def _keep_mode(descriptor, old):
    """Gives the file the mode and, where allowed, the owner of the file that it will replace."""
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(OSError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    if new.st_mode != old.st_mode:
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
