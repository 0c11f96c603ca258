"""Front ends that people train with give equal bits in a quarter of their memory, and in a half."""

import hashlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from warm_python import WarmPython

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

PROGRAMS = Path(__file__).parent / "front_ends"
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROGRAMS)}
# Importing these takes longer than training. What stands for a GPU when TorchTitan is imported must
# not do so for the others.
PARALLELISMS = ("fsdp", "pipelining", "tensor.parallel")
PACKAGES = (
    *(f"torch.distributed.{name}" for name in PARALLELISMS),
    "transformers.trainer",
    "datasets",
    "peft",
    "trl",
    "lightning.pytorch",
)
TITAN = ("titan_on_cpus",) if importlib.util.find_spec("torchtitan") else ()
AMPLE = "4GB"
SHARES = (50, 25)  # percent of the natural peak
LEAST_SHARE = (25,)  # for further ways to train with a front end
# DDP's buckets hold all gradients, and a reduction uses a bucket as a whole.
LEAST_SHARE_OF_DDP = (35,)
# The iteration from which a plan is in force. The first of a program may be what it does before its
# training, and the first step of DDP and of TorchTitan has other ops than the next ones.
FOLLOWED = 5

# What `teraio run` tells that it recognises, by the package.
RECOGNISED = {
    "transformers": ", transformers 5.",
    "peft": ", PEFT 0.",
    "trl": ", TRL 1.",
    "lightning": ", Lightning 2.",
    "torchtitan": ", TorchTitan 0.2.",
}
# The packages whose peak a dry run tells.
PREDICTED = ("transformers", "lightning", "trl", "peft", "torchtitan")
RECOGNISED_WAYS = {
    "DDP": ", DDP",
    "FSDP2": ", FSDP2, DTensor",
    "tensor parallel": ", DTensor",
    "pipeline": ", pipeline",
}

# The endings of files whose bytes are those of the state. The others hold times and random names:
# the Trainer's training_args.bin, and .metadata of distributed checkpoints.
HASHED = (".pt", ".pth", ".safetensors", ".distcp", ".ckpt")
# The folders that front ends write checkpoints to.
CHECKPOINTS = {"transformers": "checkpoints", "lightning": ".", "torchtitan": "rank0/dump"}

# By what each of them shows: the package that it needs, its program, and the ways to train with it,
# each in a process of its own and the same folder.
ALONE = {
    "Trainer": ("transformers", "hf_trainer.py", "fp32"),
    "Trainer in bf16 with accumulation": ("transformers", "hf_trainer.py", "bf16, accumulating"),
    "Trainer with checkpointing": ("transformers", "hf_trainer.py", "checkpointing"),
    "Trainer that resumes": ("transformers", "hf_trainer.py", "saved", "resumed"),
    "PEFT's LoRA": ("peft", "lora.py", "fp32"),
    "TRL's SFTTrainer": ("trl", "sft.py", "packed"),
    "Lightning": ("lightning", "lightning_fit.py", "fp32"),
    "Lightning in bf16-mixed": ("lightning", "lightning_fit.py", "bf16-mixed"),
    "Lightning that resumes": ("lightning", "lightning_fit.py", "saved", "resumed"),
    "TorchTitan": ("torchtitan", "titan.py", "one process"),
    "TorchTitan with full checkpointing": ("torchtitan", "titan.py", "full checkpointing"),
    "TorchTitan with selective checkpointing": (
        "torchtitan",
        "titan.py",
        "selective checkpointing",
    ),
    "TorchTitan with accumulation": ("torchtitan", "titan.py", "accumulating"),
    "TorchTitan that resumes": ("torchtitan", "titan.py", "saved", "resumed"),
}
# The others are further ways to train with one of these.
IN_A_HALF_TOO = ("Trainer", "PEFT's LoRA", "TRL's SFTTrainer", "Lightning", "TorchTitan")
# What writes a checkpoint after 6 iterations, and after 12.
AFTER_CHECKPOINT = 7
WRITERS = (
    "torch.save",
    "safetensors",
    "distributed checkpoint",
    "asynchronous distributed checkpoint",
)
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
ACCELERATE = ("-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2")
ACCELERATE += ("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no")
# Two processes on one machine, by the launcher that starts them.
RANKS = {
    "Trainer by accelerate launch": (ACCELERATE, "transformers", "hf_trainer.py", "DDP"),
    "Lightning's DDP": (TORCHRUN, "lightning", "lightning_fit.py", "DDP"),
}
# Two processes of TorchTitan without a launcher: how each of them is parallel.
PARALLEL = ("FSDP2", "tensor parallel", "pipeline")
# The same with PyTorch alone, and the number of processes.
PARALLEL_PYTORCH = {
    "interleaved 1F1B": 2,
    "FSDP2 and tensor parallel": 4,
    "FSDP2 and pipeline": 4,
    "tensor parallel and pipeline": 4,
}


