"""Whole trainings where the kernel itself refuses or limits: a thin volume that runs full, a file
system without room, control groups. As root, in mounts that end with the test's process."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.full

TRAINING = """\
import sys, torch, teraio
from teraio.verification import tensor_hash
budget, ssd, width, layers = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(layers)])
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
def train():
    for step in range(4):
        loss = model(torch.full((16, width), 0.5)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("loss", loss.item(), flush=True)
if budget == "none":
    train()
else:
    with teraio.offload(budget, ssd=ssd):
        train()
print("parameters", [tensor_hash(p) for p in model.parameters()])
"""


def train(folder, budget, ssd, size, before=""):
    """Trains in a mount namespace of its own, after the shell's commands `before`."""
    (folder / "train.py").write_text(TRAINING)
    command = [sys.executable, folder / "train.py", budget, ssd, *size]
    return subprocess.run(
        [
            "unshare",
            "--mount",
            "sh",
            "-c",
            f'set -e\n{before}\nexec "$@"',
            "sh",
            *map(str, command),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(autouse=True)
def root():
    if os.geteuid() != 0:
        pytest.skip("missing: root, for mounts and control groups")


SMALL = 512, 6  # 25 MB of parameters, gradients and optimizer states


def is_right_or_names_the_drive(done, reference):
    """Tells whether the program had the reference's bits, or had them until an error that names the
    tier; it never dies of a signal."""
    if done.returncode == 0:
        return done.stdout == reference.stdout
    losses = [line for line in done.stdout.splitlines() if line.startswith("loss")]
    words = done.stderr.splitlines()[-1]
    return (
        done.returncode == 1
        and reference.stdout.startswith("".join(f"{line}\n" for line in losses))
        and ("drive" in words or "tier" in words or "ssd directory" in words)
    )


# A drive of {size} MB: a file in a file system that has room for {room} MB of it.
DRIVE = """
mount -t tmpfs -o size={room}m none {folder}/pool
truncate -s {size}m {folder}/pool/backing
mkfs.ext4 -q -E nodiscard,lazy_itable_init=1,lazy_journal_init=1 {folder}/pool/backing
mount -o loop{options} {folder}/pool/backing {folder}/ssd
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pool").mkdir()
    (tmp_path / "ssd").mkdir()
    return tmp_path


@pytest.mark.parametrize("options", ["", ",data=journal"], ids=["direct", "buffered"])
def test_a_thin_volume_runs_full(folder, options):
    reference = train(folder, "none", folder, SMALL)
    before = DRIVE.format(folder=folder, size=256, room=12, options=options)
    done = train(folder, "8MB", folder / "ssd", SMALL, before)
    assert is_right_or_names_the_drive(done, reference), done
    assert "failed" in done.stderr  # the volume did run full


def test_a_file_system_without_room(folder):
    reference = train(folder, "none", folder, SMALL)
    before = DRIVE.format(folder=folder, size=12, room=64, options="")
    done = train(folder, "8MB", folder / "ssd", SMALL, before)
    assert done.returncode == 1 and is_right_or_names_the_drive(done, reference), done


# Kills the training when its drive has less room, and prints what is free before and
# after it, in blocks. The kernel ends the rings of a killed process, which hold its
# files, on a thread of its own: that may take a moment.
KILLED = (
    DRIVE.format(folder="{folder}", size=128, room=140, options="")
    + """
free() {{ stat --file-system --format=%f {folder}/ssd; }}
all=$(free)
"$@" > {folder}/output & process=$!
until [ $(free) -lt $((all - 4096)) ]; do kill -0 $process; done
kill -9 $process
wait $process || true
for moment in $(seq 100); do [ $(free) = $all ] || sleep .1; done
echo $all $(free)
exit
"""
)


def test_a_killed_training_leaves_no_room_taken(folder):
    done = train(folder, "8MB", folder / "ssd", SMALL, KILLED.format(folder=folder))
    assert done.returncode == 0, done
    all_blocks, free_blocks = done.stdout.split()
    assert all_blocks == free_blocks
    assert "parameters" not in (folder / "output").read_text()


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
    """Stock PyTorch is killed within the limit; 40 % of it as the budget suffices."""
    size = 2048, 24  # 1.6 GB of parameters, gradients and optimizer states
    limit = control_group("memory", "memory.limit_in_bytes", "memory.max", 1_600_000_000)
    (tmp_path / "ssd").mkdir()
    assert train(tmp_path, "none", tmp_path, size, limit).returncode == -9
    done = train(tmp_path, "40%", tmp_path / "ssd", size, limit)
    assert done.returncode == 0, done
    assert done.stdout == train(tmp_path, "none", tmp_path, size).stdout


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
def test_a_control_group_limits_processes(tmp_path, control_group, processes):
    limit = control_group("pids", "pids.max", "pids.max", processes)
    (tmp_path / "ssd").mkdir()
    reference = train(tmp_path, "none", tmp_path, SMALL)
    done = train(tmp_path, "8MB", tmp_path / "ssd", SMALL, limit)
    if done.returncode == 0:
        assert done.stdout == reference.stdout
    else:
        assert done.returncode == 1, done
        assert "thread" in done.stderr.splitlines()[-1]
