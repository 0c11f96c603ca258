"""What a random program keeps, and what it may do with tensors, views, bytes and graphs.

Each function is an instruction. It takes the state and three numbers.

Numbers choose operands modulo what there is, so a program stays valid without any instruction. An
instruction leaves no uninitialized byte reachable, and computes nothing whose bits depend on where
its operands lie. It may raise: the type of the exception is part of the result.
"""

import copy
import io
import pickle
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

SHAPES = [(128, 160), (160, 128), (20480,), (8, 40, 64)]
DTYPES = [
    torch.float32, torch.float32, torch.float32, torch.float64, torch.float64, torch.bfloat16,
    torch.int32, torch.int64, torch.float16, torch.complex64,
]  # fmt: skip
POOL_SIZE = 10


class State:
    """The pool, and what else a program keeps between instructions."""

    def __init__(self, workers):
        self.pool = [fresh(i, 0, i) for i in range(4)]
        self.arrays = []  # NumPy views
        self.exported = []  # tensors that are never resized, and arrays over their memory
        self.kept = []  # storages and sparse tensors that live on
        self.pins = []
        self.workers = workers
        self.running = []  # waits for workers that compute, and what they yield
        self.folder = tempfile.TemporaryDirectory()
        self.file_count = 0
        self.hook_calls = 0
        self.weights = [torch.nn.Parameter(fresh(0, 0, i) / 100) for i in range(2)]
        self.optimizer = torch.optim.AdamW(self.weights, foreach=False)
        self.model = torch.nn.Sequential(torch.nn.Linear(128, 160), torch.nn.Linear(160, 128))
        self.trainers = {}  # optimizers of the model, by their kind

    def new_file(self):
        self.file_count += 1
        return f"{self.folder.name}/{self.file_count}"

    def close(self):
        for pin in self.pins:
            pin.release()
        self.folder.cleanup()

    def tensor(self, a):
        return self.pool[a % len(self.pool)]

    def partner(self, tensor, b):
        """A tensor of the pool with the same shape, which shares no bytes with the given one."""
        same = [t for t in self.pool if t.shape == tensor.shape and not t.is_sparse]
        other = same[b % len(same)] if same else tensor
        return other.detach().clone()

    def drop_broken(self):
        """Drops tensors that reach beyond their storage: what a failed resize leaves behind."""

        def is_whole(t):
            if t.is_sparse or t.numel() == 0:
                return True
            reach = zip(t.shape, t.stride(), strict=True)
            last = t.storage_offset() + sum((size - 1) * stride for size, stride in reach)
            return (last + 1) * t.element_size() <= t.untyped_storage().nbytes()

        whole = [t for t in self.pool if is_whole(t)]
        self.pool = whole or [fresh(0, 0, 0)]

    def put(self, tensor, c):
        if len(self.pool) < POOL_SIZE:
            self.pool.append(tensor)
        else:
            self.pool[c % POOL_SIZE] = tensor


def fresh(a, b, c):
    values = torch.arange(20480, dtype=torch.float32).remainder_(251).mul_(0.01).add_(c % 17)
    return values.view(SHAPES[a % len(SHAPES)]).to(DTYPES[b % len(DTYPES)])


def make(state, a, b, c):
    state.put(fresh(a, b, c), c)


def drop(state, a, b, c):
    if len(state.pool) > 2:
        del state.pool[a % len(state.pool)]


def assign(state, a, b, c):
    """Two names of one tensor."""
    state.put(state.tensor(a), c)


# Views, and changes of what a tensor refers to.


def view(state, a, b, c):
    t = state.tensor(a)
    makers = [
        lambda: t.t(),
        lambda: t[c % 5 :: 2],
        lambda: t[..., 3:60],
        lambda: t.reshape(-1),
        lambda: t.view(t.shape),
        lambda: t.unsqueeze(0).transpose(0, 1),
        lambda: t.flatten().as_strided((64, 64), (64, 1), c % 3),
        lambda: t.detach(),
        lambda: t.diagonal(),
        lambda: t.view(torch.int32),
        lambda: torch.chunk(t, 2)[0],
        lambda: t.view(-1).unfold(0, 64, 64),
    ]
    state.put(makers[b % len(makers)](), c)


def set_storage(state, a, b, c):
    t, other = state.tensor(a), state.tensor(b)
    if other.is_sparse or t is other:
        return
    if t.element_size() > other.element_size():
        return  # it would grow the storage, whose new bytes are undefined
    with torch.no_grad():
        if c % 2:
            t.set_(other.detach())
        else:
            rows = min(other.numel(), 4096)
            if other.is_contiguous():
                t.set_(other.untyped_storage(), other.storage_offset(), (rows,), (1,))


def assign_data(state, a, b, c):
    state.tensor(a).data = state.tensor(b).detach() if c % 2 else state.partner(state.tensor(b), 0)


