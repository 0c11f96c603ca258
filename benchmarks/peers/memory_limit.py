"""A limit on all memory of a program, page cache included: a memory control group (version 1 or 2).

Needs root. The kernel drops page cache first and kills the program when that is not enough.
"""

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


class Unavailable(Exception):
    """Raised when this machine cannot limit the memory of a program; the message says why."""


@dataclass(frozen=True)
class MemoryLimit:
    """A control group that programs enter by the command prefix."""

    group: Path
    is_version_1: bool

    @property
    def prefix(self) -> list[str]:
        entrance = self.group / "cgroup.procs"
        return ["sh", "-c", f'echo $$ >{entrance}; exec "$@"', "sh"]

    def peak_bytes(self) -> int:
        name = "memory.max_usage_in_bytes" if self.is_version_1 else "memory.peak"
        return int((self.group / name).read_text())

    def was_exceeded(self) -> bool:
        """Returns whether the kernel has killed a program because of the limit."""
        name = "memory.oom_control" if self.is_version_1 else "memory.events"
        counts = dict(line.split() for line in (self.group / name).read_text().splitlines())
        return int(counts.get("oom_kill", 0)) > 0


@contextlib.contextmanager
def memory_limit(limit_bytes: int | None):
    """Yields a MemoryLimit; None counts the memory without limiting it. Raises Unavailable."""
    is_version_1 = (CGROUPS / "memory").is_dir()
    root = CGROUPS / "memory" if is_version_1 else CGROUPS
    group = root / f"teraio-peers-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        raise Unavailable(f"{group}: {error.strerror}; a memory limit needs root") from None
    try:
        if limit_bytes is not None:
            name = "memory.limit_in_bytes" if is_version_1 else "memory.max"
            (group / name).write_text(str(limit_bytes))
            if not is_version_1:
                (group / "memory.swap.max").write_text("0")
        yield MemoryLimit(group, is_version_1)
    except FileNotFoundError as error:
        raise Unavailable(f"{error.filename}: no such control; is the controller on?") from None
    finally:
        _remove(group)


def _remove(group: Path) -> None:
    for _ in range(100):  # a killed program leaves the group a moment later
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)
