"""Whole trainings where the kernel itself refuses or limits: a thin volume that runs full, a file
system without room or direct I/O, control groups. As root, in mounts that end with the test's
process."""

import os

import pytest
from kernel_trainings import ALONE, SMALL, is_right_or_names_the_drive, own_lines, reference, train

pytestmark = pytest.mark.full

# A drive of {size} MB: a file in a file system that has room for {room} MB of it.
DRIVE = """
mount -t tmpfs -o size={room}m none {folder}/pool
truncate -s {size}m {folder}/pool/backing
mkfs.ext4 -q -E nodiscard,lazy_itable_init=1,lazy_journal_init=1 {folder}/pool/backing
mount -o loop{options} {folder}/pool/backing {folder}/below
"""

# What {folder}/ssd shows of {folder}/below.
ABOVE = {
    "itself": "mount --bind {folder}/below {folder}/ssd",
    "overlay": """
mkdir {folder}/below/upper {folder}/below/work
cd {folder}
mount -t overlay -o lowerdir=lower,upperdir=below/upper,workdir=below/work overlay ssd
""",
    # Its daemon writes through the page cache, whatever flags a file has.
    "FUSE": """
bindfs -f {folder}/below {folder}/ssd &
echo $! > {folder}/daemon
until mountpoint -q {folder}/ssd; do kill -0 $!; done
""",
}


@pytest.fixture
def folder(tmp_path):
    for name in ("pool", "below", "lower", "ssd"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("above", "options"), [*((above, "") for above in ABOVE), ("itself", ",data=journal")]
)
def test_a_thin_volume_runs_full(folder, options, above):
    before = (DRIVE + ABOVE[above]).format(folder=folder, size=256, room=12, options=options)
    done = train(folder, "8MB", folder / "ssd", SMALL, before, unshared=ALONE)
    assert is_right_or_names_the_drive(done), done
    assert "failed" in done.stderr  # the volume did run full


def test_a_file_system_without_room(folder):
    before = (DRIVE + ABOVE["itself"]).format(folder=folder, size=12, room=64, options="")
    done = train(folder, "8MB", folder / "ssd", SMALL, before)
    assert done.returncode == 1 and is_right_or_names_the_drive(done), done


def test_an_overlay_on_memory_has_no_direct_io(folder):
    before = f"mount -t tmpfs none {folder}/below" + ABOVE["overlay"].format(folder=folder)
    done = train(folder, "8MB", folder / "ssd", SMALL, before)
    assert done.returncode == 0 and is_right_or_names_the_drive(done), done
    assert "path: threads buffered" in done.stderr


def test_a_file_system_in_user_space(folder):
    done = train(
        folder, "8MB", folder / "ssd", SMALL, ABOVE["FUSE"].format(folder=folder), unshared=ALONE
    )
    assert done.returncode == 0 and is_right_or_names_the_drive(done), done
    assert "path: threads buffered" in done.stderr  # and synced after every write
    assert list((folder / "below").iterdir()) == []


def test_a_file_system_whose_daemon_is_killed(folder):
    commands = ["true", "true", f"kill -9 $(cat {folder}/daemon)"]
    before = ABOVE["FUSE"].format(folder=folder)
    done = train(folder, "8MB", folder / "ssd", SMALL, before, commands=commands, unshared=ALONE)
    assert done.returncode == 1 and is_right_or_names_the_drive(done), done
    assert done.stdout.count("loss") == 2


@pytest.fixture
def control_group(tmp_path):
    """Gives a command that puts a shell into a new control group with a limit."""
    groups = []

    def control_group(controller, name_v1, name_v2, limit):
        is_v2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
        parent = "/sys/fs/cgroup" if is_v2 else f"/sys/fs/cgroup/{controller}"
        group = f"{parent}/teraio-test-{os.getpid()}"
        try:
            os.makedirs(group)
            groups.append(group)
            with open(f"{group}/{name_v2 if is_v2 else name_v1}", "w") as file:
                file.write(str(limit))
        except OSError as error:
            pytest.skip(f"missing: control groups that can be made here ({error})")
        return f"echo $$ > {group}/cgroup.procs"

    yield control_group
    for group in groups:
        os.rmdir(group)


def test_a_control_group_limits_memory(tmp_path, control_group):
    """Stock PyTorch is killed within the limit; 40 % of it as the budget suffices. The limit has
    room for Python and, at the session's end, for the parameters and the states."""
    size = 2048, 24  # 1.6 GB of parameters, gradients and optimizer states
    limit = control_group("memory", "memory.limit_in_bytes", "memory.max", 1_750_000_000)
    (tmp_path / "ssd").mkdir()
    assert train(tmp_path, "none", tmp_path, size, limit).returncode == -9
    done = train(tmp_path, "40%", tmp_path / "ssd", size, limit)
    assert done.returncode == 0, done
    assert own_lines(done) == own_lines(train(tmp_path, "none", tmp_path, size))


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
def test_a_control_group_limits_processes(tmp_path, control_group, processes):
    limit = control_group("pids", "pids.max", "pids.max", processes)
    (tmp_path / "ssd").mkdir()
    done = train(tmp_path, "8MB", tmp_path / "ssd", SMALL, limit)
    if done.returncode == 0:
        assert own_lines(done) == own_lines(reference())
    else:
        assert done.returncode == 1, done
        assert "thread" in done.stderr.splitlines()[-1]
