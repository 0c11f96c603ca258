"""Drives as loop devices on files, and their rates as the kernel limits them (cgroup blkio).

Needs root, and for limits the cgroup controller of block I/O (version 1 or 2).
"""

import contextlib
import subprocess
import time
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


class Unavailable(Exception):
    """Raised when this machine cannot make such drives; the message says why."""


def _run(*command):
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise Unavailable(f"{command[0]} is not installed") from None
    except subprocess.CalledProcessError as error:
        raise Unavailable(f"{command[0]}: {error.stderr.strip()}") from None
    return done.stdout.strip()


def _unmount(directory):
    # The kernel closes the files of an io_uring some time after its process has ended.
    for _ in range(100):
        if subprocess.run(["umount", directory], capture_output=True).returncode == 0:
            return
        time.sleep(0.1)
    _run("umount", "--lazy", directory)


@contextlib.contextmanager
def loop_drive(folder, size_bytes):
    """Mounts a file system on a loop device; yields its directory and its device number.

    Raises Unavailable where that cannot be done. Leaves nothing behind.
    """
    backing, mounted = folder / "backing", folder / "drive"
    folder.mkdir()
    mounted.mkdir()
    with contextlib.ExitStack() as cleanup:
        with backing.open("wb") as file:
            file.truncate(size_bytes)
        cleanup.callback(backing.unlink)
        device = _run("losetup", "--find", "--show", "--direct-io=on", str(backing))
        cleanup.callback(_run, "losetup", "--detach", device)
        _run("mkfs.ext4", "-q", "-m", "0", device)
        _run("mount", device, str(mounted))
        cleanup.callback(_unmount, str(mounted))
        yield mounted, Path("/sys/block", Path(device).name, "dev").read_text().strip()


@contextlib.contextmanager
def _cgroup(limits):
    """Makes a control group that limits the rate of each device; yields its file cgroup.procs."""
    version_1 = (CGROUPS / "blkio").is_dir()
    group = (CGROUPS / "blkio" if version_1 else CGROUPS) / "teraio-benchmark"
    try:
        group.mkdir()
    except OSError as error:
        raise Unavailable(f"{group}: {error.strerror}") from None
    try:
        for number, rate in limits.items():
            if version_1:
                for direction in ("read", "write"):
                    file = group / f"blkio.throttle.{direction}_bps_device"
                    file.write_text(f"{number} {rate}")
            else:
                (group / "io.max").write_text(f"{number} rbps={rate} wbps={rate}")
        yield group / "cgroup.procs"
    except OSError as error:
        raise Unavailable(f"{error.filename}: {error.strerror}") from None
    finally:
        group.rmdir()


@contextlib.contextmanager
def limited_drives(folder, rates, size_bytes):
    """Makes a drive per rate (bytes per second).

    Yields the directories of the drives, and a command prefix that runs a program under the limits.
    """
    with contextlib.ExitStack() as stack:
        directories, limits = [], {}
        for index, rate in enumerate(rates):
            drive = loop_drive(Path(folder) / f"drive{index}", size_bytes)
            directory, number = stack.enter_context(drive)
            directories.append(directory)
            limits[number] = rate
        entrance = stack.enter_context(_cgroup(limits))
        yield directories, ["sh", "-c", f'echo $$ >{entrance}; exec "$@"', "sh"]
