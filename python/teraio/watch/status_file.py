"""Status files: what `teraio top` reads about the running sessions of a user on a machine.

Each session writes one file, <machine>-<process>.json, that only its user can read, and removes it
at its end. A process that died leaves its file behind; whoever comes by an hour later removes it.
"""

import contextlib
import json
import os
import stat
import time
from pathlib import Path

from teraio.directories import cache_directory
from teraio.errors import Error
from teraio.files.atomic_file import replace_file

_FORMAT = "teraio-status/1"
_KEPT_SECONDS = 3600  # of a process that died
_PERIOD_SECONDS = 1.9  # every two seconds, when the progress thread comes by
_PROC = Path("/proc")


class StatusFile:
    """The status file of this process. One thread uses it at a time.

    Args:
        job: a dict that describes the job, and becomes a part of the file.

    Raises:
        teraio.Error: there is no directory for it.
    """

    def __init__(self, job):
        directory = _own_directory()
        self._path = os.path.join(directory, f"{_machine()}-{os.getpid()}.json")
        self._job = {
            "format": _FORMAT,
            "machine": _machine(),
            "process": os.getpid(),
            "process_start": _start_of(os.getpid()),
            "parent": os.getppid(),
            **job,
        }
        self._due = 0
        remove_old_files()

    def write(self, status):
        """Replaces the content of the file, at most every two seconds."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _PERIOD_SECONDS
        content = {**self._job, "time": time.time(), **status}
        with contextlib.suppress(OSError):  # without space, there is no new content
            replace_file(self._path, json.dumps(content).encode(), lasts=False, mode=0o600)

    def end(self):
        """Removes the file."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)


def read_jobs():
    """Returns the content of each status file of this machine as a dict, with `is_dead` added.

    `is_dead` tells that the process does not exist any more and has not ended its session.
    """
    jobs = []
    for path in _files():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            job = json.loads(path.read_bytes())
            if job["format"] == _FORMAT and job["machine"] == _machine():
                jobs.append(job | {"is_dead": _is_dead(job)})
    return jobs


def remove_old_files():
    """Removes files that nobody has written to for an hour."""
    for path in _files("*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _KEPT_SECONDS:
                path.unlink()


def _is_dead(job):
    return _start_of(job["process"]) != job["process_start"]


def _start_of(process):
    """Returns when a process started, in ticks since the system did, or None without the process.

    Numbers of processes are used again; the two together are not.
    """
    try:
        fields = (_PROC / str(process) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def _machine():
    """Returns a name for this start of the machine and its numbers of processes.

    A home directory may be shared with other machines and containers, whose processes have numbers
    of their own.
    """
    boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}-{os.stat('/proc/self/ns/pid').st_ino}"


def _own_directory():
    """Returns the first directory that this user can write to, and that is the user's alone."""
    for directory in _directories():
        with contextlib.suppress(OSError):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_private(directory) and os.access(directory, os.W_OK | os.X_OK):
                return directory
    raise Error("no directory for the status file: set XDG_RUNTIME_DIR or XDG_CACHE_HOME to one")


def _files(pattern="*.json"):
    for directory in _directories():
        with contextlib.suppress(OSError):
            if _is_private(directory):
                yield from directory.glob(pattern)


def _directories():
    """Yields where status files may be: a job may have been started without XDG_RUNTIME_DIR."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        yield Path(runtime) / "teraio"
    with contextlib.suppress(Error):
        yield cache_directory() / "status"


def _is_private(directory):
    status = os.lstat(directory)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
