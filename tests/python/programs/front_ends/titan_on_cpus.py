"""TorchTitan as it is imported on a machine without GPUs."""

from types import SimpleNamespace

import torch
import torch.distributed
from torch.distributed.fsdp import FSDPModule


def stand_for_a_gpu():
    """Gives torch.cpu what TorchTitan asks a GPU for, and gloo what it lacks."""
    torch._utils._get_available_device_type = lambda: "cpu"
    torch.cpu.get_device_name = lambda *_: "CPU"
    torch.cpu.get_device_properties = lambda *_: SimpleNamespace(total_memory=1 << 34)
    torch.cpu.reset_peak_memory_stats = torch.cpu.empty_cache = lambda *_: None
    torch.cpu.memory_stats = lambda *_: {}
    barrier = torch.distributed.barrier
    torch.distributed.barrier = lambda *_, **__: barrier()
    sum_without_scaling()


def sum_without_scaling():
    """FSDP2 divides within the reduction, which gloo cannot."""
    set_factor = FSDPModule.set_gradient_divide_factor

    def set_factor_and_sum(module, factor):
        set_factor(module, factor)
        module.set_force_sum_reduction_for_comms(True)

    FSDPModule.set_gradient_divide_factor = set_factor_and_sum


stand_for_a_gpu()
from torchtitan.config import ConfigManager  # noqa: E402, F401
from torchtitan.train import Trainer  # noqa: E402, F401
