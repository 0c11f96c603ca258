"""Trains a few layers and writes their checkpoint: checkpoints.py WAY.

WAY is one of WAYS: what writes the files.
"""

import sys
from pathlib import Path

import safetensors.torch
import torch
import torch.distributed
import torch.distributed.checkpoint as dcp

FOLDER = Path("checkpoint")


def with_torch_save(model, optimizer):
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, FOLDER / "all.pt"
    )


def with_safetensors(model, optimizer):
    safetensors.torch.save_model(model, str(FOLDER / "model.safetensors"), {"format": "pt"})
    states = states_of(optimizer)
    tensors = {name: value for name, value in states.items() if isinstance(value, torch.Tensor)}
    safetensors.torch.save_file(tensors, FOLDER / "states.safetensors")


def with_distributed_checkpoint(model, optimizer):
    dcp.save({"model": model.state_dict(), "states": states_of(optimizer)}, checkpoint_id=FOLDER)


def with_asynchronous_distributed_checkpoint(model, optimizer):
    state = {"model": model.state_dict(), "states": states_of(optimizer)}
    dcp.async_save(state, checkpoint_id=FOLDER).result()


WAYS = {
    "torch.save": with_torch_save,
    "safetensors": with_safetensors,
    "distributed checkpoint": with_distributed_checkpoint,
    "asynchronous distributed checkpoint": with_asynchronous_distributed_checkpoint,
}


def states_of(optimizer):
    """The tensors of an optimizer's state by a name each."""
    return {
        f"state {number} {name}": value
        for number, states in optimizer.state_dict()["state"].items()
        for name, value in states.items()
    }


def train(model, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(8, 512)).square().mean().backward()
        optimizer.step()


def main(way):
    FOLDER.mkdir()
    model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(12)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    if "checkpoint" in way:
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    for _ in range(2):  # and once more, with the plan
        train(model, optimizer, steps=6)
        for path in FOLDER.iterdir():
            path.unlink()
        WAYS[way](model, optimizer)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
