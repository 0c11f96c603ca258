"""Programs on drives that fail and hang as they say (testing/faulty_drives)."""

import subprocess

import pytest
from faulty_trainings.drives import LIBRARY
from warm_python import WarmPython


@pytest.fixture(scope="session")
def warm_faulty_server():
    server = WarmPython(changes={"LD_PRELOAD": str(LIBRARY)})
    yield server
    server.close()


@pytest.fixture
def on_drives(warm_server, warm_faulty_server, two_drives, tmp_path):
    """Runs `python ARGUMENTS...` to its end, after which no name is left on the drives. Gives a
    subprocess.CompletedProcess."""

    def on_drives(*arguments, are_faulty=True):
        server = warm_faulty_server if are_faulty else warm_server
        (done,) = server.run([(arguments, {"LD_PRELOAD": str(LIBRARY)})], tmp_path)
        assert_nothing_is_left(done, two_drives)
        return done

    return on_drives


@pytest.fixture
def end_of(two_drives):
    """Waits for the end of a process, as `on_drives` does."""

    def end_of(process):
        out, err = process.communicate(timeout=120)
        done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
        assert_nothing_is_left(done, two_drives)
        return done

    return end_of


def assert_nothing_is_left(done, drives):
    assert [path for drive in drives for path in drive.iterdir()] == []
    assert "terminate called" not in done.stderr, done.stderr
