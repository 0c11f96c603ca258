"""`teraio top`: running jobs are shown, dead ones are told, ended ones are gone."""

import os
import shutil
import signal
import stat
import sys
import time

import pytest
from terminal import Terminal

from teraio.commands.top import sparkline
from teraio.directories import cache_directory
from teraio.watch.status_file import StatusFile, read_jobs

# Trains until the file that its argument names exists, and leaves the cores to the commands.
TRAINING = """\
import os, sys, time
import torch

torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(6)])
optimizer = torch.optim.AdamW(model.parameters())
while not os.path.exists(sys.argv[1]):
    model(torch.ones(8, 512)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.05)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The folder of the program, and the environment's folder of status files."""
    (tmp_path / "train.py").write_text(TRAINING)
    (tmp_path / "run").mkdir()
    (tmp_path / "cache" / "teraio").mkdir(parents=True)
    for rates in cache_directory().glob("probe-*.json"):  # measuring the drive again takes a while
        shutil.copy(rates, tmp_path / "cache" / "teraio")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def top(warm_python, place):
    return lambda *words: warm_python("-m", "teraio", "top", *words)


@pytest.fixture
def start(spawn, place):
    """Starts a training within a budget and waits until it follows a plan."""

    def start(*options, budget="12MB"):
        command = [sys.executable, "-m", "teraio", "run", "--quiet", "--device-budget", budget]
        process = spawn([*command, *options, "train.py", "enough"])
        wait_until(lambda: phase_of(process) == "following a plan", process)
        return process

    return start


def wait_until(condition, process):
    while not condition():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def phase_of(process):
    return next((job["phase"] for job in read_jobs() if job["process"] == process.pid), None)


def row_of(process, shown):
    (row,) = (line for line in shown.out.splitlines() if line.startswith(f"{process.pid} "))
    return row


@pytest.mark.full
def test_job_is_shown_while_it_runs(start, top, place):
    process = start("--report", "report")
    shown = top("--once")
    assert shown.code == 0 and shown.out.split()[:3] == ["process", "program", "phase"]
    row = row_of(process, shown)
    assert "train.py" in row and "following a plan" in row and " of 12.0 MB" in row
    assert "█" in row or "▇" in row
    for word in (process.pid, os.getpid(), ".", place / "report"):
        assert row_of(process, top("--once", str(word)))
    (place / "elsewhere").mkdir()
    for word in ("1", "elsewhere"):
        assert top("--once", word).code == 1
    (file,) = (place / "run" / "teraio").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    (place / "enough").touch()
    assert process.wait() == 0
    assert list(file.parent.iterdir()) == []
    assert top("--once").out == "No job runs under TERAIO here.\n"


@pytest.mark.full
def test_job_that_was_killed_is_dead_for_an_hour(start, top, place):
    process = start()
    process.kill()
    process.wait()
    assert "dead since " in row_of(process, top("--once"))
    (file,) = (place / "run" / "teraio").iterdir()
    os.utime(file, (time.time() - 3601,) * 2)
    assert top("--once").code == 1
    assert not file.exists()


@pytest.mark.full
def test_ranks_have_a_row_each(start, top):
    ranks = [
        start("--local-rank", str(rank), "--local-world-size", "2", budget="24MB")
        for rank in (1, 0)
    ]
    rows = top("--once").out.splitlines()[1:]
    assert [row.split()[:2] for row in rows] == [
        [str(process.pid), f"{rank}/2"] for rank, process in enumerate(reversed(ranks))
    ]


@pytest.mark.full
def test_screen_is_refreshed_until_ctrl_c(start, place):
    process = start()
    command = [sys.executable, "-m", "teraio", "top"]
    with Terminal(command, os.environ, rows=10, columns=100) as terminal:

        def shows(text):
            return lambda terminal: any(text in line for line in terminal.screen.display)

        terminal.wait_for(shows("following a plan"))
        process.kill()
        process.wait()
        terminal.wait_for(shows("dead since"))
        os.kill(terminal.process, signal.SIGINT)
        assert terminal.exit_code() == 0


@pytest.mark.parametrize("words", [["nowhere"], ["--nonsense"], ["1", "2"]])
def test_wrong_use_ends_with_2(top, words):
    shown = top(*words)
    assert shown.code == 2 and shown.out == ""
    assert shown.err.startswith("teraio top: ") and shown.err.count("\n") == 1


def status_file(**changes):
    """Writes a file of this process, with changes."""
    file = StatusFile({"local_rank": 0, "local_world_size": 1, "directory": "", "report": None})
    file.write({"phase": "learning", **changes})
    return file


def test_other_machines_and_other_users_of_a_number_are_told_apart(place):
    file = status_file()
    assert [job["is_dead"] for job in read_jobs()] == [False]
    status_file(process_start=1)  # another process had this number
    assert [job["is_dead"] for job in read_jobs()] == [True]
    status_file(machine="another")
    assert read_jobs() == []
    file.end()
    assert not any((place / "run" / "teraio").iterdir())


def test_broken_file_is_passed_over(place):
    status_file()
    for content in ("", "{", "[]", "{}", '{"format": "teraio-status/2"}', "\0"):
        (place / "run" / "teraio" / "x.json").write_text(content)
        assert len(read_jobs()) == 1


def test_directory_that_is_not_the_users_own_is_not_used(place):
    (place / "other").mkdir()
    (place / "run" / "teraio").symlink_to(place / "other")
    status_file()
    assert not any((place / "other").iterdir())
    assert len(list((place / "cache" / "teraio" / "status").iterdir())) == 1
    assert len(read_jobs()) == 1


def test_jobs_started_without_a_runtime_directory_are_found(place, monkeypatch):
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    status_file()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place / "run"))
    assert len(read_jobs()) == 1


def test_sparkline_is_relative_to_the_budget():
    assert sparkline([0, 50, 100, 120], 100, can_draw=True) == "▁▅██"
    assert sparkline([0, 50, 100, 120], 100, can_draw=False) == "_+##"
