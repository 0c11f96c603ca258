"""The manual pages that the build makes tell what `--help` tells."""

import re
import shutil

import pytest
from conftest import COMMAND

PAGES = COMMAND.parents[1] / "share" / "man" / "man1"


def commands(execute):
    listed = execute(COMMAND, "--help").out.partition("Subcommands:")[2]
    return re.findall(r"^  ([a-z-]+) ", listed, re.MULTILINE)


def test_each_command_has_a_page(execute):
    expected = {"teraio.1", *(f"teraio-{name}.1" for name in commands(execute))}
    assert {page.name for page in PAGES.iterdir()} == expected and len(expected) > 10


def test_pages_have_the_options_of_help(execute):
    for name in commands(execute):
        shown = execute(COMMAND, name, "--help").out
        options = set(re.findall(r"^ +(?:-\w, *)?(--[a-z-]+)", shown, re.MULTILINE)) - {"--help"}
        page = (PAGES / f"teraio-{name}.1").read_text().replace("\\-", "-")
        assert set(re.findall(r"\\fB(?:-\w, )?(--[a-z-]+)\\fR", page)) == options, name


def test_pages_are_faultless(execute):
    if shutil.which("mandoc") is None:
        pytest.skip("missing: mandoc")
    for page in PAGES.iterdir():
        outcome = execute("mandoc", "-T", "lint", page)
        assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


def test_a_page_shows_what_an_option_does(execute):
    if shutil.which("mandoc") is None:
        pytest.skip("missing: mandoc")
    shown = execute("mandoc", "-T", "ascii", PAGES / "teraio-plan.1").out
    shown = re.sub(".\b", "", shown)  # what a terminal shows bold or underlined
    assert re.search(r"--hardware FILE\n\s+Hardware file of the machine", shown)
