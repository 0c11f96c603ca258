"""`teraio run` tells what it has recognised of a program: what drives it, and what ends a step."""

from collections import OrderedDict

import pytest
import torch

from teraio.ranks import Ranks
from teraio.recognition import recognised_line

LOOP = """\
import sys, torch
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(3)])
optimizers = [
    torch.optim.AdamW(model[:2].parameters(), fused=True),
    torch.optim.SGD(model[2].parameters(), lr=0.1),
]
for step in range(int(sys.argv[1])):
    model(torch.ones(8, 64)).square().mean().backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.fixture
def told(warm_python, tmp_path):
    """The lines about the program that a run of so many steps prints."""

    def told(steps, *options):
        (tmp_path / "train.py").write_text(LOOP)
        options = ["--device-budget", "40MB", *options]
        outcome = warm_python("-m", "teraio", "run", *options, "train.py", steps)
        assert outcome.code == 0, outcome
        assert "recognised" not in outcome.out
        return [line for line in outcome.err.splitlines() if "recognised" in line]

    return told


def test_a_loop_with_two_optimizers_is_told_once(told):
    assert told(5) == [
        f"teraio: recognised PyTorch {torch.__version__}; "
        "a step ends with fused AdamW over 4 parameters and SGD over 2 parameters"
    ]


def test_nothing_is_told_of_a_single_step_or_to_who_wants_no_line(told):
    assert told(1) == []
    assert told(5, "--quiet") == []


class Calling(torch.optim.Optimizer):
    """Steps other optimizers, as TorchTitan's container does."""

    def __init__(self, optimizers):
        super().__init__([p for o in optimizers for g in o.param_groups for p in g["params"]], {})


def an_optimizer(kind=torch.optim.Adam, count=1, **options):
    return kind([torch.nn.Parameter(torch.ones(1)) for _ in range(count)], **options)


def test_an_optimizer_that_calls_others_is_left_out():
    parts = [an_optimizer(), an_optimizer(count=2, foreach=True)]
    line = recognised_line([Calling(parts), *parts], Ranks())
    assert line.endswith(
        "; a step ends with Adam over 1 parameter and foreach Adam over 2 parameters"
    )
    # One that has parameters of its own besides stays.
    partial = Calling([*parts, an_optimizer()])
    assert "Calling over 4 parameters" in recognised_line([partial, *parts], Ranks())


def test_ways_of_the_model_are_told_while_it_lives():
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
        line = recognised_line([an_optimizer()], Ranks(0, 2))
        assert ", DDP" in line and line.endswith("; 2 local ranks")
        del model
        assert "DDP" not in recognised_line([an_optimizer()], Ranks())
    finally:
        torch.distributed.destroy_process_group()


class Unhashable(type):
    def __eq__(cls, other):
        raise AssertionError("compared")


class Odd(metaclass=Unhashable):
    @property
    def __class__(self):
        raise AssertionError("executed")


def test_objects_of_the_program_are_not_executed():
    odd = [Odd(), OrderedDict(a=Odd)]
    assert "recognised PyTorch" in recognised_line([an_optimizer()], Ranks())
    del odd
