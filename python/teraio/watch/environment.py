"""What a run happened on: versions of software, and the machine."""

import os
import platform
from pathlib import Path

import torch

from teraio._build_info import VERSION

BLOCK_DEVICES = Path("/sys/class/block")


def versions():
    """Returns the versions of TERAIO and of what it runs on: a dict from names to text."""
    found = {
        "teraio": VERSION,
        "PyTorch": torch.__version__,
        "CUDA": torch.version.cuda,
        "Python": platform.python_version(),
        "kernel": f"{platform.system()} {platform.release()}",
    }
    return {name: version for name, version in found.items() if version}


def machine(device, drives):
    """Returns facts about this machine as a dict.

    Args:
        device: the device of the session, as in `teraio.offload`.
        drives: those of `Session.share()`.
    """
    facts = {
        "name": platform.node(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }
    if device.startswith("cuda"):
        facts["gpu"] = torch.cuda.get_device_name(device)
    if models := [model for drive in drives if (model := _model(drive["name"]))]:
        facts["drives"] = models
    return facts


def _model(drive):
    """Returns the model that a drive reports, or None: virtual drives report none."""
    try:
        return (BLOCK_DEVICES / drive / "device" / "model").read_text().strip()
    except OSError:
        return None


def _processor():
    """Returns the processor's name, or that of its architecture where Linux does not tell more."""
    with open("/proc/cpuinfo") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()
