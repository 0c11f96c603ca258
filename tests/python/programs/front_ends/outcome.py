"""Runs a training and writes what it ended with, in a form that two runs can be compared in to the
last bit: outcome.py SCRIPT ARGUMENT... OUTCOME.

That is the losses and a hash of each tensor: of the parameters and states of all optimizers that
stepped, and of all models and averages of weights that the script has a name for. In the name of
the file, {rank} stands for the rank of the process.
"""

import hashlib
import json
import os
import runpy
import sys
from pathlib import Path

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


def main():
    _, script, *arguments, path = sys.argv
    torch.set_num_threads(1)  # two threads of MKL's first call may choose other kernels
    torch.manual_seed(0)
    losses, optimizers = [], []
    backward = torch.autograd.backward

    def record_loss(tensors, *rest, **named):
        if isinstance(tensors, torch.Tensor) and tensors.numel() == 1:
            losses.append(tensors.item().hex())
        backward(tensors, *rest, **named)

    def record_optimizer(optimizer, *_):
        if not any(optimizer is each for each in optimizers):
            optimizers.append(optimizer)

    torch.autograd.backward = record_loss
    register_optimizer_step_post_hook(record_optimizer)
    sys.argv = [script, *arguments]
    names = runpy.run_path(script, run_name="__main__")
    outcome = {"losses": losses, "tensors": hashes_of(optimizers, names)}
    Path(path.format(rank=os.environ.get("RANK", "0"))).write_text(json.dumps(outcome))


def hashes_of(optimizers, names):
    hashes = {}
    for number, optimizer in enumerate(optimizers):
        trained = [each for group in optimizer.param_groups for each in group["params"]]
        add_hashes(hashes, f"trained {number}", trained)
        add_hashes(hashes, f"states {number}", [optimizer.state[each] for each in trained])
    for name, value in names.items():
        for each in (value, getattr(value, "model", None)):
            if isinstance(each, torch.nn.Module) or hasattr(each, "shadow_params"):
                add_hashes(hashes, name, each.state_dict())
    return hashes


def add_hashes(hashes, name, value):
    """Adds a hash of each tensor within the value, and of each part of a tensor."""
    if isinstance(value, torch.Tensor):
        value = value.to_local() if hasattr(value, "to_local") else value
        if is_traceable_wrapper_subclass(value):
            for part in value.__tensor_flatten__()[0]:
                add_hashes(hashes, f"{name}.{part}", getattr(value, part))
        else:
            numbers = value.detach().cpu().reshape(-1).view(torch.uint8).numpy()
            hashes[name] = hashlib.sha256(numbers).hexdigest()
    elif isinstance(value, (dict, list, tuple)):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in pairs:
            add_hashes(hashes, f"{name}.{key}", each)


if __name__ == "__main__":
    main()
