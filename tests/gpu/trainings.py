"""The trainings that are measured, several ways each ("arms")."""

from dataclasses import dataclass

import pytest

HOST_ARMS = ("stock", "ample", "host-2", "host-3")
WITHIN_22_GB = "host-at-22000000000"  # what a GPU of 24 GB has for a training
TINY_ARMS = ("stock", "ample", "both-2", "stock-again")


@dataclass(frozen=True)
class Training:
    """A job whose arms one process trains. No arm begins more than `seconds` after the first.

    With `is_profiled`, each arm ends with a step under PyTorch's profiler.
    """

    job: str
    precision: str
    arms: tuple[str, ...]
    seconds: float
    is_profiled: bool = False

    @property
    def title(self) -> str:
        return f"{self.job}-{self.precision}{'-profiled' if self.is_profiled else ''}"


TINY = (
    Training("tiny", "fp32", TINY_ARMS, 60),
    Training("tiny-muon", "bf16", ("stock", "both-2"), 60, is_profiled=True),
)
FULL = (
    Training("1b", "bf16", (*HOST_ARMS, "stock-again"), 80),
    Training("1b", "bf16", ("stock", "ample", "host-2"), 60, is_profiled=True),
    Training("1b", "fp32", HOST_ARMS, 150),
    Training("llama3-8b", "bf16", ("stock", "ample", WITHIN_22_GB, "host-2"), 220),
    Training("1b-muon", "bf16", ("stock", "ample", "host-2"), 60),
)


def each_arm(trainings, mark):
    """The parameters ("training", "arm") of a test that measures the arms of `trainings`."""
    return [
        pytest.param(training, arm, id=f"{training.title}-{arm}", marks=mark)
        for training in trainings
        for arm in training.arms
    ]
