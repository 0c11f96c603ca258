"""The directories that hold offloaded tensors: which one by default, and whether it can be used."""

import os
import tempfile
from pathlib import Path

from teraio.errors import Error

_RAM_FILE_SYSTEMS = {"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"}


def ssd_directories(directories=None):
    """The directories as absolute paths, each checked; with None or [] the default one.

    The default is `$XDG_CACHE_HOME/teraio/ssd`, or `~/.cache/teraio/ssd`; it is created when
    missing, readable by its owner only. Raises teraio.Error for a directory that is missing, not
    writable, given twice, or on a file system that is memory itself.
    """
    if isinstance(directories, (str, os.PathLike)):
        directories = [directories]
    if not directories:
        return [_default_directory()]
    checked = [_checked(Path(directory)) for directory in directories]
    if len(set(checked)) < len(checked):
        raise Error("an SSD directory is given twice: " + ", ".join(map(str, checked)))
    return checked


def directories_of_ranks(directories, ranks):
    """By rank the directories of each, with the rank's number in their names; this rank's checked.

    Raises teraio.Error as ssd_directories does, and for another rank's directory that is missing.
    """
    if isinstance(directories, (str, os.PathLike)):
        directories = [directories]
    by_rank = [[rank.named(directory) for directory in directories or []] for rank in ranks.all()]
    own = ssd_directories(by_rank[ranks.local_rank])
    for rank, others in enumerate(by_rank):
        by_rank[rank] = own if rank == ranks.local_rank else _of_other_rank(rank, others) or own
    return by_rank


def _of_other_rank(rank, directories):
    for directory in directories:
        if not Path(directory).is_dir():
            raise Error(f"SSD directory {directory} of local rank {rank} is not there")
    return [Path(directory).resolve() for directory in directories]


def _default_directory():
    directory = cache_directory() / "ssd"
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        return _checked(directory)
    except (OSError, Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Error(
            f"the default SSD directory {directory} cannot be used ({reason}): "
            "give one with --ssd DIR, or ssd=[...] in Python"
        ) from None


def cache_directory():
    """`$XDG_CACHE_HOME/teraio` or `~/.cache/teraio`, which is created when missing."""
    try:
        directory = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "teraio"
        directory.mkdir(parents=True, exist_ok=True)
        return directory
    except (OSError, RuntimeError) as error:  # the latter without a home
        raise Error(f"no cache directory ({error}): set XDG_CACHE_HOME to one") from None


def _checked(directory):
    if not directory.exists():
        raise Error(f"SSD directory {directory} does not exist")
    if not directory.is_dir():
        raise Error(f"SSD directory {directory} is not a directory")
    try:
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        raise Error(f"SSD directory {directory} is not writable: {error.strerror}") from None
    kind = file_system_type(directory)
    if kind in _RAM_FILE_SYSTEMS:
        raise Error(
            f"SSD directory {directory} is on {kind}, which is memory: choose one on a drive"
        )
    return directory.resolve()


def file_system_type(path):
    """The kernel's name for the file system that holds `path` ("ext4"), or "" when unknown."""
    device = os.stat(path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:
            mount, _, source = line.partition(" - ")
            if mount.split()[2] == number:
                return source.split()[0]
    return ""
