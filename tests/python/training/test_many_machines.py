"""Two machines of two ranks each: network namespaces of this machine, joined by a virtual cable."""

import contextlib
import json
import os
import shutil
import subprocess
import sys

import pytest
from data_parallel import program
from front_end_trainings import by_ranks

pytestmark = pytest.mark.full

ADDRESSES = ("10.213.77.1", "10.213.77.2")
CABLE = "teraio0"
PORT = "29411"


def ip(*words):
    subprocess.run(["ip", *words], check=True)


@pytest.fixture
def machines():
    """The names of two network namespaces whose addresses are ADDRESSES."""
    if shutil.which("ip") is None:
        pytest.skip("missing: iproute2")
    if os.geteuid() != 0:
        pytest.skip("missing: root, who makes network namespaces")
    names = [f"teraio-{os.getpid()}-{number}" for number in (0, 1)]
    with contextlib.ExitStack() as stack:
        for name in names:
            ip("netns", "add", name)
            stack.callback(ip, "netns", "del", name)
        ends = ["netns", names[0], "type", "veth", "peer", "name", CABLE, "netns", names[1]]
        ip("link", "add", CABLE, *ends)
        for name, address in zip(names, ADDRESSES, strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", CABLE)
            for device in ("lo", CABLE):
                ip("-n", name, "link", "set", device, "up")
        yield names


@pytest.fixture
def torchrun(machines, tmp_path, spawn):
    """Runs the program with torchrun on both machines, each in a folder of its own. `wrappers` are
    the words before the program's name there. Returns the two folders."""

    def torchrun(*wrappers):
        folders = [tmp_path / str(number) for number in (0, 1)]
        processes = []
        for number, (machine, folder) in enumerate(zip(machines, folders, strict=True)):
            (folder / "drive").mkdir(parents=True)
            (folder / "train.py").write_text(program(8))
            processes.append(
                spawn(
                    [
                        *("ip", "netns", "exec", machine, "env", "-C", str(folder)),
                        *(f"GLOO_SOCKET_IFNAME={CABLE}", "OMP_NUM_THREADS=1"),
                        *(sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"),
                        *("--nproc-per-node", "2", "--node-rank", str(number)),
                        *("--master-addr", ADDRESSES[0], "--master-port", PORT),
                        *wrappers[number],
                        "train.py",
                    ]
                )
            )
        for process in processes:
            out, err = process.communicate(timeout=300)
            assert process.returncode == 0, (out, err)
        return folders

    return torchrun


def sums_of(folders):
    """What each of the four ranks has trained, in the order of the ranks."""
    return [
        (folder / f"sums{2 * machine + rank}").read_text()
        for machine, folder in enumerate(folders)
        for rank in (0, 1)
    ]


def test_ranks_of_two_machines_plan_for_themselves(torchrun, warm_server, tmp_path):
    """Each machine has drives of its own, which its ranks share, and options of its own: no rank
    needs the plan of another one."""
    (tmp_path / "train.py").write_text(program(8))
    plain = by_ranks(warm_server, 4)(["train.py"], tmp_path)
    assert plain.returncode == 0, plain
    (expected,) = {(tmp_path / f"sums{rank}").read_text() for rank in range(4)}
    run = ["-m", "teraio", "run", "--ssd", "drive", "--report", "out{local_rank}"]
    folders = torchrun(
        [*run, "--device-budget", "6MB"],
        [*run, "--device-budget", "9MB", "--recompute", "off", "--host-limit", "1MB"],
    )
    assert sums_of(folders) == [expected] * 4
    for folder in folders:
        for rank in (0, 1):
            report = json.loads((folder / f"out{rank}" / "run.json").read_text())
            share = report["share"]
            assert (share["local_rank"], share["local_world_size"]) == (rank, 2)
            (drive,) = share["drives"]
            assert (drive["directory"], drive["ranks"]) == (str(folder.resolve() / "drive"), 2)
            assert report["device_peak_bytes"] <= (6_000_000, 9_000_000)[int(folder.name)]
            assert report["counters"]["ssd_bytes_written"] > 0
            steps = report["steps"][5:]
            assert min(each["planned_op_count"] / each["op_count"] for each in steps) > 0.9
