"""Instructions: chains of changes in place, lists of tensors, and views of other types."""

import random

import torch

from random_programs.instructions import fresh


def chain(state, a, b, c):
    """Changes through views of views, and the gradient through all of them."""
    t = state.tensor(a).detach().float().flatten()[:20480]
    if t.numel() < 128:
        return None
    leaf = (t[: t.numel() // 128 * 128] / 100).clone().requires_grad_()
    base = leaf * 1.5
    views = [base]
    chance = random.Random(1000 * b + c)
    for turn in range(3 + c % 6):
        of = views[chance.randrange(len(views))]
        views.append(_part_of(of, chance.randrange(6)))
        _change(views[chance.randrange(len(views))], chance.randrange(6), turn)
    loss = sum(v.square().mean() for v in views)
    (gradient,) = torch.autograd.grad(loss, leaf)
    state.put(gradient, c)
    state.put(views[b % len(views)].detach(), c + 1)
    return loss.item()


def _part_of(t, kind):
    parts = [
        lambda: t[::2],
        lambda: t[len(t) // 4 : len(t) // 2 + 1],
        lambda: t.unsqueeze(0),
        lambda: t.reshape(2, -1) if t.is_contiguous() and t.numel() % 2 == 0 else t[:],
        lambda: t.transpose(0, -1),
        lambda: t.diagonal() if t.dim() > 1 else t[1:],
    ]
    part = parts[kind]()
    return part if part.numel() > 0 else t


def _change(t, kind, turn):
    changes = [
        lambda: t.mul_(1.01),
        lambda: t.add_(turn),
        lambda: t.sin_(),
        lambda: t.copy_(torch.full_like(t, 0.25).cumsum(0).tanh()),
        lambda: t.clamp_(-1, 1),
        lambda: t.zero_().sub_(0.5),
    ]
    changes[kind]()


def lists(state, a, b, c):
    """One operator on several tensors, some of which may share bytes."""
    tensors = [state.tensor(a + 3 * i).detach() for i in range(1 + c % 5)]
    calls = [
        lambda: torch._foreach_mul_(tensors, 0.5),
        lambda: torch._foreach_add_(tensors, [state.partner(t, c) for t in tensors], alpha=2),
        lambda: torch._foreach_copy_(tensors, [state.partner(t, c) for t in tensors]),
        lambda: state.put(torch._foreach_add(tensors, 1)[-1], c),
        lambda: torch._foreach_clamp_min_(tensors, 0),
        lambda: torch._foreach_lerp_(tensors, [state.partner(t, c) for t in tensors], 0.25),
        lambda: torch._foreach_zero_(tensors[:1]),
        lambda: state.put(torch.stack(torch._foreach_norm(tensors)), c),
    ]
    calls[b % len(calls)]()


def other_types(state, a, b, c):
    """The bytes of a tensor as complex numbers, conjugated or negated lazily, and as integers."""
    t = fresh(a, 0, c) if b % 2 else state.tensor(a).detach()
    z = torch.view_as_complex(t.contiguous().view(-1, 2))
    views = [
        lambda: z.conj(),
        lambda: z.imag,
        lambda: z.conj().imag,
        lambda: torch.view_as_real(z).transpose(0, 1),
        lambda: z.real.view(torch.uint8),
        lambda: z.view(torch.int64),
    ]
    part = views[c % len(views)]()
    part.add_(c % 3)
    state.put(part, c)
    state.put(t, c + 1)


def random_numbers(state, a, b, c):
    """Operators that draw from the generator, whose state the program saves and restores."""
    torch.manual_seed(c)
    t = state.tensor(a).detach()
    before = torch.get_rng_state()
    calls = [
        lambda: t.bernoulli_(0.5),
        lambda: state.put(torch.nn.functional.dropout(t, 0.3), c),
        lambda: state.put(torch.randn_like(t) + t, c),
        lambda: t.uniform_(-1, 1),
        lambda: state.put(t.flatten()[torch.randperm(t.numel())], c),
    ]
    calls[b % len(calls)]()
    if c % 2:
        torch.set_rng_state(before)
    return torch.rand(1).item()
