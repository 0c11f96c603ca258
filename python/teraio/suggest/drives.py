"""The drives that a run could use, and the hardware file with their measured rates."""

import json
import os
import subprocess
from pathlib import Path

from teraio.directories import ssd_directories
from teraio.errors import Error
from teraio.files.native_command import command_path

_FILE_SYSTEMS = {"ext4", "xfs", "btrfs"}
# What the session assumes of a CPU, whose memory the drives reach directly, and a cautious rate of
# the link to a GPU (PCIe 4.0 x16).
_CPU_LINK_BYTES_PER_SECOND = 1_000_000_000_000
_HOST_COPY_BYTES_PER_SECOND = 5_000_000_000
_GPU_LINK_BYTES_PER_SECOND = 25_000_000_000


def choose_directories(given):
    """Returns a list of directories, one per drive, as `pathlib.Path`s.

    Args:
        given: the directories that the user names, which are checked only. Without any, it is the
            default directory of runs, and a writable mount point of each further NVMe drive.

    Raises:
        teraio.Error: a directory cannot be used.
    """
    if given:
        return ssd_directories(given)
    default = ssd_directories()
    drives = {}
    for found in _findings([*default, *_mount_points()]):
        drive = found.get("drive", {"name": "", "kind": ""})
        is_default = found["directory"] == str(default[0])
        if found["is_usable"] and (is_default or drive["kind"] == "NVMe"):
            drives.setdefault(drive["name"], Path(found["directory"]))
    return list(drives.values())


def _mount_points():
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:
            mount, _, source = line.partition(" - ")
            path, kind = mount.split()[4], source.split()[0]
            if kind in _FILE_SYSTEMS and os.path.isdir(path) and os.access(path, os.W_OK):
                yield path


def _findings(directories):
    """Returns what `teraio doctor` reports about each directory."""
    command = [command_path(), "doctor", "--json", *directories]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if not done.stdout:
        raise Error(done.stderr.strip().removeprefix("teraio: "))
    return json.loads(done.stdout)["directories"]


def measured_hardware(directories, device, host_bytes, rated_writes, path):
    """Writes a hardware file, and returns its content.

    Drives that are not known yet are measured, which `teraio probe` tells beforehand.

    Args:
        directories: one per drive.
        device: the `TargetDevice`.
        host_bytes: the memory of the host tier.
        rated_writes: the rated writes of each drive as text, or None for those of known models.
        path: a `pathlib.Path`.

    Raises:
        teraio.Error: a drive cannot be measured.
    """
    command = [command_path(), "probe", "--out", path, "--host", host_bytes]
    command += ["--device-memory", device.usable_bytes]
    for directory in directories:
        command += ["--ssd", directory]
    if rated_writes:
        command += ["--rated-writes", rated_writes]
    _probe(command)
    hardware = json.loads(path.read_text())
    _set_link(hardware, device)
    path.write_text(json.dumps(hardware))
    return hardware


def _probe(command):
    """Runs `teraio probe`, and shows what it says before it measures. Its bar is on stderr."""
    words = [str(word) for word in command]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if "measuring the drive" in line:
                print(f"teraio: {line}", end="", flush=True)
    if process.returncode:
        raise Error("the drives cannot be measured, for the reason above: choose others with --ssd")


def _set_link(hardware, device):
    is_cpu = device.name == "cpu"
    link = _CPU_LINK_BYTES_PER_SECOND if is_cpu else _GPU_LINK_BYTES_PER_SECOND
    host = _HOST_COPY_BYTES_PER_SECOND if is_cpu else _GPU_LINK_BYTES_PER_SECOND
    hardware["device_link"] = _both_ways(link)
    hardware["host"] |= _both_ways(host)


def _both_ways(bytes_per_second):
    return {"read_bytes_per_second": bytes_per_second, "write_bytes_per_second": bytes_per_second}


def share_of(hardware, ranks):
    """Returns the hardware of one of `ranks` processes that share the host and the drives."""
    drives = [
        drive
        | {
            name: drive[name] // ranks
            for name in (
                "capacity_bytes",
                "read_bytes_per_second",
                "write_bytes_per_second",
                "rated_bytes_written",
            )
            if name in drive
        }
        for drive in hardware["drives"]
    ]
    host = hardware["host"] | {"capacity_bytes": hardware["host"]["capacity_bytes"] // ranks}
    return hardware | {"drives": drives, "host": host}
