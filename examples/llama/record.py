"""The records of a run: exact losses and hashes."""

import hashlib
from pathlib import Path

import torch

from .atomic import write_json

# Hashing copies a tensor in pieces of this size, so that it needs no second tensor.
PIECE_BYTES = 16 << 20


def update(digest, tensor: torch.Tensor) -> None:
    """Adds a tensor's bytes to `digest`."""
    flat = tensor.detach().reshape(-1)
    for piece in flat.split(max(1, PIECE_BYTES // flat.element_size())):
        digest.update(piece.to("cpu", copy=True).view(torch.uint8).numpy())


def model_sha256(model: torch.nn.Module) -> str:
    """Returns a hash of the names and bytes of all parameters and buffers."""
    digest = hashlib.sha256()
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        digest.update(name.encode())
        update(digest, tensor)
    return digest.hexdigest()


def optimizer_sha256(optimizer: torch.optim.Optimizer) -> str:
    """Returns a hash of the state tensors of an optimizer, in the order of its parameters."""
    digest = hashlib.sha256()
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            for name, value in sorted(optimizer.state[parameter].items()):
                digest.update(name.encode())
                update(digest, torch.as_tensor(value))
    return digest.hexdigest()


def losses_sha256(losses: list[float]) -> str:
    return hashlib.sha256(" ".join(map(float.hex, losses)).encode()).hexdigest()


def write_losses(path: Path, history: dict, model, optimizer, tokens_per_step: int) -> None:
    """Writes the losses as hexadecimal floats, step times, and hashes of the final state."""
    record = {
        "losses": [loss.hex() for loss in history["losses"]],
        "losses_sha256": losses_sha256(history["losses"]),
        "parameters_sha256": model_sha256(model),
        "optimizer_sha256": optimizer_sha256(optimizer),
        "step_seconds": history["step_seconds"],
        "tokens_per_step": tokens_per_step,
    }
    write_json(path, record)
