"""Pages of the site: lists are seen as lists, and nothing is loaded from elsewhere."""

import importlib.util
from pathlib import Path

import pytest

_PATH = Path(__file__).parents[2] / "tools" / "site" / "page_text.py"
_spec = importlib.util.spec_from_file_location("page_text", _PATH)
page_text = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(page_text)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("Rules:\n- one\n- two\n", "Rules:\n\n- one\n- two\n"),
        ("Steps:\n1. one\n2. two\n", "Steps:\n\n1. one\n2. two\n"),
        ("- one,\n  continued\n- two\n", "- one,\n  continued\n- two\n"),
        ("| a |\n| --- |\n| b |\n", "| a |\n| --- |\n| b |\n"),
    ],
)
def test_lists_get_an_empty_line(written, expected):
    assert page_text.lists_apart(written) == expected


def test_code_stays_and_a_list_behind_it_is_a_list():
    code = "```\na\n- b\n```\n"
    assert page_text.lists_apart(f"{code}1. one\n") == f"{code}\n1. one\n"


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://example.org/x.js"></script>',
        '<img src="//example.org/x.png">',
        '<link rel="stylesheet" href="http://example.org/x.css">',
        '<pre class="mermaid">',
    ],
)
def test_what_would_be_fetched_is_found(html):
    assert len(page_text.remote_resources(html)) == 1


@pytest.mark.parametrize(
    "html",
    [
        '<a href="https://example.org">x</a>',
        '<script src="assets/x.js"></script>',
        '<link rel="canonical" href="https://example.org/">',
    ],
)
def test_links_and_files_of_the_site_are_not(html):
    assert page_text.remote_resources(html) == []


def test_commands_are_read_from_the_help():
    help_text = "Usage: x OPTIONS\n\nSubcommands:\n  run       Train\n  dry-run   Tell\n"
    assert page_text.commands_of(help_text) == ["run", "dry-run"]
