"""Operators of higher order: their bits are PyTorch's, with everything evicted after every op."""

import functools

import pytest
import stress_modes
import torch
from torch._higher_order_ops import out_dtype, scan, while_loop
from torch.nn.attention import flex_attention as flex
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

import teraio


def square():
    return torch.linspace(-1, 1, 160 * 160).reshape(160, 160).requires_grad_()


def branch():
    return torch.cond(torch.tensor(True), lambda x: x.sin(), lambda x: x.cos(), (square(),))


def loop():
    start = torch.tensor(0), square().detach()
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), start)[1]


def fold():
    x = square().detach()
    return scan(lambda total, row: (total + row, total * row), x[0], x)[1]


def attention():
    x = square().detach().reshape(1, 2, 80, 160)
    return flex.flex_attention(x, x, x, score_mod=lambda score, b, h, i, j: score * (i >= j))


def product():
    x = torch.ones(160, 160, dtype=torch.int8)
    return out_dtype(torch.ops.aten.mm.default, torch.int32, x, x)


def saves_products(context, operator, *args, **kwargs):
    is_product = operator == torch.ops.aten.mm.default
    return CheckpointPolicy.MUST_SAVE if is_product else CheckpointPolicy.PREFER_RECOMPUTE


def selective_checkpoint():
    """Compiled, its dropout runs in run_and_save_rng_state and run_with_rng_state."""
    x = square()
    contexts = functools.partial(create_selective_checkpoint_contexts, saves_products)

    def block(x):
        return torch.dropout((x @ x).relu(), 0.5, True) @ x

    torch.manual_seed(1)
    y = checkpoint(block, x, use_reentrant=False, context_fn=contexts)
    return torch.autograd.grad(y.sum(), x)[0]


@pytest.fixture(autouse=True)
def eager_attention(monkeypatch):
    monkeypatch.setattr(flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    torch._dynamo.reset()


def compiled(program):
    return torch.compile(program, backend="aot_eager")


@pytest.mark.parametrize(
    "mode",
    [lambda program: program, pytest.param(compiled, marks=pytest.mark.full)],
    ids=["eager", "compiled"],
)
@pytest.mark.parametrize(
    "program",
    [branch, loop, fold, attention, product, selective_checkpoint],
    ids=lambda p: p.__name__,
)
def test_equal_bits(program, mode, tmp_path):
    expected = mode(program)()
    torch._dynamo.reset()
    with stress_modes.offload("64MB", ssd=tmp_path, evict_after_every_op=True) as session:
        found = mode(program)()
        assert session.counters()["ssd_bytes_written"] > 0
    assert torch.equal(found, expected)


def test_operators_defined_within_a_session(tmp_path):
    class Twice(torch._ops.HigherOrderOperator):
        def __call__(self, function, x):
            return super().__call__(function, x)

    with teraio.offload("64MB", ssd=tmp_path):
        twice = Twice("twice_of_a_test")
        for key in (torch._C.DispatchKey.AutogradCPU, torch._C.DispatchKey.CPU):
            twice.py_impl(key)(lambda function, x: function(function(x)))
        assert twice(torch.sin, torch.ones(3)).tolist() == torch.ones(3).sin().sin().tolist()
