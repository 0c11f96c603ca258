"""Programs of front ends, trained on stock PyTorch and within budgets, with equal bits.

A way to train is a list of words: a script, and its arguments.
"""

import gzip
import hashlib
import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

from trace_peak import peak_bytes

PROGRAMS = Path(__file__).parent / "front_ends"
EXAMPLES = Path(__file__).parents[3] / "examples"
PATHS = [str(PROGRAMS), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
PYTHONPATH = os.pathsep.join(map(os.path.abspath, PATHS))
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": PYTHONPATH}
ENVIRONMENT |= {"HF_HOME": ".cache"}  # in the folder of each run
AMPLE = "4GB"
SHARES = (50, 25)  # percent of the natural peak
LEAST_SHARE = 25  # for what writes checkpoints
# The iteration from which a plan is in force. The first of a program may be what it does before its
# training, and the first step of DDP and of TorchTitan has other ops than the next ones.
FOLLOWED = 5

# The endings of files whose bytes are those of the state. The others hold times and random names:
# the Trainer's training_args.bin, and .metadata of distributed checkpoints.
HASHED = (".pt", ".pth", ".safetensors", ".distcp", ".ckpt")


def example(line, small):
    """A way to train: a file of examples/ and arguments, in which {small} is the folder `small`."""
    script, *arguments = shlex.split(line.format(small=small))
    return [EXAMPLES / script, *arguments]


class Training:
    """Runs a program with and without a budget.

    `run` runs Python with its arguments and the folder to run in, and returns what has completed.
    The ways follow each other in one folder. `options` are further ones of `teraio run`.
    """

    def __init__(self, run, folder, *ways, options=()):
        self._run_python, self._folder, self._ways = run, folder, ways
        self._options = options

    def stock(self):
        """Returns the outcome of each rank on stock PyTorch."""
        return self._run("stock", [])

    def within(self, budget, run=None):
        """Returns the outcome of each rank within a budget, and the report of each. `run` stands in
        for that of the others."""
        name = f"within-{budget}"
        drive = self._folder / name / "drive"
        drive.mkdir(parents=True)
        options = [*self._options, "--device-budget", budget]
        options += ["--ssd", drive, "--ssd-capacity", "1GB"]
        options += ["--report", drive.parent / "report{local_rank}"]
        outcomes = self._run(name, ["-m", "teraio", "run", *options], run)
        reports = sorted(drive.parent.glob("report*/run.json"))
        return outcomes, [json.loads(path.read_text()) for path in reports]

    def peak_of_step(self):
        """Returns the peak of the step that was learned with ample memory, of the largest rank."""
        traces = (self._folder / f"within-{AMPLE}").glob("report*/trace.json.gz")
        return max(peak_bytes(json.loads(gzip.decompress(path.read_bytes()))) for path in traces)

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
        """Returns the peak of a dry run of the first way. It sees what libraries read only where it
        comes before they are imported."""
        folder = self._folder / "predicted"
        folder.mkdir()
        wrapper = ["-m", "teraio", "dry-run", "--save-trace", "trace.json"]
        self._run_way(wrapper, self._ways[0], folder, launched())
        return peak_bytes(json.loads((folder / "trace.json").read_text()))

    def _run(self, name, wrapper, run=None):
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        for way in self._ways:
            self._run_way(wrapper, way, folder, run or self._run_python)
        outcomes = [json.loads(path.read_text()) for path in sorted(folder.glob("outcome*"))]
        assert outcomes and all(outcome["tensors"] for outcome in outcomes)
        return outcomes

    def _run_way(self, wrapper, way, folder, run):
        arguments = [*wrapper, PROGRAMS / "outcome.py", *way, folder / "outcome{rank}"]
        done = run(arguments, folder)
        assert done.returncode == 0, (done.stdout, done.stderr)


def check_equal_bits(training, share, folder=None, followed=FOLLOWED, launch=None):
    """Checks the bits in `share` percent of the peak of a step, and the bytes of the files in the
    folder. From the iteration `followed` on, a plan is in force. `launch` runs Python within the
    share; it is another way of starting, which takes longer. Returns the peak in bytes."""
    expected = training.stock()
    expected_files = training.files("stock", folder)
    assert bool(expected_files) == bool(folder)
    outcomes, _ = training.within(AMPLE)
    assert outcomes == expected
    step_bytes = training.peak_of_step()
    budget_bytes = step_bytes * share // 100
    outcomes, reports = training.within(budget_bytes, launch)
    assert outcomes == expected, f"in {share} % of the peak"
    assert training.files(f"within-{budget_bytes}", folder) == expected_files
    for report in reports:
        assert report["device_peak_bytes"] <= budget_bytes
        check_followed(report["steps"][followed:])
    return step_bytes


def check_followed(steps):
    """The last one ends with what the program does after its training."""
    shares = [step["planned_op_count"] / step["op_count"] for step in steps]
    assert min(shares) > 0.98, shares
    assert min(step["ssd_bytes_written"] for step in steps) > 0


def alone(server):
    """Runs Python in a process of the server."""

    def run(arguments, folder):
        (done,) = server.run([(arguments, {})], folder, os.environ | ENVIRONMENT)
        return done

    return run


def launched(*launcher):
    """Runs a new Python, by the words of a launcher."""

    def run(arguments, folder):
        command = [sys.executable, *launcher, *map(str, arguments)]
        environment = os.environ | ENVIRONMENT
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=800
        )

    return run


def by_ranks(server, count, environment=ENVIRONMENT):
    """Runs Python in several processes as a launcher does. Returns what has failed, if one has."""

    def run(arguments, folder):
        variables = os.environ | environment | variables_of_ranks(count)
        ranks = [(arguments, {"RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(count)]
        return max(server.run(ranks, folder, variables), key=lambda done: done.returncode != 0)

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
