"""Whole trainings on a block device that is slow, stands still or fails for a while: a loop device
on what nbdkit serves through FUSE, so that errors come from the kernel's block layer. As root."""

import shlex
import sys

import pytest
from kernel_trainings import ALONE, SMALL, is_right_or_names_the_drive, train

pytestmark = pytest.mark.full

# A drive of 128 MB. The namespace's end ends nbdfuse, and nbdkit with it.
SERVED = """
mkdir {folder}/served {folder}/ssd
nbdfuse --pidfile {folder}/ready {folder}/served/image --command \\
  nbdkit -s --exit-with-parent {filter} > {folder}/nbdkit.log 2>&1 < /dev/null &
until [ -e {folder}/ready ]; do kill -0 $!; sleep .02; done
device=$(losetup --find --show --direct-io=on {folder}/served/image)
mkfs.ext4 -q $device
mount $device {folder}/ssd
losetup --detach $device  # when it is unmounted
"""

# Sends letters to nbdkit's pause filter, and waits for each answer.
CONTROL = """\
import socket, sys
with socket.socket(socket.AF_UNIX) as control:
    control.connect(sys.argv[1])
    control.sendall(sys.argv[2].encode())
    assert control.recv(1).decode() == sys.argv[2].upper()
"""


@pytest.fixture
def train_on(tmp_path):
    def train_on(filter, **options):
        before = SERVED.format(folder=tmp_path, filter=filter)
        return train(tmp_path, "8MB", tmp_path / "ssd", SMALL, before, unshared=ALONE, **options)

    return train_on


def test_every_request_takes_long(train_on):
    done = train_on("--filter=delay memory 128M rdelay=10ms wdelay=10ms")
    assert done.returncode == 0 and is_right_or_names_the_drive(done), done


@pytest.mark.parametrize("request_kind", ["pread", "pwrite"])
def test_requests_fail_for_a_while(train_on, tmp_path, request_kind):
    trigger = tmp_path / "failing"
    done = train_on(
        f"--filter=error memory 128M error-{request_kind}=EIO error-{request_kind}-rate=100% "
        f"error-file={trigger}",
        commands=["true", f"touch {trigger}", f"rm {trigger}"],
    )
    assert is_right_or_names_the_drive(done), (done.returncode, done.stdout, done.stderr)
    assert "failed" in done.stderr
    if request_kind == "pread":
        assert done.returncode == 1 and done.stdout.count("loss") == 1, done


@pytest.fixture
def suspended(tmp_path, train_on):
    """Suspends the drive before the second step, for two seconds. The shell runs `later` before the
    third step."""

    def suspended(later, **options):
        control = tmp_path / "control"
        send = shlex.join([sys.executable, "-c", CONTROL, str(control)])
        resume = f"(sleep 2; {send} r; touch {tmp_path}/resumed) > /dev/null 2>&1 &"
        return train_on(
            f"--filter=pause memory 128M pause-control={control}",
            commands=["true", f"{send} p; {resume}", later],
            options=options,
        )

    return suspended


def test_a_drive_is_suspended(suspended, tmp_path):
    done = suspended(later=f"test -e {tmp_path}/resumed")
    assert done.returncode == 0 and is_right_or_names_the_drive(done), done


def test_a_drive_is_suspended_for_longer_than_the_limit(suspended):
    done = suspended(later="true", io_timeout=0.5)
    assert is_right_or_names_the_drive(done), (done.returncode, done.stdout, done.stderr)
    assert "has not answered" in done.stderr
