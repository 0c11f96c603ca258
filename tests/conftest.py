"""What all Python tests share: what a skip means, what the day draws, and slices of the tests.

With TERAIO_REQUIRE_ALL=1 no test is skipped for want of something. The reason of a skip names what
is missing ("missing: zsh"). What cannot be had, whatever is installed and whoever runs the tests,
is no want: its reason begins with NOT_APPLICABLE.
"""

import os
import zlib

import drawn
import pytest

NOT_APPLICABLE = "not applicable: "


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2]).removeprefix("Skipped: ")
        is_required = os.environ.get("TERAIO_REQUIRE_ALL") == "1"
        if is_required and not reason.startswith(NOT_APPLICABLE):
            report.outcome = "failed"
            report.longrepr = f"skipped, which TERAIO_REQUIRE_ALL=1 does not allow: {reason}"
    return report


def pytest_addoption(parser):
    parser.addoption(
        "--slice", metavar="K/N", help="run one of N parts of the tests; day/N: that of the day"
    )


def pytest_report_header():
    return f"drawn for {drawn.VARIABLE}={drawn.DAY}, which repeats this choice"


def pytest_collection_modifyitems(config, items):
    """Leaves out the tests of other slices. A test stays in its slice when others come or go."""
    slice_, _, slices = (config.getoption("slice") or "day/1").partition("/")
    if slice_ == "day" and drawn.ALL:
        return
    slice_, slices = drawn.NUMBER if slice_ == "day" else int(slice_), int(slices)
    left_out = [
        item for item in items if zlib.crc32(item.nodeid.encode()) % slices != slice_ % slices
    ]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
