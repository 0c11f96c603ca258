"""What the checks share: their options, their workspace, and the time that is left for them."""

import contextlib
import math
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from trainer import Trainers
from workspace import ROOT, Workspace, drive_folder, work_folder


def pytest_addoption(parser):
    group = parser.getgroup("gpu-check")
    group.addoption("--device", choices=("cuda", "cpu"), default="cuda")
    group.addoption("--tiny", action="store_true", help="the smallest shapes, to try the flow")
    group.addoption("--build", type=Path, default=ROOT / "build-gpu", help="the build to check")
    group.addoption("--carry", type=Path, default=ROOT / "gpu-carry", help="see make gpu-carry")
    group.addoption("--ssd", type=Path, help="folder on the drive to use (default: in the build)")
    group.addoption(
        "--deadline", type=float, default=math.inf, help="end of the checks, as time.monotonic()"
    )


def pytest_configure(config):
    """Lets a signal end a worker as it ends the main process: every program ends with its check.

    A process that a shell has started in the background would ignore SIGINT.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def pytest_report_header(config):
    """Names the GPU and its driver."""
    if shutil.which("nvidia-smi"):
        return subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.strip()


worker_pids = {}  # of pytest-xdist


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_newgateway(gateway):
    channel = gateway.remote_exec("import os; channel.send(os.getpid())")
    worker_pids[gateway.id] = channel.receive()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    worker_pids.pop(node.gateway.id, None)


def pytest_keyboard_interrupt():
    """Interrupts the workers, which end their programs, before xdist kills them after seconds."""
    for pid in worker_pids.values():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)


def pytest_collection_modifyitems(config, items):
    """Leaves out the tests that are marked for the other size."""
    other_size = "full" if config.getoption("tiny") else "tiny"
    left_out = [item for item in items if item.get_closest_marker(other_size)]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def seconds_left(config) -> float:
    """The time before the deadline of all checks."""
    return config.getoption("deadline") - time.monotonic()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Shortens the time limit of a test to the time that is left."""
    marker = item.get_closest_marker("timeout")
    limit_seconds = marker.args[0] if marker else float(item.config.getini("timeout"))
    left = max(seconds_left(item.config), 1)
    if left < (limit_seconds or math.inf):  # a limit of 0 is none
        item.add_marker(pytest.mark.timeout(left), append=False)
    return (yield)


def pytest_runtest_setup(item):
    """Skips a test that the time left is too short for."""
    marker = item.get_closest_marker("needs_seconds")
    needed = marker.args[0] if marker else 1
    left = max(seconds_left(item.config), 0)
    if left < needed:
        pytest.skip(f"{left:.0f} s were left, it needs {needed} s")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Reports a test that the deadline has ended as cut off: it has not failed."""
    report = yield
    is_timeout = report.failed and "Timeout (>" in str(call.excinfo.value)
    if is_timeout and seconds_left(item.config) <= 0:
        report.outcome = "skipped"
        reason = f"cut off after {call.duration:.0f} s, when the time for all checks was over"
        report.longrepr = (str(item.path), item.location[1] or 0, reason)
    return report


@pytest.fixture(scope="session")
def workspace(request) -> Workspace:
    """The workspace that the options name, with its folders."""
    option = request.config.getoption
    build = option("build").absolute()
    ssd = (option("ssd") or drive_folder(work_folder(build))).absolute()
    workspace = Workspace(
        build=build,
        carry=option("carry").absolute(),
        ssd=ssd,
        device=option("device"),
        is_tiny=option("tiny"),
    )
    for folder in (workspace.work, workspace.ssd):
        folder.mkdir(parents=True, exist_ok=True)
    return workspace


@pytest.fixture(scope="module")
def trainers(workspace):
    """Gives the process that trains a job; a test may close it to have the device alone."""
    trainers = Trainers(workspace)
    yield trainers
    trainers.close()


@pytest.fixture
def measure(trainers, record_property):
    """Measures an arm for the report; the test fails when the arm does."""

    def measure(training, arm):
        record = trainers.of(training).measure(arm)
        record_property("arm", record)
        if record["outcome"] != "done":
            pytest.fail(record["outcome"], pytrace=False)

    return measure