def resize(state, a, b, c):
    t = state.tensor(a)
    count = [1000, 20480, 30000, 0, 65536][b % 5]
    end = t.untyped_storage().nbytes() // t.element_size() - t.storage_offset()
    with torch.no_grad():
        t.resize_(count)
        t.view(-1)[max(end, 0) :].fill_(c % 7)


def resize_storage(state, a, b, c):
    """To nothing and back, as FSDP does."""
    t = fresh(a, 0, c)
    storage = t.untyped_storage()
    size_bytes = storage.nbytes()
    storage.resize_(0)
    if b % 2:
        state.tensor(b).abs()
    storage.resize_(size_bytes)
    t.fill_(c % 9)
    state.put(t, c)


def swap(state, a, b, c):
    torch.utils.swap_tensors(state.tensor(a), state.tensor(b))


def keep_storage(state, a, b, c):
    """A storage outlives its tensor, and gets another."""
    storage = state.tensor(a).untyped_storage()
    state.kept.append(storage)
    dtype = state.tensor(a).dtype
    count = storage.nbytes() // dtype.itemsize
    state.put(torch.empty(0, dtype=dtype).set_(storage, 0, (count,), (1,)), c)


# Changes of bytes.


def change(state, a, b, c):
    t = state.tensor(a)
    other = state.partner(t, c)
    changes = [
        lambda: t.add_(c % 5),
        lambda: t.mul_(0.5),
        lambda: t.add_(other, alpha=0.5),
        lambda: t.copy_(other),
        lambda: t.clamp_(-50, 50),
        lambda: t.zero_().add_(c % 11),
        lambda: t.sub_(other).neg_().abs_(),
        lambda: t[1:7].mul_(2),
        lambda: t.t_(),
        lambda: t.tanh_(),
        lambda: t.view(-1)[::3].fill_(c % 13),
        lambda: torch._foreach_add_([t], 1),
    ]
    if b & 64:
        with torch.no_grad():
            changes[b % len(changes)]()
    else:
        changes[b % len(changes)]()


def compute(state, a, b, c):
    t = state.tensor(a)
    other = state.partner(t, c)
    results = [
        lambda: t + other,
        lambda: t * 0.25,
        lambda: torch.tanh(t),
        lambda: torch.where(t > 1, t, other),
        lambda: torch.cat([t, other]),
        lambda: (t.float().reshape(128, -1) / 100) @ (other.float().reshape(-1, 128) / 100),
        lambda: t.contiguous(),
        lambda: t.to(DTYPES[c % len(DTYPES)]),
        lambda: t.sort(dim=0)[0],
        lambda: torch.stack([t, other]).sum(0),
        lambda: torch.linalg.vector_norm(t.float()) + t,
        lambda: t.cumsum(0),
        lambda: compose(state, t, other, c),
    ]
    state.put(results[b % len(results)](), c)


def compose(state, t, other, c):
    """Ops that call others."""
    rows, keys = (x.float().reshape(-1, 128) / 100 for x in (t, other))
    heads = [x.view(1, 2, -1, 128) for x in (rows, keys, keys)]
    weight = state.weights[0].reshape(160, 128)
    with torch.autocast("cpu", torch.bfloat16, enabled=bool(c % 2)):
        results = [
            lambda: F.rms_norm(rows, (128,)),
            lambda: F.layer_norm(rows, (128,)),
            lambda: F.scaled_dot_product_attention(*heads),
            lambda: F.linear(rows.view(2, -1, 128).transpose(0, 1), weight),
            lambda: torch.einsum("ij,kj->ik", rows, keys),
            lambda: F.softmax(rows, -1, dtype=torch.float64),
        ]
        return results[c // 2 % len(results)]()


def write_out(state, a, b, c):
    t, out = state.tensor(a).detach().clone(), state.tensor(b)
    other = state.partner(t, c)
    with torch.no_grad():
        if c % 3 == 0:
            torch.add(t, other, out=out)
        elif c % 3 == 1:
            torch.mul(t, 0.5, out=out)
        else:
            torch.cat([t.flatten(), other.flatten()], out=out)


def index(state, a, b, c):
    t = state.tensor(a)
    rows = torch.arange(0, len(t), 1 + c % 3)
    if b % 4 == 0:
        t.index_put_((rows,), torch.tensor(c % 19).to(t.dtype))
    elif b % 4 == 1:
        t.index_put_((rows,), torch.ones((), dtype=t.dtype), accumulate=True)
    elif b % 4 == 2:
        t[rows] = t[rows] * 2
    else:
        t.index_add_(0, rows, t.detach()[rows].clone())


def sparse(state, a, b, c):
    t = state.tensor(a)
    dense = torch.relu(t.detach() - 8)
    s = dense.to_sparse() if b % 2 else dense.reshape(128, -1).to_sparse_csr()
    state.kept.append(s)
    del state.kept[:-4]
    state.put((s * 2).to_dense(), c)


def use_sparse(state, a, b, c):
    found = [s for s in state.kept if isinstance(s, torch.Tensor)]
    if found:
        s = found[a % len(found)]
        s.values().mul_(1.5) if s.layout == torch.sparse_csr else s._values().mul_(1.5)
        state.put(s.to_dense(), c)


# Bytes that leave torch.


def numpy_view(state, a, b, c):
    state.arrays.append(state.tensor(a).detach().numpy())
    del state.arrays[:-3]


def change_array(state, a, b, c):
    if state.arrays:
        array = state.arrays[a % len(state.arrays)]
        array[...] = array // 2 if b % 2 else array + c % 5
        if b % 3 == 0:
            state.put(torch.from_numpy(array), c)


def drop_arrays(state, a, b, c):
    state.arrays.clear()


def dlpack(state, a, b, c):
    """NumPy fixes the storage's size first: DLPack's address dangles when PyTorch resizes it."""
    t = state.tensor(a).detach()
    t.numpy()
    if b % 3 == 0:
        state.put(torch.from_dlpack(t), c)
    elif b % 3 == 1:
        state.arrays.append(np.from_dlpack(t))
        del state.arrays[:-3]
    else:
        state.put(torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(t)), c)