@pytest.fixture(scope="module")
def warm_packages():
    installed = [name for name in PACKAGES if importlib.util.find_spec(name.partition(".")[0])]
    server = WarmPython(installed, ENVIRONMENT)
    yield server
    server.close()


@pytest.fixture(scope="module")
def warm_titan():
    server = WarmPython(TITAN, ENVIRONMENT)
    yield server
    server.close()


class Training:
    """Runs a program with and without a budget.

    `run` runs Python with its arguments and the folder to run in, and returns what has completed.
    """

    def __init__(self, run, folder, program, *ways):
        self._run_python, self._folder = run, folder
        self._program, self._ways = PROGRAMS / program, ways

    def stock(self):
        """Returns the outcome of each rank on stock PyTorch."""
        return self._run("stock", [])

    def within(self, budget):
        """Returns the outcome of each rank within a budget, and the report of each."""
        name = f"within-{budget}"
        drive = self._folder / name / "drive"
        drive.mkdir(parents=True)
        options = ["--device-budget", budget, "--ssd", drive, "--ssd-capacity", "1GB"]
        options += ["--report", drive.parent / "report{local_rank}"]
        outcomes = self._run(name, ["-m", "teraio", "run", *options])
        reports = sorted(drive.parent.glob("report*/run.json"))
        return outcomes, [json.loads(path.read_text()) for path in reports]

    def files(self, name, folder):
        """Returns a hash of each file that a run has written to a folder, by its path there."""
        if folder is None:
            return {}
        root = self._folder / name / folder
        paths = [path for path in root.rglob("*") if path.is_file() and path.suffix in HASHED]
        return {
            str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in paths
        }

    def predicted_peak_bytes(self):
        """Returns the peak of a dry run of the first way."""
        folder = self._folder / "predicted"
        folder.mkdir()
        wrapper = ["-m", "teraio", "dry-run", "--save-trace", "trace.json"]
        self._run_way(wrapper, 0, folder)
        return peak_of_trace(json.loads((folder / "trace.json").read_text()))

    def _run(self, name, wrapper):
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        for number in range(len(self._ways)):
            self.told = self._run_way(wrapper, number, folder)
        outcomes = [json.loads(path.read_text()) for path in sorted(folder.glob("outcome*"))]
        assert outcomes and all(outcome["tensors"] for outcome in outcomes)
        return outcomes

    def _run_way(self, wrapper, number, folder):
        """Returns what it has written to stderr."""
        arguments = [*wrapper, self._program, self._ways[number], folder / "outcome{rank}"]
        done = self._run_python(arguments, folder)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stderr


def check_equal_bits(training, told, shares, folder=None, followed=FOLLOWED):
    """`told` is what the line about the program has; files in the folder have equal bytes, too.
    From the iteration `followed` on, a plan is in force. Returns the peak in bytes."""
    expected = training.stock()
    expected_files = training.files("stock", folder)
    assert bool(expected_files) == bool(folder)
    outcomes, reports = training.within(AMPLE)
    assert outcomes == expected
    assert training.told.count("teraio: recognised PyTorch ") == 1 and told in training.told
    peak_bytes = max(report["natural_peak_bytes"] for report in reports)
    for share in shares:
        budget_bytes = peak_bytes * share // 100
        outcomes, reports = training.within(budget_bytes)
        assert outcomes == expected, f"in {share} % of the peak"
        assert training.files(f"within-{budget_bytes}", folder) == expected_files
        for report in reports:
            assert report["device_peak_bytes"] <= budget_bytes
            check_followed(report["steps"][followed:])
    return peak_bytes


def peak_of_trace(trace):
    """The most that is alive at an op, what it holds only while it runs included."""
    sizes = {tensor["id"]: tensor["bytes"] for tensor in trace["tensors"]}
    alive = {tensor["id"] for tensor in trace["tensors"] if tensor["persistent"]}
    peaks = []
    for op in trace["ops"]:
        alive |= {*op["reads"], *op["writes"]}
        peaks.append(sum(sizes[number] for number in alive) + op["workspace_bytes"])
        alive -= set(op["frees"])
    return max(peaks)


