"""Makes the tokens that the measured jobs train on, so that no measured time includes it."""

import programs
import pytest


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "job",
    [pytest.param("1b", marks=pytest.mark.full), pytest.param("tiny", marks=pytest.mark.tiny)],
)
def test_text(workspace, job):
    options = ["--job", job, "--device", "cpu", *workspace.text_options]
    programs.run(workspace.workload("jobs", *options), workspace.training_environment)
