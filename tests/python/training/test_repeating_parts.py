"""Iterations that repeat in parts only, in drawn orders, follow plans with equal bits."""

import functools
import io
import random

import pytest
import torch
from matrix import budgets

from teraio.hooks.verification import tensor_hash

pytestmark = pytest.mark.usefixtures("one_settled_thread")

WIDTH, DEPTH, BATCH = 192, 4, 64
ITERATIONS = 40
PLANNED_SHARE = 0.8  # of the second half


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


def backward(y):
    loss = (y - y.detach().roll(1, 0)).square().mean()
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


PROGRAMS = (optional_masks, rollouts, evaluations, line_search, adaptive_solver)


def yields(program, iterations=ITERATIONS):
    torch.manual_seed(1)
    model = torch.nn.Sequential(*[Block() for _ in range(DEPTH)])
    if program is line_search:
        search = {"max_iter": 4, "history_size": 3, "line_search_fn": "strong_wolfe"}
        optimizer = torch.optim.LBFGS(model.parameters(), **search)
    else:
        optimizer = torch.optim.AdamW(model.parameters())
    draw, losses = random.Random(1), []
    for _ in range(iterations):
        optimizer.zero_grad()
        losses.append(program(draw, model, optimizer).item())
    return losses, [tensor_hash(parameter) for parameter in model.parameters()]


def yields_within(budget, program, iterations=ITERATIONS, **options):
    with budgets.offload(budget, **options) as session:
        return yields(program, iterations), session


@functools.cache
def reference(program, iterations=ITERATIONS):
    """What the program yields on stock PyTorch, and its peak."""
    expected = yields(program, iterations)
    actual, session = yields_within(budgets.UNLIMITED, program, iterations, policy="on-demand")
    assert actual == expected
    return expected, max(each["device_peak_bytes"] for each in session.iterations())


FULL = PROGRAMS[2:]


@pytest.mark.parametrize(
    "program", [pytest.param(p, marks=pytest.mark.full) if p in FULL else p for p in PROGRAMS]
)
def test_parts_follow_plans_with_equal_bits(program):
    expected, peak_bytes = reference(program)
    actual, session = yields_within(peak_bytes // 3, program)
    assert actual == expected
    iterations = session.iterations()
    assert max(each["device_peak_bytes"] for each in iterations) <= peak_bytes // 3
    assert session.counters()["ssd_bytes_written"] > 0
    half = iterations[len(iterations) // 2 :]
    planned_ops = sum(each["planned_op_count"] for each in half)
    assert planned_ops >= PLANNED_SHARE * sum(each["op_count"] for each in half)


@pytest.mark.full
@pytest.mark.parametrize("stress", ["evict_after_every_op", "discard_after_every_op"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_stress_leaves_the_bits(program, stress):
    expected, _ = reference(program, 12)
    actual, _ = yields_within(budgets.UNLIMITED, program, 12, **{stress: True})
    assert actual == expected
