"""The `teraio` command as a whole: unknown words are named, and wrong use ends with 2."""

import json

import pytest
from tests.python.conftest import COMMAND


@pytest.fixture
def command(execute):
    return lambda *words: execute(COMMAND, *words)


@pytest.mark.parametrize(
    "word, nearest",
    [("frob", "probe"), ("plna", "plan"), ("simulat", "simulate"), ("whatif", "what-if")],
)
def test_unknown_command_is_named_with_the_nearest(command, python, word, nearest):
    line = (
        f'teraio: "{word}" is not a command (did you mean "{nearest}"?); '
        '"teraio --help" lists all commands\n'
    )
    for outcome in (command(word), python("-m", "teraio", word)):
        assert (outcome.code, outcome.out, outcome.err) == (2, "", line)


@pytest.mark.parametrize("word", ["xyzzy", "", "q", "--frob"])
def test_unknown_command_that_resembles_none(command, word):
    outcome = command(word)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f'teraio: "{word}" is not a command; "teraio --help" lists all commands\n'


@pytest.mark.parametrize(
    "words, expected",
    [
        ([], "A subcommand is required"),
        (["plan"], "--trace is required"),
        (["doctor", "--frob"], "--frob"),
        (["probe", "--json"], "--bench"),
        (["probe", "--bench", "--out", "x.json"], "--out"),
        (["probe", "--fresh=maybe"], "--fresh"),
        (["doctor", "--sysfs", "/nowhere"], "--sysfs"),
    ],
)
def test_wrong_use_ends_with_2_and_one_line(command, words, expected):
    outcome = command(*words)
    assert (outcome.code, outcome.out) == (2, ""), outcome
    assert outcome.err.startswith("teraio: ") and outcome.err.count("\n") == 1
    assert expected in outcome.err and "--help" in outcome.err


def test_help_and_version_end_with_0(command):
    for words in (["--help"], ["-h"], ["--version"], ["plan", "--help"]):
        outcome = command(*words)
        assert (outcome.code, outcome.err) == (0, "") and outcome.out


def test_launched_commands_are_listed_and_launched(command):
    listed = command("--help").out
    for name in ("run", "dry-run", "top"):
        assert f"\n  {name} " in listed
        assert f"teraio {name}" in command(name, "--help").out


def test_warnings_leave_stdout_to_the_results(command, two_drives):
    """Two directories on one drive: the second is left out, with a warning."""
    small = ("--bench", "--size", "16MiB", "--seconds", "0.05", "--json")
    outcome = command("probe", "--ssd", two_drives[0], "--ssd", two_drives[1], *small)
    assert outcome.code == 0, outcome
    assert "only the first is used. Name one directory per drive" in outcome.err
    assert "drives" in json.loads(outcome.out)
