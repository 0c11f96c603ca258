"""A drive as a loop device on a file. Needs root."""

import contextlib
import subprocess
import time


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
    """Mounts a file system on a loop device; yields its directory.

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
        yield mounted