def check_followed(steps):
    """The last one ends with what the program does after its training."""
    shares = [step["planned_op_count"] / step["op_count"] for step in steps]
    assert min(shares) > 0.98, shares
    assert min(step["ssd_bytes_written"] for step in steps) > 0


@pytest.mark.parametrize("name", ALONE)
def test_one_process(warm_packages, warm_titan, tmp_path, name):
    package, program, *ways = ALONE[name]
    pytest.importorskip(package)
    server = warm_titan if package == "torchtitan" else warm_packages

    def run(arguments, folder):
        (done,) = server.run([(arguments, {})], folder, os.environ | ENVIRONMENT)
        return done

    training = Training(run, tmp_path, program, *ways)
    shares = SHARES if name in IN_A_HALF_TOO else LEAST_SHARE
    folder = CHECKPOINTS[package] if "saved" in ways else None
    peak_bytes = check_equal_bits(training, RECOGNISED[package], shares, folder)
    if package in PREDICTED and len(ways) == 1:
        predicted_bytes = training.predicted_peak_bytes()
        assert predicted_bytes == pytest.approx(peak_bytes, rel=0.02)


DISCARDING = """
import runpy, sys
import teraio
with teraio.offload("4GB", ssd=sys.argv[1], discard_after_every_op=True) as session:
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")
assert session.counters()["on_demand_replays"] > 500
"""


def test_equal_bits_when_all_that_can_be_is_discarded_after_every_op(warm_packages, tmp_path):
    pytest.importorskip("transformers")
    (tmp_path / "discarding.py").write_text(DISCARDING)
    training = [PROGRAMS / "hf_trainer.py", "one step"]
    stock, actual = tmp_path / "stock.json", tmp_path / "actual.json"
    for arguments in (
        [*training, stock],
        [tmp_path / "discarding.py", tmp_path, *training, actual],
    ):
        (done,) = warm_packages.run([(arguments, {})], tmp_path, os.environ | ENVIRONMENT)
        assert done.returncode == 0, (done.stdout, done.stderr)
    assert json.loads(actual.read_text()) == json.loads(stock.read_text())


@pytest.mark.parametrize("way", WRITERS)
def test_checkpoints_have_equal_bytes(warm_packages, tmp_path, way):
    def run(arguments, folder):
        (done,) = warm_packages.run([(arguments, {})], folder, os.environ | ENVIRONMENT)
        return done

    training = Training(run, tmp_path, "checkpoints.py", way)
    # The first iteration after a checkpoint begins with writing it, which no plan knows.
    check_equal_bits(training, "", LEAST_SHARE, folder="checkpoint", followed=AFTER_CHECKPOINT)


@pytest.mark.parametrize("name", RANKS)
def test_two_ranks(tmp_path, name):
    launcher, package, program, way = RANKS[name]
    pytest.importorskip(package)

    def run(arguments, folder):
        command = [sys.executable, *launcher, *map(str, arguments)]
        environment = os.environ | ENVIRONMENT
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
        )

    training = Training(run, tmp_path, program, way)
    check_equal_bits(training, RECOGNISED_WAYS[way], LEAST_SHARE_OF_DDP)


@pytest.mark.parametrize("way", PARALLEL)
def test_two_ranks_of_torchtitan(warm_titan, tmp_path, way):
    pytest.importorskip("torchtitan")
    training = Training(by_ranks(warm_titan, 2), tmp_path, "titan.py", way)
    check_equal_bits(training, RECOGNISED_WAYS[way], LEAST_SHARE)


@pytest.mark.parametrize("way", PARALLEL_PYTORCH)
def test_ranks_of_pytorch(warm_packages, tmp_path, way):
    run = by_ranks(warm_packages, PARALLEL_PYTORCH[way])
    training = Training(run, tmp_path, "parallel.py", way)
    check_equal_bits(training, "DTensor" if "tensor" in way else "", LEAST_SHARE)


def by_ranks(server, count):
    """Runs Python in several processes as a launcher does. Returns what has failed, if one has."""

    def run(arguments, folder):
        environment = os.environ | ENVIRONMENT | variables_of_ranks(count)
        ranks = [(arguments, {"RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(count)]
        return max(server.run(ranks, folder, environment), key=lambda done: done.returncode != 0)

    return run


def variables_of_ranks(count):
    """What a launcher sets for each of several processes on one machine, except for their ranks."""
    with socket.socket() as unused:
        unused.bind(("localhost", 0))
        port = unused.getsockname()[1]
    return {
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
    }
