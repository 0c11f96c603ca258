"""Runs the C++ tests of the layers that drive the GPU."""

import shutil

import programs
import pytest


@pytest.fixture
def run_tests(workspace, record_property):
    """Runs a GoogleTest program; a note tells when it has skipped some of its tests."""

    def run(command):
        if "[  SKIPPED ]" in programs.run(command, workspace.test_environment):
            record_property("note", "skipped in part")

    return run


@pytest.mark.full
@pytest.mark.timeout(180)
def test_device_under_compute_sanitizer(workspace, run_tests):
    if shutil.which("compute-sanitizer") is None:
        pytest.skip("compute-sanitizer is not installed")
    command = ["compute-sanitizer", "--error-exitcode", "9", workspace.program("device_tests")]
    run_tests([*command, "--gtest_filter=*cuda*:CudaOrder*-*Random*"])


def test_device(workspace, run_tests):
    few = ["--gtest_filter=*BytesComeBack*"] if workspace.is_tiny else []
    run_tests([workspace.program("device_tests"), *few])


@pytest.mark.full
@pytest.mark.timeout(240)
def test_storage(workspace, run_tests):
    run_tests([workspace.program("storage_tests")])


@pytest.mark.full
@pytest.mark.timeout(240)
def test_engine(workspace, run_tests):
    run_tests([workspace.program("engine_tests")])


@pytest.mark.full
@pytest.mark.timeout(240)
def test_runtime(workspace, run_tests):
    run_tests([workspace.program("runtime_tests")])
