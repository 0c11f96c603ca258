"""Verification: hashes of losses, parameters, gradients and states show that two runs are equal."""

import hashlib
import json
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path

import torch

from teraio.errors import Error
from teraio.files.atomic_file import replace_text
from teraio.files.json_file import read_hashes


class Verification:
    """Computes hashes of a training's results, and compares them with a file if one is given.

    Args:
        path: the path of the file of hashes, or None.
    """

    def __init__(self, path):
        self._path = Path(path) if path else None

    def hashes(self, loss_hashes, optimizers):
        """Returns a dict from names to SHA-256 hashes in hex, after comparing it with the file.

        If the file is missing, it is written.

        Args:
            loss_hashes: a dict from the names of losses to their hashes.
            optimizers: the optimizers whose parameters, gradients and states are hashed.

        Raises:
            teraio.Error: hashes differ from those in the file, it is not a file of hashes, or
                there are none.
            OSError: the file cannot be written.
        """
        hashes = dict(loss_hashes)
        for number, optimizer in enumerate(optimizers):
            hashes.update(_optimizer_hashes(f"optimizer{number}", optimizer))
        if self._path is not None:
            self._compare_or_write(hashes)
        return hashes

    def _compare_or_write(self, hashes):
        if not hashes:
            raise Error(
                f"nothing to compare with {self._path}: the run had no loss, parameter or "
                "optimizer state. Verify a program that trains"
            )
        if not self._path.exists():
            replace_text(self._path, json.dumps(hashes, indent=1) + "\n")
            return
        expected = read_hashes(self._path)
        names = sorted(expected.keys() | hashes.keys())
        differing = [name for name in names if expected.get(name) != hashes.get(name)]
        if differing:
            raise Error(
                f"{len(differing)} of {len(names)} tensors differ from {self._path}, the first of "
                f"them {', '.join(differing[:3])}: the two runs computed different results. Check "
                "that both have the same seeds, data and number of steps"
            )


def _optimizer_hashes(prefix, optimizer):
    for g, group in enumerate(optimizer.param_groups):
        for p, parameter in enumerate(group["params"]):
            name = f"{prefix}.group{g}.parameter{p}"
            yield name, tensor_hash(parameter)
            if parameter.grad is not None:
                yield name + ".grad", tensor_hash(parameter.grad)
            for key, state in sorted(state_tensors(optimizer, parameter), key=itemgetter(0)):
                yield f"{name}.{key}", tensor_hash(state)


def state_tensors(optimizer, parameter):
    """Yields pairs of a name and a tensor in an optimizer's state of a parameter.

    Most optimizers have a dictionary there. Others have a list, or an object with attributes.
    """
    states = optimizer.state
    state = states.get(parameter, {}) if isinstance(states, Mapping) else {}
    if isinstance(state, torch.Tensor):
        state = {"state": state}
    elif isinstance(state, (list, tuple)):
        state = dict(enumerate(state))
    elif not isinstance(state, dict):
        state = getattr(state, "__dict__", {})
    for key, value in state.items():
        if isinstance(value, torch.Tensor):
            yield str(key), value


def tensor_hash(tensor):
    """Returns the SHA-256 hash of a tensor's dtype, shape and bytes, in hex."""
    plain = tensor.detach()
    if plain.layout != torch.strided:
        plain = plain.to_dense()
    if plain.is_quantized:
        plain = plain.int_repr()
    plain = plain.cpu().resolve_conj().resolve_neg().contiguous()
    digest = hashlib.sha256(f"{plain.dtype} {tuple(plain.shape)} ".encode())
    digest.update(plain.reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
