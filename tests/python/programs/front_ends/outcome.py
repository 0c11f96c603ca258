"""What a training ended with, in a form that two runs can be compared in to the last bit."""

import hashlib
import json
import os
import sys
from pathlib import Path

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

torch.set_num_threads(1)  # two threads of MKL's first call may choose other kernels
torch.manual_seed(0)


def write_outcome(losses, *tensors_by_name):
    """Writes the losses and a hash of each tensor to the file that the last argument names. There,
    {rank} stands for the rank of the process.

    `losses` are floats, and each of `tensors_by_name` is a dict of tensors: parameters or states.
    """
    hashes = {
        name: hash_of(tensor)
        for tensors in tensors_by_name
        for name, tensor in tensors.items()
        if isinstance(tensor, torch.Tensor)
    }
    outcome = {"losses": [float(loss).hex() for loss in losses], "tensors": hashes}
    path = sys.argv[-1].format(rank=os.environ.get("RANK", "0"))
    Path(path).write_text(json.dumps(outcome))


def hash_of(tensor):
    tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    if is_traceable_wrapper_subclass(tensor):
        return [hash_of(getattr(tensor, part)) for part in tensor.__tensor_flatten__()[0]]
    return hashlib.sha256(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy()).hexdigest()


def states_of(optimizer):
    """The tensors of an optimizer's state by a name each."""
    return {
        f"state {number} {name}": value
        for number, states in optimizer.state_dict()["state"].items()
        for name, value in states.items()
    }
