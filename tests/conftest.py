"""What all Python tests share: with TERAIO_REQUIRE_ALL=1 no test is skipped for want of something.

The reason of a skip names what is missing ("missing: fio"). What cannot be had, whatever is
installed and whoever runs the tests, is no want: its reason begins with NOT_APPLICABLE.
"""

import os

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
