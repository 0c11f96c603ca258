"""Trainings that are killed at random moments leave nothing (killed_trainings.py)."""

import os
import sys
from pathlib import Path

import drawn
import pytest

PROGRAM = Path(__file__).parents[1] / "programs" / "killed_trainings.py"


@pytest.mark.full
def test_nothing_is_left_and_nothing_is_readable(execute, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("missing: root, for mounts")
    first = 4 * drawn.NUMBER
    done = execute(sys.executable, PROGRAM, first, first + 4, "--folder", tmp_path, timeout_s=600)
    assert done.code == 0, done
    assert "killed in round" in done.out
