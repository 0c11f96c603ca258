"""The status line of `teraio run`: in a terminal beside all other output, and in files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from matrix import budgets
from terminal import Terminal

from teraio.watch.run_status import MemoryHistory, RunStatus, wear
from teraio.watch.status_line import PrintedLines, fitting, parts

PHASES = ("learning", "planning", "following a plan", "on demand")

# Trains until the file "enough" exists, and prints every tenth step.
TRAINING = """\
import os, sys
import torch

torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(6)])
optimizer = torch.optim.AdamW(model.parameters())
steps = 0
{begin}
while not os.path.exists("enough"):
    model(torch.ones(8, 512)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    steps += 1
    if steps % 10 == 0:
        {say}
{end}
print(f"{{steps}} steps")
"""
PRINTING = {
    "begin": "",
    "say": "print(f'printed {steps}', flush=True); os.system(f'echo child {steps}')",
    "end": "",
}
WITH_BAR = {
    "begin": "from tqdm import tqdm; bar = tqdm(desc='bar')",
    "say": "bar.update(10); bar.write(f'printed {steps}', file=sys.stdout)",
    "end": "bar.close()",
}
BUDGET = ("--device-budget", "12MB")


@pytest.fixture
def training(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TRAINING.format(**PRINTING))


@pytest.fixture
def training_with_bar(training):
    Path("train.py").write_text(TRAINING.format(**WITH_BAR))


def command(*options):
    return [sys.executable, "-m", "teraio", "run", *BUDGET, *options, "train.py"]


def is_status(line):
    return line.startswith(PHASES)


def shows(text):
    return lambda terminal: any(is_status(line) and text in line for line in terminal.lines())


def check_printed(lines, *who):
    """Each of them has printed whole lines in order."""
    (count,) = (int(line.split()[0]) for line in lines if line.endswith(" steps"))
    for each in who:
        expected = [f"{each} {step}" for step in range(10, count + 1, 10)]
        assert [line for line in lines if each in line] == expected


def test_terminal_has_whole_lines(training):
    with Terminal(command(), os.environ, rows=12, columns=80) as terminal:
        terminal.wait_for(shows("following a plan"))
        Path("enough").touch()
        assert terminal.exit_code() == 0
    check_printed(terminal.lines(), "printed", "child")
    assert not is_status(terminal.line_of_cursor())


@pytest.mark.full
def test_terminal_has_whole_lines_beside_a_bar_of_tqdm(training_with_bar):
    with Terminal(command(), os.environ, rows=12, columns=80) as terminal:
        terminal.wait_for(lambda terminal: "teraio: following a plan" in "".join(terminal.lines()))
        Path("enough").touch()
        assert terminal.exit_code() == 0
    lines = terminal.lines()
    check_printed(lines, "printed")
    others = [line for line in lines if line and not line.startswith("printed")]
    assert [line for line in others if line.startswith("teraio: ")] and len(others) < 20
    (bar,) = (line for line in others if line.startswith("bar: "))
    assert bar.endswith("it/s]")


@pytest.mark.full
def test_line_follows_the_size_of_the_terminal(training):
    with Terminal(command(), os.environ, rows=12, columns=30) as terminal:
        terminal.wait_for(shows("following a plan"))
        terminal.resize(rows=16, columns=120)
        terminal.wait_for(shows("memory"))
        Path("enough").touch()
        assert terminal.exit_code() == 0


@pytest.mark.full
def test_quiet_run_in_a_terminal_writes_nothing_of_its_own(training):
    Path("train.py").write_text("print('script')\n")
    with Terminal(command("--quiet"), os.environ, rows=8, columns=80) as terminal:
        assert terminal.exit_code() == 0
    assert terminal.written == b"script\r\n"


def read_until(stream, text):
    lines = ""
    while text not in lines:
        line = stream.readline()
        assert line, lines
        lines += line
    return lines


@pytest.mark.full
def test_file_gets_whole_lines_beside_a_progress_bar(training_with_bar, spawn):
    process = spawn(command())
    err = read_until(process.stderr, "teraio: following a plan, step ")
    Path("enough").touch()
    err += process.communicate()[1]
    assert process.returncode == 0
    lines = err.split("\n")
    phases = [line.removeprefix("teraio: ").split(",")[0] for line in lines if " | " in line]
    assert "following a plan" in phases and set(phases) <= set(PHASES)
    assert all(line.startswith("teraio: ") for line in lines if "/step" in line)
    assert "\033" not in err.replace("\033[A", "")  # which tqdm writes


@pytest.mark.full
def test_a_second_rank_has_no_line(training):
    program = TRAINING.format(**PRINTING).replace('not os.path.exists("enough")', "steps < 200")
    Path("train.py").write_text(program)
    rank = command("--local-rank=1", "--local-world-size=2")
    done = subprocess.run(rank, capture_output=True, text=True)
    assert done.returncode == 0 and "200 steps" in done.stdout
    assert not any(is_status(line.removeprefix("teraio: ")) for line in done.stderr.split("\n"))


STATUS = {
    "phase": "following a plan",
    "step": 128,
    "step_seconds": 3.21,
    "predicted_step_seconds": 3.1,
    "ideal_step_seconds": 2.4,
    "device_bytes": 11_800_000_000,
    "device_budget_bytes": 12_000_000_000,
    "tiers": {
        "ssd": {
            "read_bytes_per_second": 2.1e9,
            "write_bytes_per_second": 1e9,
            "read_limit_bytes_per_second": 3_400_000_000,
            "write_limit_bytes_per_second": 2_900_000_000,
        }
    },
    "stall_share": 0.08,
    "flop_utilisation": 0.38,
    "wear_per_day": 0.0031,
    "plan": {
        "from_step": 9,
        "is_kept": False,
        "is_found_by_search": True,
        "predicted_gain": 0.04,
        "is_searching": False,
        "search_seconds": 12,
    },
}


def test_line_has_the_most_important_parts_that_fit():
    assert fitting(parts(STATUS), 300) == (
        "following a plan, step 128 | 3.21 s/step (predicted 3.10 s, ideal 2.40 s) | "
        "memory 11.8 GB of 12.0 GB | stall 8 % | MFU 38 % | "
        "ssd read 2.10 GB/s of 3.40 GB/s, write 1.00 GB/s of 2.90 GB/s | wear per day 0.31 % | "
        "plan of step 9, 4 % faster, found in 12.00 s"
    )
    assert fitting(parts(STATUS), 90) == (
        "following a plan, step 128 | 3.21 s/step (predicted 3.10 s, ideal 2.40 s) | stall 8 %"
    )
    assert fitting(parts(STATUS), 10) == "following "


def test_line_leaves_out_what_is_not_known():
    unknown = dict.fromkeys(
        ("step_seconds", "predicted_step_seconds", "stall_share", "flop_utilisation")
        + ("wear_per_day", "plan")
    )
    assert parts({**STATUS, **unknown, "phase": "learning", "step": 0, "tiers": {}}) == [
        "learning, step 0",
        "memory 11.8 GB of 12.0 GB",
    ]


@pytest.mark.parametrize(
    "facts, text",
    [
        ({"is_searching": True}, "plan of step 9, searching for a better one"),
        ({"is_kept": True}, "plan of step 9, kept from an earlier search"),
        ({}, "plan of step 9"),
    ],
)
def test_line_tells_where_a_plan_is_from_and_whether_a_better_one_is_searched_for(facts, text):
    plan = {**STATUS["plan"], "is_found_by_search": False, **facts}
    assert parts({**STATUS, "plan": plan})[-1] == text


def test_printed_lines_become_rarer_until_the_phase_changes(capfd):
    now = 0
    lines = PrintedLines(os.dup(2), clock=lambda: now)
    lines.show({**STATUS, "step": 0})
    assert capfd.readouterr().err == ""  # no step has ended

    def printed(phase, until):
        nonlocal now
        times = []
        while now < until:
            lines.show({**STATUS, "phase": phase})
            if capfd.readouterr().err:
                times.append(now)
            now += 1
        return times

    assert printed("learning", 300) == [0, 30, 90, 210]
    assert printed("following a plan", 400) == [300, 330, 390]
    assert printed("learning", 3000) == [510, 750, 1230, 1830, 2430]
    lines.end()


def test_run_without_stderr_has_no_line(execute, tmp_path):
    (tmp_path / "train.py").write_text("print('script')\n")
    outcome = execute("sh", "-c", 'exec "$@" 2>&-', "sh", *command())
    assert (outcome.code, outcome.out) == (0, "script\n")


@pytest.mark.parametrize("budget", ["8MB", "12MB"])
def test_a_run_that_fits_says_once_that_it_needs_no_budget(one_settled_thread, caplog, budget):
    import torch

    weights = torch.nn.Parameter(torch.ones(500, 500))
    optimizer = torch.optim.AdamW([weights])
    with budgets.offload(budget) as session:
        status = RunStatus(session._core, is_planned=True)
        for _ in range(6):
            (torch.ones(500, 500) @ weights).square().mean().backward()
            optimizer.step()
            status.read()
    fits = session.counters()["natural_peak_bytes"] <= session._core.budget_bytes()
    said = ["it would train without TERAIO" in text for text in caplog.messages].count(True)
    assert said in ((1, 2) if fits else (0,))  # the session has a status of its own


def test_status_agrees_with_the_session(one_settled_thread):
    import torch

    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(6)])
    optimizer = torch.optim.AdamW(model.parameters())
    with budgets.offload("12MB") as session:
        status = RunStatus(session._core, is_planned=True)
        assert status.read()["phase"] == "learning"
        for _ in range(8):
            model(torch.ones(8, 512)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        read = status.read()
        counters, iterations = session.counters(), session.iterations()
    assert read["phase"] == "following a plan"
    assert read["step"] == len(iterations) == 8
    assert read["device_budget_bytes"] == 12_000_000
    assert 0 < read["device_bytes"] <= read["device_peak_bytes"] <= 12_000_000
    assert read["predicted_step_seconds"] >= read["ideal_step_seconds"] > 0
    assert 0 <= read["stall_share"] < 1
    assert 2 < read["plan"]["from_step"] <= 9  # the next step
    assert read["tiers"]["ssd"]["write_bytes_per_second"] > 0
    assert read["tiers"]["ssd"]["write_limit_bytes_per_second"] > 0
    assert counters["ssd_bytes_written"] > 0
    assert max(read["memory_bytes"]) == max(each["device_peak_bytes"] for each in iterations)
    # The end of the session has lifted the budget, to restore all tensors.
    assert status.read()["device_budget_bytes"] == 12_000_000


def test_history_keeps_the_maximum_of_each_part_of_the_last_steps():
    memory = MemoryHistory()
    for tick in range(400):
        memory.add(now=tick / 2, size_bytes=tick % 10, step_seconds=50)
    assert memory.cells() == [9] * 40  # four steps of 50 s in cells of 5 s


def test_wear_is_that_of_the_drive_which_wears_out_first():
    def drives(*bytes_written):
        return [{"bytes_written": each} for each in bytes_written]

    rated = [{"rated_bytes_written": 600}, {"rated_bytes_written": 1200}]
    assert wear(rated, drives(30, 10), 8) == 8 * 3 / 4 / 600
    assert wear(rated, drives(10, 30), 8) == 8 * 3 / 4 / 1200
    assert wear(rated, drives(0, 0), 0) == 0
    unrated = [{"rated_bytes_written": None}]
    assert wear(unrated, drives(10), 8) is None
    assert wear([*unrated, rated[1]], drives(30, 10), 8) == 8 / 4 / 1200
