"""`teraio probe`: it says what it writes before it writes, shows a bar, and writes no more."""

import json
import os
import re

import pytest
from terminal import Terminal
from tests.python.conftest import COMMAND

from teraio.units import parse_size

# All of them measure a drive, with some 1.5 GB of writes each.
pytestmark = pytest.mark.full


@pytest.fixture
def environment(tmp_path):
    return os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.fixture
def probe(teraio, environment, tmp_path):
    """Runs `teraio probe` on a folder of the test; gives what it prints."""

    def probe(*options):
        out = tmp_path / "hardware.json"
        words = ("probe", "--ssd", tmp_path, "--out", out, "--seconds", "0.5", *options)
        return teraio(*words, env=environment)

    return probe


def test_first_use_is_announced_and_keeps_its_word(probe, tmp_path):
    lines = probe("--rated-writes", "600TB").splitlines()
    announced = re.search(r"writes at most ([\d.]+ GB), takes about 0 to 2 s$", lines[0])
    (written,) = [line for line in lines if line.endswith("were written to measure")]
    written = written.partition(": ")[2].removesuffix(" were written to measure")
    size = [parse_size(text.replace(" ", "")) for text in (written, announced[1])]
    assert 5e8 < size[0] <= size[1] <= 2e9
    assert any(line.endswith("short probe") for line in lines)
    (drive,) = json.loads((tmp_path / "hardware.json").read_text())["drives"]
    assert drive["rated_bytes_written"] == 600e12


def test_what_is_known_is_not_measured_again(probe):
    probe()
    assert "rates are known from: short probe" in probe()


def test_a_terminal_shows_a_bar(environment, tmp_path):
    command = [COMMAND, "probe", "--ssd", tmp_path, "--out", tmp_path / "hardware.json"]
    with Terminal(command, environment, rows=30, columns=120) as terminal:
        assert terminal.exit_code() == 0
    shares = [int(share) for share in re.findall(rb"\[#*\.*\] (\d+) %", terminal.written)]
    assert shares == sorted(shares) and shares[0] < 30 and shares[-1] > 90
    assert "%" not in "".join(terminal.screen.display)  # it is gone in the end
