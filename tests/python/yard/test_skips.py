"""TERAIO_REQUIRE_ALL=1: what is missing fails, what does not apply is skipped all the same."""

import os
import shutil
from pathlib import Path

import pytest

TESTS = """\
import pytest

def test_tool():
    pytest.skip("missing: a tool")

@pytest.mark.skipif(True, reason="not applicable: there is a GPU")
def test_other_machine():
    pass

@pytest.mark.xfail(strict=True)
def test_known():
    assert False
"""


@pytest.fixture
def outcomes(python, tmp_path):
    """The last line of a test run of TESTS, and all lines."""
    tests = Path(__file__).parents[2]
    for path in (tests / "conftest.py", tests / "python" / "programs" / "drawn.py"):
        shutil.copy(path, tmp_path)
    (tmp_path / "test_it.py").write_text(TESTS)

    def outcomes(require_all):
        options = ["-p", "no:cacheprovider", "-rs", f"--rootdir={tmp_path}", "test_it.py"]
        env = os.environ | {"TERAIO_REQUIRE_ALL": require_all}
        lines = python("-m", "pytest", *options, env=env).out.splitlines()
        return lines[-1], lines

    return outcomes


def test_what_is_missing_is_skipped_by_name(outcomes):
    last, lines = outcomes("0")
    assert "2 skipped, 1 xfailed" in last
    assert any(line.endswith("missing: a tool") for line in lines)


def test_what_is_missing_fails_where_everything_is_required(outcomes):
    last, lines = outcomes("1")
    assert "1 failed, 1 skipped, 1 xfailed" in last
    assert "skipped, which TERAIO_REQUIRE_ALL=1 does not allow: missing: a tool" in lines
