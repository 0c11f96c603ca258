"""TorchTitan with the newest PyTorch gives equal bits in a quarter or a half of its memory."""

import importlib.metadata
import importlib.util

import drawn
import pytest
from front_end_trainings import (
    ENVIRONMENT,
    PROGRAMS,
    SHARES,
    Training,
    alone,
    by_ranks,
    check_equal_bits,
)
from warm_python import WarmPython

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

# By what each of them shows: the ways to train, each in a process of its own.
ALONE = {
    "one process": ("one process",),
    "its own compile and selective checkpointing": ("compiled",),
    "saved and resumed": ("saved", "resumed"),
}
TWO_RANKS = ("FSDP2", "tensor parallel", "pipeline")


@pytest.fixture(scope="module")
def warm_titan():
    if importlib.util.find_spec("torchtitan") is None:
        pytest.skip("missing: the package torchtitan")
    if importlib.metadata.version("torchtitan") < "0.3":
        pytest.skip("not applicable: test_front_ends.py trains with TorchTitan 0.2")
    server = WarmPython(("titan_newest",), ENVIRONMENT)
    yield server
    server.close()


@pytest.mark.parametrize("name", drawn.in_turn(ALONE))
def test_one_process(warm_titan, tmp_path, name):
    ways = ALONE[name]
    words = [[PROGRAMS / "titan_newest.py", way] for way in ways]
    training = Training(alone(warm_titan), tmp_path, *words)
    folder = "rank0/dump" if "saved" in ways else None
    peak_bytes = check_equal_bits(training, drawn.one_of(SHARES, name), folder)
    if name == "one process":
        assert training.predicted_peak_bytes() == pytest.approx(peak_bytes, rel=0.02)


@pytest.mark.parametrize("way", drawn.in_turn(TWO_RANKS))
def test_two_ranks(warm_titan, tmp_path, way):
    training = Training(by_ranks(warm_titan, 2), tmp_path, [PROGRAMS / "titan_newest.py", way])
    check_equal_bits(training, drawn.one_of(SHARES, way))
