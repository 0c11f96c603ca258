"""Trains a few blocks on several processes, with PyTorch alone: parallel.py WAY.

WAY is one of WAYS: how many processes share the batch, a layer, and the blocks, and the schedule of
the pipeline. TRAINING_DEVICE is cpu or cuda, which is the GPU with the process's local rank.
TRAINING_BACKEND is gloo or nccl.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

DEVICE = torch.device(os.environ.get("TRAINING_DEVICE", "cpu"), int(os.environ["LOCAL_RANK"]))
BACKEND = os.environ.get("TRAINING_BACKEND", "gloo")
STEPS = 8
WIDTH = 256
BLOCKS = 8
BATCH = 32
MICRO_BATCHES = 4
WAYS = {
    "DDP": {"shards": 2, "is_replicated": True},
    "FSDP2": {"shards": 2},
    "tensor parallel": {"parts": 2},
    "interleaved 1F1B": {"stages": 2, "is_interleaved": True},
    "FSDP2 and tensor parallel": {"shards": 2, "parts": 2},
    "FSDP2 and pipeline": {"shards": 2, "stages": 2},
    "tensor parallel and pipeline": {"parts": 2, "stages": 2},
}


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(self.up(self.norm(x)).relu())


def loss_of(output, target):
    return (output - target).square().mean()


class Parallel:
    """The blocks of this process, and how they are trained."""

    def __init__(self, stages=1, shards=1, parts=1, is_interleaved=False, is_replicated=False):
        self.mesh = init_device_mesh(
            DEVICE.type, (stages, shards, parts), mesh_dim_names=("stage", "shard", "part")
        )
        self.is_replicated = is_replicated
        rank = self.mesh["stage"].get_local_rank()
        blocks = [Block().to(DEVICE) for _ in range(BLOCKS)]  # all processes draw the same numbers
        count = stages * (2 if is_interleaved else 1)
        size = BLOCKS // count
        self.modules = [
            self._distributed(torch.nn.Sequential(*blocks[first * size : (first + 1) * size]))
            for first in range(rank, count, stages)
        ]
        self.is_first, self.is_last = rank == 0, rank == stages - 1
        self.schedule = self._schedule(stages, count, rank) if stages > 1 else None

    def _distributed(self, module):
        if self.is_replicated:
            return DistributedDataParallel(module)
        for block in module:
            if self.mesh["part"].size() > 1:
                plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
                parallelize_module(block, self.mesh["part"], plan)
            if self.mesh["shard"].size() > 1:
                fully_shard(block, mesh=self.mesh["shard"])
        if self.mesh["shard"].size() > 1:
            fully_shard(module, mesh=self.mesh["shard"])
            if (
                DEVICE.type == "cuda" and BACKEND == "gloo"
            ):  # which cannot divide within a reduction
                for part in (module, *module):
                    part.set_gradient_divide_factor(1.0)
                    part.set_force_sum_reduction_for_comms(True)
        return module

    def _schedule(self, stages, count, rank):
        group = self.mesh["stage"].get_group()
        stages = [
            PipelineStage(module, number, count, DEVICE, group=group)
            for module, number in zip(self.modules, range(rank, count, stages), strict=True)
        ]
        if len(stages) > 1:
            return ScheduleInterleaved1F1B(stages, MICRO_BATCHES, loss_fn=loss_of)
        return Schedule1F1B(stages[0], MICRO_BATCHES, loss_fn=loss_of)

    def step(self, batch, target):
        """Computes gradients."""
        if self.schedule is None:
            loss_of(self.modules[0](batch), target).backward()
            return
        self.schedule.step(
            *([batch] if self.is_first else []),
            target=target if self.is_last else None,
            return_outputs=False,
        )


def main(way):
    if DEVICE.type == "cuda":
        torch.cuda.set_device(DEVICE)
    dist.init_process_group(BACKEND)
    training = Parallel(**WAYS[way])
    parameters = [each for module in training.modules for each in module.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, foreach=False)
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step + training.mesh["shard"].get_local_rank())
        batch = torch.randn(BATCH, WIDTH, generator=generator).to(DEVICE)
        optimizer.zero_grad()
        training.step(batch, batch.flip(1))
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    assert int(os.environ["WORLD_SIZE"]) > 1
    main(sys.argv[1])
