"""The trainings that are measured, several ways each ("arms")."""

from dataclasses import dataclass

import pytest

HOST_ARMS = ("stock", "ample", "host-2", "host-3", "stock-again")
TINY_ARMS = ("stock", "ample", "both-2", "stock-again")


@dataclass(frozen=True)
class Training:
    """A job whose arms one process trains. No arm begins more than `seconds` after the first."""

    job: str
    precision: str
    arms: tuple[str, ...]
    seconds: float

    @property
    def title(self) -> str:
        return f"{self.job}-{self.precision}"


TINY = Training("tiny", "fp32", TINY_ARMS, 60)
FULL = (
    Training("1b", "bf16", HOST_ARMS, 100),
    Training("1b", "fp32", HOST_ARMS, 150),
)


def each_arm(trainings, mark):
    """The parameters ("training", "arm") of a test that measures the arms of `trainings`."""
    return [
        pytest.param(training, arm, id=f"{training.title}-{arm}", marks=mark)
        for training in trainings
        for arm in training.arms
    ]
