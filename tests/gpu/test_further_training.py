"""Measures further jobs, and the first ones once more."""

import pytest
from trainings import FURTHER, each_arm

*NEW, FP32_AGAIN, BF16_AGAIN = FURTHER
ARMS = each_arm(NEW, pytest.mark.full)
ARMS += each_arm([FP32_AGAIN, BF16_AGAIN], pytest.mark.full, "-again")


@pytest.mark.timeout(75)
@pytest.mark.needs_seconds(20)
@pytest.mark.parametrize(("training", "arm"), ARMS)
def test_arm(training, arm, measure):
    measure(training, arm)