def export(state, a, b, c):
    """An array over memory whose size no instruction changes."""
    t = fresh(a, 0, c)
    part = t.view(-1)[c % 100 :] if b % 3 == 0 else t
    array = np.from_dlpack(part) if b % 2 else torch.from_dlpack(part).numpy()
    state.exported.append((t, part, array))
    del state.exported[:-4]


def use_exported(state, a, b, c):
    """Both sides write, and each sees the other's bytes."""
    if not state.exported:
        return None
    t, part, array = state.exported[a % len(state.exported)]
    t.mul_(0.5).add_(c % 7)
    seen = float(array.reshape(-1)[c % array.size])
    array += b % 5
    state.put(part + c % 3, c)
    return seen


def duplicate(state, a, b, c):
    t = state.tensor(a)
    if b % 5 == 0:
        state.put(copy.copy(t), c)
    elif b % 5 == 1:
        state.put(copy.deepcopy(t), c)
    elif b % 5 == 2:
        state.put(pickle.loads(pickle.dumps(t)), c)
    elif b % 5 == 3:
        first, second = copy.deepcopy([t.detach(), t.detach()])
        second.add_(1)
        state.put(first, c)
    else:
        file = io.BytesIO()
        torch.save({"t": t, "view": t[1:]}, file)
        file.seek(0)
        state.put(torch.load(file)["view"], c)


def read(state, a, b, c):
    t = state.tensor(a).detach()
    if b % 4 == 0:
        return t.flatten()[c % t.numel()].item()
    if b % 4 == 1:
        return t.flatten()[:50].tolist()
    if b % 4 == 2:
        return bool(torch.equal(t, state.partner(t, c)))
    return repr(t.flatten()[:5])


# Autograd.


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.factor + x * 0.001, None


def require_grad(state, a, b, c):
    t = state.tensor(a)
    t.requires_grad_(not t.requires_grad)


def hook(state, a, b, c):
    def count(grad):
        state.hook_calls += 1
        return grad * 2 if b % 2 else None

    state.tensor(a).register_hook(count)


def graph_of(state, a, b, c):
    t = state.tensor(a)
    x = t if t.requires_grad else t.detach().float().clone().requires_grad_()
    weight = state.weights[b % 2].reshape(128, 160)
    rows = x.float().reshape(-1, 128) / 100
    hidden = checkpoint(lambda r: (r @ weight).tanh(), rows, use_reentrant=bool(c % 2))
    hidden = Scale.apply(hidden, 1.5) if b % 3 else hidden.exp()
    return x, hidden.square().sum()


def backward(state, a, b, c):
    x, loss = graph_of(state, a, b, c)
    loss.backward(retain_graph=bool(c % 2))
    if c % 2:
        loss.backward()
    state.put(x.grad if x.grad is not None else x.detach(), c)
    return loss.item()


def keep_graph(state, a, b, c):
    state.graph = graph_of(state, a, b, c)


def use_graph(state, a, b, c):
    x, loss = state.graph
    (gradient,) = torch.autograd.grad(loss, x, retain_graph=bool(c % 2))
    state.put(gradient, c)


def step(state, a, b, c):
    inputs = fresh(1, 0, c) / 100
    for _ in range(1 + b % 2):
        loss = (inputs @ state.weights[0].view(128, 160)).tanh().square().mean()
        loss = loss + state.weights[1].square().mean()
        loss.backward()
        state.optimizer.step()
        state.optimizer.zero_grad(set_to_none=bool(a % 2))
    return loss.item()
