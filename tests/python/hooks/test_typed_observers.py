"""Ops that are observed by the types of their arguments are told as those that are boxed.

An op is boxed where it may have to run again (pytorch/observe/typed_observer.h): all are in a
session that discards after every op, and those that have no observer of their own in one that only
evicts.
"""

import json

import pytest
from matrix import budgets, catalogue


def recorded(job, path, **stress):
    """The ops of an iteration and their tensors, which are numbered as they appear. Without times,
    and without workspaces, which include what is kept of an op that may run again."""
    _, session = budgets.train_within(job, "1GB", **stress)
    session.trace().save(path)
    trace = json.loads(path.read_text())
    tensors = {tensor.pop("id"): tensor for tensor in trace["tensors"]}
    numbers = {}
    for op in trace["ops"]:
        del op["duration_ns"], op["workspace_bytes"]
        for use in ("reads", "writes"):
            op[use] = [numbers.setdefault(tensor, len(numbers)) for tensor in op[use]]
        # What dies at once dies in any order.
        op["frees"] = sorted(numbers.get(tensor, -1) for tensor in op["frees"])
    return trace["ops"], [tensors[tensor] for tensor in numbers]


@pytest.mark.parametrize(
    "name",
    [
        "experts, foreach, autocast",
        pytest.param("llama, AdamW", marks=pytest.mark.full),
        pytest.param("llama, bf16 autocast, gradients zeroed", marks=pytest.mark.full),
        pytest.param("encoder, dropout, evaluation", marks=pytest.mark.full),
        pytest.param("recurrent, AdamW, clipping", marks=pytest.mark.full),
    ],
)
def test_typed_and_boxed_observers_tell_the_same(name, tmp_path):
    job = catalogue.JOBS[name]
    typed = recorded(job, tmp_path / "typed.json", evict_after_every_op=True)
    boxed = recorded(job, tmp_path / "boxed.json", discard_after_every_op=True)
    assert len(typed[0]) > 100
    assert typed == boxed
