"""`teraio completion`: what each shell completes after the documented line in its start-up file."""

import os
import shutil

import pytest
from terminal import Terminal
from tests.python.conftest import COMMAND

COLUMNS = 200

# The command that starts a shell without the user's files, and what is typed there first.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'PS1="> "; eval "$(teraio completion bash)"'),
    "zsh": (
        ["zsh", "-f", "-i"],
        'PS1="> "; autoload -U compinit; compinit -u -d dump; eval "$(teraio completion zsh)"',
    ),
    "fish": (
        ["fish", "--no-config", "-i"],
        "set -g fish_autosuggestion_enabled 0; function fish_prompt; echo '> '; end; "
        "teraio completion fish | source",
    ),
}


@pytest.fixture(params=SHELLS)
def shell(request, tmp_path, monkeypatch):
    """A shell in a folder with the files of a training."""
    command, first_line = SHELLS[request.param]
    if shutil.which(request.param) is None:
        pytest.skip(f"missing: {request.param}")
    for name in ("train.py", "corpus.txt", "machine.json", "drive.txt"):
        (tmp_path / name).touch()
    (tmp_path / "drive0").mkdir()
    monkeypatch.chdir(tmp_path)
    environment = os.environ | {"PATH": f"{COMMAND.parent}:{os.environ['PATH']}"}
    with Terminal(command, environment, rows=40, columns=COLUMNS) as terminal:
        terminal.type(f"{first_line}; clear\n")
        terminal.wait_for(lambda shown: shown.lines()[0] == ">" and not any(shown.lines()[1:]))
        yield terminal


def test_shell_completes_commands_options_choices_and_paths(shell):
    for typed, completed in [
        ("teraio doct", "teraio doctor"),
        ("teraio plan --hardw", "teraio plan --hardware"),
        ("teraio plan --hardware mach", "teraio plan --hardware machine.json"),
        ("teraio plan --effort f", "teraio plan --effort fast"),
        ("teraio simulate --time-l", "teraio simulate --time-limit"),
        ("teraio dry-run --recompute ch", "teraio dry-run --recompute cheap"),
        ("teraio completion fi", "teraio completion fish"),
        ("teraio doctor driv", "teraio doctor drive0/"),
        ("teraio run --ssd driv", "teraio run --ssd drive0/"),
        ("teraio run --device-budget 1GB trai", "teraio run --device-budget 1GB train.py"),
        ("teraio run train.py corp", "teraio run train.py corpus.txt"),
        ("teraio dry-run train.py corp", "teraio dry-run train.py corpus.txt"),
    ]:
        shell.type(f"{typed}\t")
        shell.wait_for(lambda shown, line=completed: line in shown.line_of_cursor(), timeout_s=60)
        shell.type("\x15")  # Ctrl-U erases the line
        shell.wait_for(lambda shown: "teraio" not in shown.line_of_cursor(), timeout_s=60)


def test_completion_needs_no_torch(python):
    outcome = python(
        "-c",
        "import sys; from teraio.reference.completion import completion; completion(['bash']); "
        "sys.exit('torch' in sys.modules)",
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert "characterize" in outcome.out


def test_unknown_shell_is_refused(execute):
    outcome = execute(COMMAND, "completion", "tcsh")
    assert (outcome.code, outcome.out) == (2, "")
    assert "'tcsh'" in outcome.err and "fish" in outcome.err and outcome.err.count("\n") == 1
