"""Measures trainings within budgets beside stock PyTorch."""

import pytest
from trainings import FULL, TINY, each_arm

ARMS = each_arm(FULL, pytest.mark.full) + each_arm(TINY, pytest.mark.tiny)


@pytest.mark.timeout(150)
@pytest.mark.needs_seconds(20)
@pytest.mark.parametrize(("training", "arm"), ARMS)
def test_arm(training, arm, measure):
    measure(training, arm)
