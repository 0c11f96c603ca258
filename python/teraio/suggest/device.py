"""The device that a suggestion is for: its rates, and the memory that a run may use of it."""

from dataclasses import dataclass, replace

from teraio.accelerator import file_of_cpu, load, name_of_gpu
from teraio.ranks import default_device

# The part of the free memory that a run may use. The rest is for what a dry run does not see:
# memory inside of kernels, the context of a GPU, and rounding. The default of a run on a GPU is
# the same.
_USABLE_SHARE = 0.92


@dataclass(frozen=True)
class TargetDevice:
    """A device to train on.

    Of its memory, `memory_bytes`, a run may use `usable_bytes`; `memory_note` says why. `measure`
    is None, or a function that measures the device and returns its accelerator: the other one has
    no rates of this device.
    """

    name: str  # of --device
    accelerator: object  # the `Accelerator` that predicts times
    memory_bytes: int
    usable_bytes: int
    memory_note: str
    measure: object = None


def find_device(name, accelerator_name, world_size):
    """Returns the `TargetDevice` to suggest for.

    Args:
        name: "cpu", "cuda", "cuda:1", or None for a GPU of this machine if it has one.
        accelerator_name: a name or file as for `teraio dry-run`, or None for the device itself.
        world_size: the number of processes, which share the memory of a CPU.

    Raises:
        teraio.Error: there is no such device, or its rates are not known.
    """
    import torch

    if accelerator_name is not None and name is None:
        return _absent_device(load(accelerator_name))
    name = name or default_device()
    if name == "cpu":
        return _cpu(accelerator_name, world_size)
    accelerator_name = accelerator_name or name_of_gpu(torch.cuda.get_device_name(name))
    return _gpu(name, load(accelerator_name))


def _absent_device(accelerator):
    from teraio.units import format_size

    return TargetDevice(
        name="cuda",
        accelerator=accelerator,
        memory_bytes=accelerator.memory_bytes,
        usable_bytes=int(_USABLE_SHARE * accelerator.memory_bytes),
        memory_note=f"92 % of the device's {format_size(accelerator.memory_bytes)}",
    )


def _cpu(accelerator_name, world_size):
    from teraio import core
    from teraio.units import format_size

    measured = file_of_cpu()
    is_known = accelerator_name is not None or measured.exists()
    unmeasured = replace(load("h100-nvl"), name="this CPU")
    accelerator = load(accelerator_name or str(measured)) if is_known else unmeasured
    accelerator = replace(accelerator, library="onednn")

    available_bytes = core.available_memory_bytes() // world_size
    return TargetDevice(
        name="cpu",
        accelerator=accelerator,
        memory_bytes=core.device_memory_bytes("cpu"),
        usable_bytes=int(_USABLE_SHARE * available_bytes),
        memory_note=f"92 % of the {format_size(available_bytes)} of memory that are available",
        measure=None if is_known else _measure_cpu,
    )


def _gpu(name, accelerator):
    from teraio import core

    return TargetDevice(
        name=name,
        accelerator=accelerator,
        memory_bytes=core.device_memory_bytes(name),
        usable_bytes=core.default_budget_bytes(name),
        memory_note="92 % of the GPU's free memory",
    )


def _measure_cpu():
    """Measures this machine's CPU, keeps the file, and returns the accelerator."""
    from teraio.dry_run.calibration import calibrate

    print("teraio: measuring this CPU once, for about half a minute", flush=True)
    calibrate(file_of_cpu(), show=lambda line: None)
    return load(str(file_of_cpu()))
