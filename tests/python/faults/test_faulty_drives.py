"""Whole trainings on drives that fail and lie (faulty_trainings)."""

import json
import os
import sys
from pathlib import Path

import drawn
import pytest

pytestmark = pytest.mark.full

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1] / "programs")}


@pytest.fixture
def faulty_trainings(execute, tmp_path):
    def faulty_trainings(*arguments):
        command = (sys.executable, "-m", "faulty_trainings", *arguments, "--folder", tmp_path)
        return execute(*command, timeout_s=900, env=ENVIRONMENT)

    return faulty_trainings


def test_equal_bits_or_an_error_that_names_the_drive(faulty_trainings):
    first = drawn.one_of(range(0, 10_000, 40), "faulty drives")
    done = faulty_trainings(first, first + 40, "--jobs", 2)
    assert done.code == 0, done
    print(done.out)
    assert "equal bits" in done.out and "an error" in done.out  # both endings have been seen
    assert "some faults" in done.out


def test_a_seed_that_ends_wrongly_is_shrunk_and_repeated(faulty_trainings, tmp_path):
    """Without the checksum, one lost write gives other bits."""
    done = faulty_trainings(31, "--without-checksum")
    assert done.code == 1, done
    assert "WRONG seed 31" in done.out and "with other bits" in done.out
    (line,) = (line for line in done.out.splitlines() if line.startswith("{"))
    ((_, direction, kind, *_),) = json.loads(line)["faults"]
    assert (direction, kind) == ("write", "lost")
    (tmp_path / "kept.json").write_text(line)
    again = faulty_trainings("--repeat", tmp_path / "kept.json")
    assert again.code == 1 and "with other bits" in again.out, again
