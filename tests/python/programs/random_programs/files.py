"""Instructions: what a program saves, loads, maps and shares, and storages as bytes."""

import copy
import hashlib
import io
import os

import numpy as np
import torch

from random_programs.instructions import fresh


def save_and_load(state, a, b, c):
    """Through a file, which is read or mapped."""
    t, other = state.tensor(a), state.tensor(b)
    path = state.new_file()
    torch.save({"t": t, "view": t[1:], "other": other, "number": c}, path)
    loaded = torch.load(path, mmap=bool(b % 2), weights_only=bool(c % 2))
    if b % 3 == 0:
        loaded["t"].detach().mul_(0.5)
    state.put(loaded["view"], c)
    state.put(loaded["other"], c + 1)
    return loaded["number"]


def save_arrays(state, a, b, c):
    array = state.tensor(a).detach().numpy()
    if b % 3 == 0:
        file = io.BytesIO()
        np.save(file, array)
        file.seek(0)
        state.put(torch.from_numpy(np.load(file)), c)
    elif b % 3 == 1:
        buffer = bytearray(array.tobytes())
        state.put(torch.frombuffer(buffer, dtype=state.tensor(a).dtype), c)
    else:
        array.tofile(path := state.new_file())
        return hashlib.sha1(open(path, "rb").read()).hexdigest()


def map_file(state, a, b, c):
    """A tensor over a mapped file; when the mapping is shared, the file has what is written."""
    path = state.new_file()
    fresh(0, 0, c).numpy().tofile(path)
    t = torch.from_file(path, shared=bool(b % 2), size=20480)
    t.mul_(0.5).add_(state.tensor(a).detach().float().flatten()[0])
    state.put(t, c)
    return hashlib.sha1(open(path, "rb").read()).hexdigest()


def load_state(state, a, b, c):
    """Into a model, whose parameters are copied to or replaced."""
    saved = copy.deepcopy(state.model.state_dict()) if b % 2 else state.model.state_dict()
    weight = state.tensor(a).detach().float().flatten()
    if weight.numel() == 20480:
        saved["0.weight"] = weight.view(160, 128) / 100
    state.model.load_state_dict(saved, assign=bool(c % 2))
    state.put(state.model[0].weight.detach(), c)


def train(state, a, b, c):
    """A step of one of several optimizers of one model, after a round through its state."""
    kinds = {
        "foreach": lambda p: torch.optim.AdamW(p, foreach=True),
        "fused": lambda p: torch.optim.AdamW(p, fused=True),
        "momentum": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9),
        "adagrad": lambda p: torch.optim.Adagrad(p),
    }
    kind = list(kinds)[b % len(kinds)]
    if kind not in state.trainers or c % 7 == 0:
        state.trainers[kind] = kinds[kind](state.model.parameters())
    optimizer = state.trainers[kind]
    if c % 3 == 0:
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    loss = state.model(fresh(1, 0, a) / 100).square().mean()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(state.model.parameters(), 0.1)
    optimizer.step()
    state.model.zero_grad(set_to_none=bool(a % 2))
    return loss.item(), norm.item()


def storage_bytes(state, a, b, c):
    """A storage is changed and read without its tensors."""
    t = state.tensor(a)
    storage = t.untyped_storage()
    place = c % max(1, storage.nbytes())
    calls = [
        lambda: storage.fill_(63),
        lambda: storage.copy_(state.partner(t, c).untyped_storage()),
        lambda: storage[place],
        lambda: storage.__setitem__(place // 4 * 4, 66),
        lambda: storage[place : place + 64].tolist(),
        lambda: state.put(t.detach().new_empty(0).set_(storage.clone()), c),
        lambda: storage[0:4096].fill_(63),
        lambda: hashlib.sha1(bytes(storage[0:4096].tolist())).hexdigest(),
    ]
    result = calls[b % len(calls)]()
    return result if isinstance(result, (int, str, list)) else None


def share(state, a, b, c):
    """Memory of all processes: a child's change is seen. NumPy fixes the storage's size: PyTorch
    crashes when it resizes shared memory."""
    t = fresh(a, 0, c)
    if b % 2:
        t.add_(1)
    t.share_memory_().numpy()
    process = os.fork()
    if process == 0:
        try:
            t.mul_(0.5)
        finally:
            os._exit(0)
    os.waitpid(process, 0)
    state.put(t, c)
