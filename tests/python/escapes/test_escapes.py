"""The table of the ways in which bytes escape the dispatcher names guards and tests that exist."""

import pathlib
import re

from teraio.escapes.intercepted_methods import WRAPPERS

ROOT = pathlib.Path(__file__).parents[3]
FOLDER = ROOT / "python" / "teraio" / "escapes"


def columns():
    """Returns the texts in backticks of the columns with guards and with tests."""
    rows = [line.split("|") for line in (FOLDER / "README.md").read_text().splitlines()]
    rows = [row for row in rows if len(row) == 5]
    return [{name for row in rows for name in re.findall(r"`(.+?)`", row[i])} for i in (2, 3)]


GUARDS, TESTS = columns()


def test_modules_of_the_folder_are_those_of_the_table():
    modules = {file.name for file in FOLDER.glob("*.py")} - {"__init__.py"}
    assert modules == {guard for guard in GUARDS if guard.endswith(".py")}


def test_guards_in_cpp_exist():
    sources = {file.stem for name in ("pytorch", "src") for file in (ROOT / name).rglob("*.h")}
    assert {guard for guard in GUARDS if not guard.endswith(".py")} <= sources


def test_tests_of_the_table_exist():
    files = {file.name: file for file in (ROOT / "tests" / "python").rglob("test_*.py")}
    missing = []
    for test in TESTS:
        name, _, function = test.partition("::")
        if name not in files or f"def {function}(" not in files[name].read_text():
            missing.append(test)
    assert missing == []


def test_every_intercepted_method_exists_in_this_pytorch():
    assert [name for owner, name, _ in WRAPPERS if not hasattr(owner, name)] == []
