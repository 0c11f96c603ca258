"""The directories for offloaded tensors: the default one, and checks of those that users name."""

import os
import tempfile
from pathlib import Path

from teraio.errors import Error

_RAM_FILE_SYSTEMS = {"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"}


def ssd_directories(directories=None):
    """Checks the directories, and returns them as a list of absolute `pathlib.Path`s.

    Args:
        directories: a path or a list of paths. None or []: the default directory, which is
            `$XDG_CACHE_HOME/teraio/ssd` or `~/.cache/teraio/ssd`. It is created if it is missing,
            and only its owner can read it.

    Raises:
        teraio.Error: a directory is missing, is not writable, is given twice, or is on a file
            system in memory.
    """
    if isinstance(directories, (str, os.PathLike)):
        directories = [directories]
    if not directories:
        return [_default_directory()]
    checked = [_checked(Path(directory)) for directory in directories]
    if len(set(checked)) < len(checked):
        listed = ", ".join(map(str, checked))
        raise Error(f"an SSD directory is given twice: {listed}. Expected one per drive")
    return checked


def directories_of_ranks(directories, ranks):
    """Returns a list with one list of directories per rank.

    The placeholder in a name is replaced by the rank's number. Only the directories of this rank
    are checked in full. Without `directories`, all ranks use the default directory.

    Args:
        directories: as for ssd_directories(); names may contain the placeholder.
        ranks: the `Ranks` of this process.

    Raises:
        teraio.Error: a directory of this rank cannot be used (see ssd_directories), or one of
            another rank is missing.
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
            raise Error(
                f"SSD directory {directory} of local rank {rank} does not exist: create it on a "
                "drive, or give that rank another"
            )
    return [Path(directory).resolve() for directory in directories]


def _default_directory():
    directory = cache_directory() / "ssd"
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        problem = _problem_of(directory)
    except OSError as error:
        problem = f"cannot be made: {error.strerror}"
    if problem:
        raise Error(
            f"the default SSD directory {directory} {problem}. Give one on a drive with --ssd DIR, "
            "or ssd=[...] in Python"
        )
    return directory.resolve()


def cache_directory():
    """Returns the path `$XDG_CACHE_HOME/teraio` or `~/.cache/teraio`, and creates the directory.

    Raises:
        teraio.Error: the directory cannot be created.
    """
    try:
        directory = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "teraio"
        directory.mkdir(parents=True, exist_ok=True)
        return directory
    except (OSError, RuntimeError) as error:  # RuntimeError without a home directory
        raise Error(f"no cache directory ({error}): set XDG_CACHE_HOME to one") from None


def _checked(directory):
    if not directory.exists():
        raise Error(f"SSD directory {directory} does not exist: create it on a drive")
    problem = _problem_of(directory)
    if problem:
        raise Error(f"SSD directory {directory} {problem}: choose one on a drive")
    return directory.resolve()


def _problem_of(path):
    """Returns what is wrong with a path that exists, as text, or None."""
    if not path.is_dir():
        return "is not a directory"
    try:
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        return f"is not writable ({error.strerror})"
    kind = file_system_type(path)
    return f"is on {kind}, which is memory" if kind in _RAM_FILE_SYSTEMS else None


def file_system_type(path):
    """Returns the kernel's name for the file system of `path`, such as "ext4", or "" if unknown.

    Raises:
        OSError: the path does not exist.
    """
    device = os.stat(path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:
            mount, _, source = line.partition(" - ")
            if mount.split()[2] == number:
                return source.split()[0]
    return ""
