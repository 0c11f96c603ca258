"""Trainings whose iterations repeat in parts only, which come in drawn numbers and orders."""

import io
import random

import torch

WIDTH, DEPTH, BATCH = 256, 4, 128
HALF = DEPTH // 2


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(WIDTH, 2 * WIDTH)
        self.down = torch.nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x, mask=None):
        h = torch.nn.functional.gelu(self.up(x))
        return x + self.down(h if mask is None else h * mask)


def batch():
    return torch.randn(BATCH, WIDTH)


def loss_of(y):
    return (y - y.detach().roll(1, 0)).square().mean()


def backward(y):
    loss = loss_of(y)
    loss.backward()
    return loss


def optional_masks(draw, model, optimizer):
    """Blocks leave a mask of ones out, as by chance."""
    for _ in range(4):
        x = batch()
        for block in model:
            x = block(x, torch.ones(BATCH, 1) if draw.random() < 0.5 else None)
        loss = backward(x)
    optimizer.step()
    return loss


def rollouts(draw, model, optimizer):
    """Answers of a drawn length, and two updates on what was answered."""
    with torch.no_grad():
        answers = [batch()[:8]]
        for _ in range(draw.randint(4, 60)):
            answers.append(model(answers[-1]))
    inputs = torch.cat(answers[-4:])
    for _ in range(2):
        loss = backward(model(inputs))
        optimizer.step()
        optimizer.zero_grad()
    return loss


def evaluations(draw, model, optimizer):
    """Micro-batches, with evaluations and checkpoints in between."""
    for _ in range(draw.randint(2, 6)):
        loss = backward(model(batch()))
        if draw.random() < 0.3:
            torch.save({k: v.clone() for k, v in model.state_dict().items()}, io.BytesIO())
        if draw.random() < 0.3:
            with torch.no_grad():
                for _ in range(draw.randint(1, 5)):
                    model(batch())
    optimizer.step()
    return loss


def line_search(draw, model, optimizer):
    inputs = batch()

    def closure():
        optimizer.zero_grad()
        return backward(model(inputs))

    return optimizer.step(closure)


def adaptive_solver(draw, model, optimizer):
    """Euler's method forth, and its adjoint back, in a drawn number of steps."""
    x, points = batch(), []
    with torch.no_grad():
        for _ in range(draw.randint(3, 30)):
            points.append(x)
            x = x + 0.1 * model(x)
    gradient = x / x.numel()
    for point in reversed(points):
        point.requires_grad_()
        (point + 0.1 * model(point)).backward(gradient)
        gradient = point.grad
    optimizer.step()
    return x.square().mean()


def pipeline(draw, model, optimizers):
    """Micro-batches in a drawn number pass by hand through stages, each with an optimizer."""
    for _ in range(draw.randint(2, 5)):
        outputs, inputs = [batch()], []
        for stage in model:
            inputs.append(outputs[-1].detach().requires_grad_())
            outputs.append(stage(inputs[-1]))
        loss = backward(outputs.pop())
        for given in reversed(inputs[1:]):
            outputs.pop().backward(given.grad)
    for optimizer in optimizers:
        optimizer.step()
    return loss


def steps_in_backward(draw, model, optimizer):
    """Each parameter's own optimizer updates it as soon as its gradient is there."""
    return backward(model(batch()))


def judged(draw, model, optimizers):
    """A generator, and a judge that takes a drawn number of steps before each of its own."""
    for optimizer in [optimizers[1]] * draw.randint(1, 5) + [optimizers[0]]:
        made = model(batch()).mean()
        loss = made if optimizer is optimizers[0] else model[HALF:](batch()).mean() - made
        model.zero_grad()
        loss.backward()
        optimizer.step()
    return loss


PROGRAMS = (optional_masks, rollouts, evaluations, line_search, adaptive_solver, pipeline)


def train(program, iterations):
    """Returns the losses, and the model."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(*[Block() for _ in range(DEPTH)])
    if program is line_search:
        search = {"max_iter": 4, "history_size": 3, "line_search_fn": "strong_wolfe"}
        optimizer = torch.optim.LBFGS(model.parameters(), **search)
    elif program is judged:
        optimizer = [torch.optim.AdamW(half.parameters()) for half in (model[:HALF], model[HALF:])]
    elif program is steps_in_backward:
        optimizer = [torch.optim.AdamW([parameter]) for parameter in model.parameters()]
        for parameter, each in zip(model.parameters(), optimizer, strict=True):
            parameter.register_post_accumulate_grad_hook(lambda _, step=each.step: step())
    elif program is pipeline:
        optimizer = [torch.optim.AdamW(stage.parameters()) for stage in model]
    else:
        optimizer = torch.optim.AdamW(model.parameters())
    draw, losses = random.Random(1), []
    for _ in range(iterations):
        model.zero_grad()
        losses.append(program(draw, model, optimizer).item())
    return losses, model
