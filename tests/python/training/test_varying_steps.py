"""Training whose steps differ follows plans, with equal bits (benchmarks/varying)."""

import functools
import sys
from pathlib import Path

import drawn
import numpy as np
import pytest
from matrix import budgets

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))

import pretrain_llama
import varying_steps
from llama import record
from varying import parts, train
from varying.trainers import ITERATIONS

pytestmark = pytest.mark.usefixtures("one_settled_thread")

STEPS = 30
WARM_UP_STEPS = 10  # in which patterns are new
PEAK_STEPS = 2
LEARNED_BYTES_MAX = 64 << 20
STRESSED_ITERATIONS = 9  # by which each program of parts follows a plan
PROGRAMS = {p.name: varying_steps.quick(p) for p in varying_steps.PROGRAMS}


def training(name, options, steps):
    """A training of random tokens."""
    args = pretrain_llama.parse_arguments([*options.split(), "--steps", str(steps)])
    config = pretrain_llama.config_of(args)
    tokens = np.random.default_rng(1).integers(config.vocab_size, size=200_000, dtype=np.uint16)
    return train.PROGRAMS[name](args, config, tokens)


def yields(name):
    """Runs a program; returns its losses, and hashes of what it trained."""
    run = training(name, PROGRAMS[name].options, STEPS)
    run.run()
    hashes = [record.model_sha256(run.model), record.optimizer_sha256(run.optimizer)]
    return run.history["losses"], hashes


def run_within(budget, name, **options):
    with budgets.offload(budget, **options) as session:
        return yields(name), session


@pytest.fixture(scope="module")
def reference():
    """What a program yields on stock PyTorch, and the peak of its largest step, by its name."""
    known = {}

    def reference(name):
        if name not in known:
            known[name] = yields(name), peak_bytes(PROGRAMS[name])
        return known[name]

    return reference


def peak_bytes(program):
    with budgets.offload(budgets.UNLIMITED) as session:
        training(program.largest, program.options, PEAK_STEPS).run()
    return max(iteration["device_peak_bytes"] for iteration in session.iterations())


def planned_share(iterations):
    planned = sum(iteration["planned_op_count"] for iteration in iterations)
    return planned / sum(iteration["op_count"] for iteration in iterations)


FULL = ("experts",)  # the slowest of the programs


@pytest.mark.parametrize(
    "name", [pytest.param(p, marks=pytest.mark.full) if p in FULL else p for p in PROGRAMS]
)
@pytest.mark.parametrize(
    "share", [50, pytest.param(drawn.one_of((35, 25), "share"), marks=pytest.mark.full)]
)
def test_steps_that_differ_follow_plans_with_equal_bits(name, share, reference):
    expected, natural_bytes = reference(name)
    budget_bytes = natural_bytes * share // 100
    actual, session = run_within(budget_bytes, name, plans_in_background=False)
    assert actual == expected
    iterations = session.iterations()
    assert max(iteration["device_peak_bytes"] for iteration in iterations) <= budget_bytes
    assert session.counters()["ssd_bytes_written"] > 0
    assert planned_share(iterations[WARM_UP_STEPS:]) >= PROGRAMS[name].planned_target


IN_BACKGROUND = [n if n == "buckets" else pytest.param(n, marks=pytest.mark.full) for n in PROGRAMS]


@pytest.mark.parametrize("name", IN_BACKGROUND)
def test_plans_that_are_made_meanwhile_leave_the_bits(name, reference):
    expected, natural_bytes = reference(name)
    actual, _ = run_within(natural_bytes // 2, name, plans_in_background=True)
    assert actual == expected


def test_what_a_session_tells_of_its_patterns_agrees(reference):
    budget_bytes = reference("buckets")[1] // 2
    _, session = run_within(budget_bytes, "buckets", plans_in_background=False)
    counters, iterations, patterns = session.counters(), session.iterations(), session.patterns()
    assert counters["ops"] >= sum(iteration["op_count"] for iteration in iterations)
    assert counters["planned_ops"] >= sum(i["planned_op_count"] for i in iterations) > 0
    assert counters["plans_made"] >= sum(pattern["is_planned"] for pattern in patterns) > 0
    assert counters["planning_ns"] > 0
    for pattern in patterns:
        those = [iteration for iteration in iterations if iteration["pattern"] == pattern["id"]]
        assert pattern["iterations"] == len(those) > 0
        assert {iteration["op_count"] for iteration in those} == {pattern["op_count"]}
        assert pattern["planned_ops"] == sum(each["planned_op_count"] for each in those)
        assert pattern["size_bytes"] > 0
    assert len({pattern["id"] for pattern in patterns}) == len(patterns)


def test_on_demand_nothing_is_planned():
    with budgets.offload(budgets.UNLIMITED, policy="on-demand") as session:
        training("fixed", PROGRAMS["lengths"].options, 5).run()
    assert session.counters()["ops"] > 0
    assert session.counters()["planned_ops"] == session.counters()["plans_made"] == 0
    assert all(iteration["planned_op_count"] == 0 for iteration in session.iterations())


PARTS = (*parts.PROGRAMS, parts.steps_in_backward, parts.judged)


def parts_yield(program, iterations=ITERATIONS):
    losses, model = parts.train(program, iterations)
    return losses, record.model_sha256(model)


def parts_within(budget, program, iterations=ITERATIONS, **options):
    with budgets.offload(budget, **options) as session:
        return parts_yield(program, iterations), session


@functools.cache
def reference_of_parts(program, iterations=ITERATIONS):
    """What the program yields on stock PyTorch, and its peak."""
    expected = parts_yield(program, iterations)
    actual, session = parts_within(budgets.UNLIMITED, program, iterations, policy="on-demand")
    assert actual == expected
    return expected, max(each["device_peak_bytes"] for each in session.iterations())


@pytest.mark.parametrize(
    "program", [PARTS[0], *(pytest.param(p, marks=pytest.mark.full) for p in PARTS[1:])]
)
def test_parts_follow_plans_with_equal_bits(program):
    expected, peak_bytes = reference_of_parts(program)
    actual, session = parts_within(peak_bytes // 3, program)
    assert actual == expected
    iterations = session.iterations()
    assert len(iterations) == ITERATIONS * (2 if program is parts.rollouts else 1)  # updates
    assert max(each["device_peak_bytes"] for each in iterations) <= peak_bytes // 3
    assert session.counters()["ssd_bytes_written"] > 0
    assert planned_share(iterations[len(iterations) // 2 :]) >= varying_steps.PLANNED_TARGET
    assert sum(pattern["size_bytes"] for pattern in session.patterns()) <= LEARNED_BYTES_MAX


@pytest.mark.full
@pytest.mark.parametrize("stress", ["evict_after_every_op", "discard_after_every_op"])
@pytest.mark.parametrize("program", PARTS)
def test_stress_leaves_the_bits(program, stress):
    expected, _ = reference_of_parts(program, STRESSED_ITERATIONS)
    actual, session = parts_within(
        budgets.UNLIMITED, program, STRESSED_ITERATIONS, **{stress: True}
    )
    assert actual == expected
    assert session.counters()["planned_ops"] > 0
