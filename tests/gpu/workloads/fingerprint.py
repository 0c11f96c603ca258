"""Compares the bits of tensors by 128 bits that are computed on the device of the tensors.

Copying tens of gigabytes to the CPU and hashing them there would take longer than the training.
"""

import hashlib

import torch

PIECE_WORDS = 1 << 22
# Odd, so that one changed word always changes the sum; two, so that several hardly ever cancel out.
MULTIPLIERS = (0x1E3779B97F4A7C15, 0x42B2AE3D27D4EB4F)


def fingerprint(tensors) -> str:
    """The fingerprint of the tensors in this order.

    Raises ValueError for a tensor whose elements do not have 4 bytes.
    """
    digest = hashlib.sha256()
    for tensor in tensors:
        if tensor.element_size() != 4:
            raise ValueError(f"{tensor.dtype}: expected elements of 4 bytes")
        digest.update(str(tuple(tensor.shape)).encode())
        words = tensor.detach().reshape(-1).view(torch.int32)
        for piece in words.split(PIECE_WORDS):
            digest.update(repr(_sums(piece)).encode())
    return digest.hexdigest()


def _sums(words) -> list[int]:
    """Sums of the words by weights that depend on their place, modulo 2^64."""
    values = words.to(torch.int64)
    places = torch.arange(1, len(words) + 1, device=words.device)
    sums = [((places * multiplier) | 1).mul_(values).sum() for multiplier in MULTIPLIERS]
    return torch.stack(sums).tolist()


def state_fingerprint(model, optimizer) -> str:
    """The fingerprint of the parameters and of all that the optimizer keeps for them."""
    parameters = list(model.parameters())
    states = [
        torch.as_tensor(value)
        for parameter in parameters
        for _, value in sorted(optimizer.state[parameter].items())
    ]
    return fingerprint([*parameters, *states])
