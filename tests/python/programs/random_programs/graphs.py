"""Instructions: hooks of modules and graphs, and gradients of other kinds."""

import gc

import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

from random_programs.instructions import fresh, graph_of


def module_hooks(state, a, b, c):
    """Hooks of a model see and change what passes."""
    model = state.model

    def change_output(module, arguments, output):
        state.hook_calls += 1
        return output.mul_(1.5) if b % 2 else output + 1

    def see_gradients(module, gradients, outputs):
        state.hook_calls += 1
        return tuple(g * 0.5 for g in gradients if g is not None) if c % 2 else None

    def change_gradient(parameter):
        state.hook_calls += 1
        parameter.grad.mul_(0.5)

    handles = [
        model[0].register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,)),
        model[0].register_forward_hook(change_output),
        model[1].register_full_backward_hook(see_gradients),
        model[1].weight.register_post_accumulate_grad_hook(change_gradient),
    ]
    try:
        loss = model(fresh(1, 0, a) / 100).square().mean()
        loss.backward()
    finally:
        for handle in handles:
            handle.remove()
    state.put(model[1].weight.grad.clone(), c)
    model.zero_grad(set_to_none=bool(a % 2))
    return loss.item()


def saved_hooks(state, a, b, c):
    """What a graph saves is packed: as an array, in another type, in a file, or on the CPU."""

    def to_file(tensor):
        torch.save(tensor, path := state.new_file())
        return path

    hooks = [
        lambda: saved_tensors_hooks(lambda t: t.detach().numpy().copy(), torch.from_numpy),
        lambda: saved_tensors_hooks(lambda t: t.double(), lambda t: t.float()),
        lambda: saved_tensors_hooks(to_file, torch.load),
        lambda: saved_tensors_hooks(lambda t: (t, t._version), lambda pair: pair[0]),
        lambda: save_on_cpu(),
    ]
    with hooks[b % len(hooks)]():
        x, loss = graph_of(state, a, 3 * b, 0)
    (gradient,) = torch.autograd.grad(loss, x)
    state.put(gradient, c)
    return loss.item()


def other_gradients(state, a, b, c):
    """Second derivatives, directional ones, and those per sample."""
    x = state.tensor(a).detach().float().flatten()[:4096] / 100
    calls = [
        lambda: _second_derivative(x),
        lambda: torch.func.jvp(torch.tanh, (x,), (torch.ones_like(x),))[1],
        lambda: torch.func.vmap(torch.func.grad(lambda v: v.tanh().sum()))(x.view(64, -1)),
        lambda: torch.func.functional_call(
            state.model, dict(state.model.named_parameters()), (fresh(1, 0, c) / 100,)
        ).detach(),
    ]
    state.put(calls[b % len(calls)](), c)


def _second_derivative(x):
    x = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(x.tanh().square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    return second


def accumulate(state, a, b, c):
    """Gradients that the program sets, keeps, clears and accumulates itself."""
    weight = state.weights[a % 2]
    kinds = [
        lambda: setattr(weight, "grad", fresh(0, 0, b).clone()),
        lambda: setattr(weight, "grad", None),
        lambda: weight.grad is not None and weight.grad.zero_(),
        lambda: (weight.reshape(-1) * fresh(2, 0, b)).sum().backward(),
        lambda: state.put(weight.grad.detach(), c) if weight.grad is not None else None,
    ]
    kinds[c % len(kinds)]()


def inference(state, a, b, c):
    """Tensors that know no graph."""
    with torch.inference_mode():
        t = state.tensor(a) * 2
        t[: len(t) // 2].add_(1)
    state.put(t if b % 2 else t.clone(), c)


def cycle(state, a, b, c):
    """Tensors that only the garbage collector frees."""
    ring = [state.tensor(a), fresh(a, b, c)]
    ring.append(ring)
    del ring
    if c % 2:
        gc.collect()
