"""The benchmarks of training run to their end with tiny models, and leave the rows they promise."""

import json
import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

import dry_run
import varying_steps

pytestmark = pytest.mark.full


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.json"
    lines = [json.dumps({"text": f"sentence number {n} of many"}) for n in range(200)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def rows(path):
    """The rows of a benchmark, by name; each has a measure and a reference."""
    found = {row["name"]: row for row in json.loads(path.read_text())}
    for row in found.values():
        assert all(math.isfinite(row[key]) and row[key] > 0 for key in ("value", "reference")), row
        assert row["ratio"] == pytest.approx(row["value"] / row["reference"])
    return found


def test_programs_whose_steps_differ_are_measured(text, tmp_path):
    options = ["--quick", "--programs", "lengths", "pipeline"]
    assert varying_steps.main([*options, "--data", text, "--output", str(tmp_path)]) == 0
    share = "lengths: share of ops planned in the second half"
    assert share in rows(tmp_path / "varying_steps.json")


def test_dry_run_has_the_ops_and_the_peak_of_the_real_run(tmp_path):
    kinds = ["recurrent", "convolutions"]
    assert dry_run.main(["--small", "--kinds", *kinds, "--output", str(tmp_path)]) == 0
    found = rows(tmp_path / "dry_run.json")
    for kind in kinds:
        assert found[f"{kind}: equal ops"]["ratio"] == 1
        assert found[f"{kind}: peak"]["met"] is True
    steps = ("step, of a dry run", "step, of another machine")
    assert {f"{kind}: {step}" for kind in kinds for step in steps} <= found.keys()
    largest = [found[f"error, {step}: largest"]["value"] for step in steps]
    errors = [[abs(found[f"{kind}: {step}"]["ratio"] - 1) for kind in kinds] for step in steps]
    assert largest == [max(each) for each in errors]
