"""Whole trainings on drives that fail and lie (faulty_trainings.py)."""

import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("faulty_trainings.py")


@pytest.mark.full
@pytest.mark.parametrize(("first", "end"), [(0, 55), (55, 110)])
def test_equal_bits_or_an_error_that_names_the_drive(first, end, execute, tmp_path):
    done = execute(sys.executable, PROGRAM, first, end, "--folder", tmp_path, timeout_s=900)
    assert done.code == 0, done.out
    assert "equal bits" in done.out and "an error" in done.out  # both endings have been seen
    assert "some faults" in done.out
