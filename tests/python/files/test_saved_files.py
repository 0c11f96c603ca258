"""What a run leaves behind: the files that were asked for, however the script ends."""

import errno
import json
import os
import signal
import stat
import subprocess
import sys

import pytest

from teraio.files.atomic_file import replace_file

TRAINING = """\
import os, signal, sys, torch
def train(steps=6):
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(6)])
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(steps):
        model(torch.ones(8, 1024)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
FILES = ("--save-trace", "trace.json", "--save-plan", "plan.json", "--report", "report")


@pytest.fixture
def run(warm_python, tmp_path):
    """Runs the training and then `ending`, with the files wanted."""

    def run(ending, *options, training="train()"):
        (tmp_path / "train.py").write_text(f"{TRAINING}{training}\n{ending}\n")
        options = ["--device-budget", "40MB", *FILES, *options]
        return warm_python("-m", "teraio", "run", *options, "train.py")

    return run


def told_by(outcome):
    """The lines that the command itself writes, besides those of the log, such as slow drives."""
    return [line for line in outcome.err.splitlines() if line.startswith("teraio run: ")]


ENDINGS = {
    "ValueError": ("raise ValueError('bad')", 1),
    "KeyboardInterrupt": ("os.kill(os.getpid(), signal.SIGINT); signal.pause()", -signal.SIGINT),
    "SystemExit": ("sys.exit(3)", 3),
    "OutOfMemoryError": ("torch.empty(10**9)", 1),
}


@pytest.mark.parametrize(
    "name",
    [
        name if name.startswith("K") else pytest.param(name, marks=pytest.mark.full)
        for name in ENDINGS
    ],
)
def test_files_are_saved_when_the_script_is_ended_by(run, tmp_path, name):
    ending, code = ENDINGS[name]
    outcome = run(ending)
    assert outcome.code == code, outcome
    assert told_by(outcome) == [
        f"teraio run: ended by {name}; trace saved to trace.json; "
        "plan saved to plan.json; report saved to report"
    ]
    assert json.loads((tmp_path / "trace.json").read_text())["format"] == "teraio-trace/1"
    assert json.loads((tmp_path / "plan.json").read_text())["format"] == "teraio-plan/1"
    assert len(json.loads((tmp_path / "report" / "run.json").read_text())["steps"]) == 6


def test_what_is_not_there_leaves_the_files_of_an_earlier_run(run, tmp_path):
    (tmp_path / "trace.json").write_text("of an earlier run")
    outcome = run("raise ValueError('bad')", "--verify", "bits.json", training="train(1)")
    assert outcome.code == 1
    [told] = told_by(outcome)
    assert "no trace saved to trace.json: there is no trace yet" in told
    assert "no plan saved to plan.json: there is no plan yet" in told
    assert "nothing compared with bits.json" in told
    assert (tmp_path / "trace.json").read_text() == "of an earlier run"
    assert not (tmp_path / "bits.json").exists()


def test_report_that_cannot_be_written_is_told_and_ends_with_1(run, tmp_path):
    outcome = run("import shutil; shutil.rmtree('report'); open('report', 'w').close()")
    assert outcome.code == 1
    [told] = told_by(outcome)
    assert told.startswith("teraio run: no report saved to report: ")


@pytest.mark.parametrize(
    "ending",
    [
        "sys.exit(5)",
        *(
            pytest.param(e, marks=pytest.mark.full)
            for e in ("raise ValueError('in the child')", "pass")
        ),
    ],
)
def test_a_forked_child_leaves_the_files_to_its_parent(run, tmp_path, ending):
    outcome = run(
        "child = os.fork()\n"
        f"if child == 0:\n    {ending}\n"
        "else:\n    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
        "    open('code', 'w').write(str(code))\n    train(4)"
    )
    assert outcome.code == 0, outcome
    expected = {"pass": "0", "sys.exit(5)": "5"}.get(ending, "1")
    assert (tmp_path / "code").read_text() == expected
    assert "teraio run: " not in outcome.err
    assert len(json.loads((tmp_path / "report" / "run.json").read_text())["steps"]) == 10


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text("good")
    # A file may not grow past a limit: writing ends in the middle.
    program = (
        "import resource, signal, sys; from teraio.files.atomic_file import replace_file\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "replace_file(sys.argv[1], bytes(10_000))"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True)
    assert f"[Errno {errno.EFBIG}]" in done.stderr, done
    assert path.read_text() == "good"
    assert os.listdir(tmp_path) == ["plan.json"]
    replace_file(path, b"better")
    assert path.read_text() == "better"


def test_a_new_file_follows_the_umask_and_an_old_one_keeps_its_mode(tmp_path):
    path = tmp_path / "plan.json"
    before = os.umask(0o027)
    try:
        replace_file(path, b"new")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        replace_file(path, b"newer")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    assert path.read_text() == "newer"


def test_a_planted_link_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: 7)
    tokens = ["planted", "other"]
    monkeypatch.setattr("teraio.files.atomic_file.secrets.token_hex", lambda size: tokens.pop(0))
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in (".plan.json.7", ".plan.json.planted"):
        (tmp_path / name).symlink_to(victim)
    replace_file(tmp_path / "plan.json", b"new")
    assert victim.read_text() == "mine"
    assert (tmp_path / "plan.json").read_text() == "new"
    assert not tokens


def test_a_link_and_what_is_no_file_stay_what_they_are(tmp_path):
    (tmp_path / "link.json").symlink_to("target.json")
    replace_file(tmp_path / "link.json", b"new")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "target.json").read_text() == "new"
    (tmp_path / "null").symlink_to("/dev/null")
    replace_file(tmp_path / "null", b"new")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert (tmp_path / "null").is_symlink()


def test_a_file_in_a_directory_that_takes_no_other_is_refused(teraio_run, tmp_path):
    (tmp_path / "train.py").write_text("print('started')\n")
    outcome = teraio_run("--device-budget", "1GB", "--save-plan", "/proc/self/comm", "train.py")
    assert (outcome.code, outcome.out) == (2, "")
    assert "/proc/self/comm cannot be written" in outcome.err
