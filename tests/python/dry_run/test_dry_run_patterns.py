"""`teraio dry-run --steps`: programs whose steps differ, by the patterns of their steps."""

import json
import re
from pathlib import Path

import pytest

HARDWARE = Path(__file__).parents[3] / "tests" / "data" / "traces" / "h100_ssd.json"

PROGRAM = """\
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
optimizer = torch.optim.AdamW(model.parameters())
for letter in "{letters}":
    if letter == "e":
        with torch.no_grad():
            model(torch.randn(32, 64))
        continue
    optimizer.zero_grad()
    rows = {{"a": 40_000, "b": 80_000, "c": 20_000}}.get(letter, 10_000 * ord(letter))
    model(torch.randn(rows, 64)).square().mean().backward()
    optimizer.step()
"""


@pytest.fixture
def program(tmp_path):
    """Writes train.py, whose steps have the sizes of the letters; "e" is an evaluation between."""

    def program(letters):
        (tmp_path / "train.py").write_text(PROGRAM.format(letters=letters))
        return "train.py"

    return program


@pytest.fixture
def predicted(dry_run, program):
    """What a dry run of some steps prints."""

    def predicted(letters, *options):
        outcome = dry_run(*options, program(letters))
        assert outcome.code == 0, outcome
        return outcome.out

    return predicted


def rows_of(trace):
    """The number of rows of the largest activation, which has 256 columns."""
    return max(t["bytes"] for t in trace["tensors"] if not t["persistent"]) // (256 * 4)


def step_ns(trace):
    return sum(op["duration_ns"] for op in trace["ops"])


def test_mean_step_is_that_of_the_patterns_by_their_shares(predicted, tmp_path):
    said = predicted("aaabbaaabb", "--steps", "10", "--save-trace", "job.json")
    assert "2 patterns in 9 steps" in said  # the first one makes the states
    assert re.search(r"^  1: 55\.6 % of the steps, ", said, re.MULTILINE)
    assert re.search(r"^  2: 44\.4 % of the steps, ", said, re.MULTILINE)
    assert "traces: --trace job-1.json job-2.json --shares 5,4" in said
    small, large = [json.loads((tmp_path / f"job-{n}.json").read_text()) for n in (1, 2)]
    assert (rows_of(small), rows_of(large)) == (40_000, 80_000)
    mean_us = (5 * step_ns(small) + 4 * step_ns(large)) / 9 / 1e3
    assert f"mean step: {mean_us:.0f} us with unlimited device memory" in said
    assert not (tmp_path / "job.json").exists()


def test_steps_that_never_repeat_have_their_mean(predicted):
    def step_ms(said):
        return float(re.search(r"step: ([\d.]+) ms with", said)[1])

    said = predicted("fghijklmno", "--steps", "10")
    assert "8 patterns in 9 steps" in said  # of nine, two count as one
    assert step_ms(said) == pytest.approx(step_ms(predicted("kkkk")), rel=0.01)
    assert "no two of 5 steps in a row are alike" in predicted("fghij")


def test_steps_of_two_optimizers_that_never_repeat_have_their_mean(dry_run, tmp_path):
    (tmp_path / "train.py").write_text("""\
import torch
model = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)
optimizers = [torch.optim.Adam(each.parameters()) for each in model]
for step in range(8):
    model[1](model[0](torch.randn(100 + step, 64))).square().mean().backward()
    for optimizer in optimizers:
        optimizer.step()
""")
    assert "patterns in 15 steps" in dry_run("train.py").out


def test_patterns_share_their_persistent_tensors(predicted, tmp_path):
    predicted("aaabbb", "--steps", "6", "--save-trace", "job.json.gz")
    predicted("aaabbb", "--steps", "6", "--save-trace", "job.json")

    def persistent(number):
        trace = json.loads((tmp_path / f"job-{number}.json").read_text())
        return {(t["id"], t["bytes"], t.get("name")) for t in trace["tensors"] if t["persistent"]}

    assert persistent(1) == persistent(2)
    assert (tmp_path / "job-2.json.gz").exists()


def test_patterns_are_planned_for_a_machine(predicted):
    said = predicted("aaabbb", "--steps", "6", "--hardware", HARDWARE, "--device-budget", "250MB")
    for row in (r"pattern-1.json +60\.0 %", r"pattern-2.json +40\.0 %", "mean step", "in random"):
        assert re.search(f"^{row} ", said, re.MULTILINE), said


def test_steps_of_one_pattern_are_that_step(predicted, tmp_path):
    said = predicted("aaaaaa", "--steps", "6", "--save-trace", "job.json")
    assert said == predicted("aaaaaa")
    assert (tmp_path / "job.json").exists()


@pytest.mark.parametrize(
    "letters, steps, expected",
    [
        ("aaabaaac", 8, "3 patterns in 7 steps"),
        ("aaabbabab", 9, "2 patterns in 8 steps"),  # each is known by its ops in any order
        ("aaaeaeaaa", 7, "2 patterns in 6 steps"),  # an evaluation is of the step after it
        ("aaabbb", 100, "2 patterns in 5 steps"),  # the script may end before
        ("aaab" * 8, 32, "in 4 steps"),  # they come to take turns
        ("abcabc", 4, "3 patterns in 3 steps"),
        ("abcbabcb", 8, "3 patterns in 7 steps"),
    ],
)
def test_patterns_of_steps(predicted, letters, steps, expected):
    assert expected in predicted(letters, "--steps", steps)


def test_steps_that_take_turns_are_one_iteration(predicted, tmp_path):
    alternating = predicted("ab" * 10, "--steps", "20", "--save-trace", "job.json")
    assert re.search(r"\d+ ops in 2 steps", alternating)
    trace = json.loads((tmp_path / "job.json").read_text())
    mean, both = step_ns(trace) / 2e3, step_ns(trace) / 1e3
    assert f"step: {mean:.0f} us, the mean of 2 in {both:.0f} us, with unlimited" in alternating
    assert predicted("ab" * 10) == alternating


def test_equal_steps_of_many_optimizers_are_one_iteration(dry_run, tmp_path):
    (tmp_path / "train.py").write_text("""\
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(56)])
optimizers = [torch.optim.Adam(each.parameters()) for each in model]
for step in range(6):
    model(torch.randn(8, 64)).square().mean().backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
""")
    outcome = dry_run("train.py")
    assert "ops in 56 steps" in outcome.out and "the mean of 56 in" in outcome.out, outcome
    # Parameters, and the two moments of all of them.
    assert float(re.search(r"memory: (\S+) MB at the peak", outcome.out)[1]) > 56 * 4160 * 3 * 4e-6


def test_a_step_that_others_differ_from_says_how_to_predict_them(predicted):
    hint = r"other steps executed other ops, with \S+ \S+ at most: --steps N predicts the mean"
    assert re.search(hint, predicted("abaaaa"))
    assert not re.search(hint, predicted("aaaaaa"))


def test_too_few_steps_are_refused(dry_run, program):
    outcome = dry_run("--steps", "1", program("aaa"))
    assert outcome.code == 2
    assert "--steps is 1: expected at least 2" in outcome.err


@pytest.mark.parametrize(
    "letters, complaint",
    [
        ("a", "after 1 optimizer step, before a step had repeated: let it run at least 3"),
        ("abc", "after 3 optimizer steps, before a step had repeated: let it run at least 4"),
    ],
)
def test_a_script_that_ends_early_is_told_how_many_steps_suffice(
    dry_run, program, letters, complaint
):
    outcome = dry_run(program(letters))
    assert (outcome.code, outcome.err) == (1, f"teraio dry-run: the script ended {complaint}\n")
