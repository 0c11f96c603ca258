"""The least device budget that `teraio run` names where it cannot run a program: it suffices."""

import argparse
import functools
import re
import sys
from pathlib import Path

import drawn
import pytest

from teraio.commands import trial

TRAININGS = Path(__file__).parents[1] / "programs" / "refused_trainings.py"


PATIENT = """\
import sys
from teraio.commands import run, trial
trial._TIME_LIMIT_S = 3600
sys.exit(run.run(sys.argv[1:]))
"""


@pytest.fixture
def warm_run(warm_python, tmp_path):
    """Runs `teraio run ARGUMENTS...`, whose trials may take as long as a busy machine lets them."""
    (tmp_path / "patient.py").write_text(PATIENT)
    return functools.partial(warm_python, "patient.py")


def named_bytes(line):
    """The budget that a line names."""
    match = re.search(
        r"the least device budget for the first steps of \S+ is \S+ \S+, by a dry run"
        r"(?:, with the largest sizes that data can decide)?: "
        r"give --device-budget (\d+), or more, which is faster$",
        line,
    )
    assert match, line
    return int(match[1])


PROGRAMS = (
    *("convolutions", "small_states", "sparse_table", "compressed_graph"),
    *("llama, fused AdamW, schedule", "llama, accumulation", "encoder, foreach, accumulation"),
    *("recurrent", "evaluated_encoder", "experts, AdamW", "experts, foreach, autocast"),
)


@pytest.mark.parametrize(
    "name",
    [
        "perceptron",
        *(pytest.param(name, marks=pytest.mark.full) for name in drawn.in_turn(PROGRAMS)),
    ],
)
def test_a_refused_program_runs_with_the_budget_that_is_named(warm_run, warm_python, name):
    refused = warm_run("--device-budget", "1MB", TRAININGS, name)
    assert refused.code == 1 and "torch.OutOfMemoryError: TERAIO: op" in refused.err, refused
    named = named_bytes(refused.err.splitlines()[-1])
    ran = warm_run("--quiet", "--device-budget", named, TRAININGS, name)
    assert (ran.code, ran.out) == (0, warm_python(TRAININGS, name).out), ran


def test_without_a_budget_the_least_one_is_named_with_the_largest_sizes(warm_run):
    outcome = warm_run(TRAININGS, "experts, AdamW")
    began, ended = outcome.err.splitlines()
    assert outcome.code == 2 and began.startswith("teraio run: a dry run of "), outcome
    assert "--device-budget is missing" in ended and "largest sizes that data can decide: " in ended
    assert named_bytes(ended) > 10**6


@pytest.mark.full
def test_what_a_dry_run_cannot_know_is_said(warm_run, tmp_path):
    (tmp_path / "train.py").write_text(
        "import torch\nif (torch.randn(3000, 1000) > 0)[0, 0]: pass\n"
    )
    outcome = warm_run("--device-budget", "1MB", "train.py")
    assert outcome.code == 1 and "needs a budget of at least 12001280 bytes" in outcome.err
    last = outcome.err.splitlines()[-1]
    assert last.startswith("teraio run: a dry run does not tell the least device budget: ")
    assert "train.py:2" in last


@pytest.mark.parametrize(
    "program, environment, reason",
    [
        ("while True: pass", {}, "it took more than 0.01 s"),
        ("raise SystemExit(3)", {}, "it ended with exit code 3"),
        ("", {"WORLD_SIZE": "4"}, "`teraio suggest --least-budget --world-size 4 "),
    ],
)
def test_why_a_trial_tells_nothing(monkeypatch, program, environment, reason):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(trial, "_TIME_LIMIT_S", 0.01 if "while" in program else 3600)
    options = argparse.Namespace(script=["train.py"], module=None, device="cpu")
    one = trial.Trial(options)
    one._command = [sys.executable, "-c", program]  # instead of the dry run of train.py
    assert reason in one.sentence()
