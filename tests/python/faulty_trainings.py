#!/usr/bin/env python3
"""Trains on three drives that fail and lie, by seed: `faulty_trainings.py FIRST [END]`.

Each seed chooses a job of the matrix, a budget, a size of the host tier, and what is wrong with the
drives (testing/faulty_drives). A training must end in one of two ways:

* with the bits of stock PyTorch, or
* with an error that names a drive, or says that no tier takes a tensor. Then every parameter either
  has bytes that it also had at some moment of the training without TERAIO, or cannot be read, which
  raises an error.

A drive that hangs answers nothing until the training has ended; --io-timeout ends the waits for it.
Lies of a drive (flipped bits, lost, misdirected and torn writes) are found by the checksum, so the
trainings on drives that lie use it.

Prints a line for each seed that ends otherwise, and how often the seeds ended how. The exit status
is 1 when one ended otherwise. A seed repeats its faults, as far as the order of the requests of one
offset does not depend on time.
"""

import argparse
import collections
import contextlib
import ctypes
import functools
import os
import random
import re
import sys
import tempfile
from pathlib import Path

LIBRARY = Path(__file__).parents[2] / "build" / "testing" / "faulty_drives" / "libfaulty_drives.so"
JOBS = (
    "llama, AdamW",
    "llama, SGD with momentum",
    "llama, checkpointing, autocast",
    "llama, foreach AdamW, clipping",
    "encoder, dropout, evaluation",
    "experts, AdamW",
)


class Rates(ctypes.Structure):
    """FaultyDrivesRates of testing/faulty_drives/faulty_drives.h."""

    _fields_ = [
        (name, ctypes.c_double)
        for name in (
            "passing_error",
            "partial",
            "late",
            "read_error",
            "write_error",
            "full",
            "flipped_by_read",
            "flipped_by_write",
            "lost",
            "misdirected",
            "torn",
        )
    ]


# What a seed does to the drives: rates, whether a drive dies, whether the checksum is needed.
SCENARIOS = {
    "slow and interrupted": (Rates(passing_error=0.05, partial=0.05, late=0.1), False, False),
    "writes fail": (Rates(write_error=0.03, full=0.03, partial=0.03, late=0.02), False, False),
    "reads fail": (Rates(read_error=0.004, late=0.02), False, False),
    "a drive dies": (Rates(late=0.02), True, False),
    "a drive hangs": (Rates(late=0.02), False, False),
    "reads flip bits": (Rates(flipped_by_read=0.004), False, True),
    "writes flip bits": (Rates(flipped_by_write=0.004), False, True),
    "writes are lost": (Rates(lost=0.004), False, True),
    "writes go astray": (Rates(misdirected=0.004), False, True),
    "writes are torn": (Rates(torn=0.004), False, True),
    "everything": (
        Rates(0.02, 0.02, 0.02, 0.002, 0.01, 0.01, 0.001, 0.001, 0.001, 0.001, 0.001),
        True,
        True,
    ),
}


def preload():
    """Starts this program again with the drives' faults in front of the C library."""
    if os.environ.get("LD_PRELOAD") == str(LIBRARY):
        return
    environment = os.environ | {"LD_PRELOAD": str(LIBRARY)}
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


if __name__ == "__main__":
    preload()

import torch  # noqa: E402
from matrix import budgets, catalogue  # noqa: E402
from matrix.jobs import train  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

import teraio  # noqa: E402
from teraio.verification import tensor_hash  # noqa: E402


class StateRecorder(TorchDispatchMode):
    """Notes every state that the tensors of a model have, by name."""

    def __init__(self, model):
        super().__init__()
        tensors = model.state_dict()
        self._of_address = {t.data_ptr(): {tensor_hash(t)} for t in tensors.values()}
        self.hashes = {name: self._of_address[t.data_ptr()] for name, t in tensors.items()}

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        if function._schema.is_mutable:
            for value in tree_leaves((arguments, options)):
                if isinstance(value, torch.Tensor) and value.data_ptr() in self._of_address:
                    self._of_address[value.data_ptr()].add(tensor_hash(value))
        return result


def new_model(job):
    torch.manual_seed(1)
    return job.model()


@functools.cache
def reference(name):
    """Returns what the job yields without TERAIO, and the states that its tensors have."""
    job = catalogue.JOBS[name]
    model = new_model(job)
    recorder = StateRecorder(model)
    with recorder:
        outcome = train(job, model)
    assert outcome == train(job, new_model(job)), "recording changes the bits"
    return outcome, recorder.hashes


class Training:
    """What a seed has chosen."""

    def __init__(self, seed):
        choose = random.Random(seed)
        self.seed = seed
        self.job = choose.choice(JOBS)
        self.scenario = choose.choice(list(SCENARIOS))
        self.share = choose.choice((30, 40, 50, 65))
        self.host_limit = choose.choice((0, 0, 1 << 20, 4 << 20))
        self.evicts = choose.random() < 0.2
        self.rates, has_dead_drive, self.checksum = SCENARIOS[self.scenario]
        self.dead_drive = choose.randrange(3) if has_dead_drive else -1
        self.dies_at = choose.randrange(400)
        self.heals_at = self.dies_at + choose.choice((20, 200, 1 << 40))
        # A drive, a direction (reads, writes, both), and how many requests it answers before.
        hang = (choose.randrange(3), choose.choice((0, 1, 2)), choose.randrange(200))
        self.hang = hang if self.scenario == "a drive hangs" else None

    def __str__(self):
        return (
            f"seed {self.seed}: {self.job}, {self.scenario}, budget {self.share} % of the peak, "
            f"host {self.host_limit} bytes" + (", everything leaves" if self.evicts else "")
        )

    def run(self, drives):
        """Returns how the training ended, and what is wrong with that, or None."""
        expected, states = reference(self.job)
        job = catalogue.JOBS[self.job]
        budget_bytes = budgets.natural_peak_bytes(self.job) * self.share // 100
        library = ctypes.CDLL(str(LIBRARY))
        errors = []
        model = None
        outcome = None
        try:
            with budgets.offload(
                budget_bytes,
                ssd=drives,
                host_limit=self.host_limit,
                checksum=self.checksum,
                io_timeout=1 if self.hang else None,
                evict_after_every_op=self.evicts,
            ):
                library.faulty_drives_start(
                    ctypes.c_uint64(self.seed),
                    ctypes.byref(self.rates),
                    ctypes.c_int32(self.dead_drive),
                    ctypes.c_int64(self.dies_at),
                    ctypes.c_int64(self.heals_at),
                )
                if self.hang:
                    drive, direction, count = self.hang
                    library.faulty_drives_hang(drive, direction, ctypes.c_int64(count))
                try:
                    model = new_model(job)
                    outcome = train(job, model)
                except (RuntimeError, teraio.Error) as error:
                    errors.append(str(error))
        except (RuntimeError, teraio.Error) as error:
            errors.append(str(error))
        finally:
            fault_count = library.faulty_drives_stop()
        if not errors:
            wrong = None if outcome == expected else "ends without an error, with other bits"
            return "equal bits" + (", some faults" if fault_count else ""), wrong
        return "an error", self._wrong_errors(errors) or self._wrong_bytes(model, states)

    @staticmethod
    def _wrong_errors(errors):
        for error in errors:
            if not re.search(r"/drive\d|cannot leave", error):
                return f"the error names no drive: {error}"
        return None

    @staticmethod
    def _wrong_bytes(model, states):
        for name, tensor in {} if model is None else model.state_dict().items():
            with contextlib.suppress(RuntimeError, teraio.Error):
                if tensor_hash(tensor) not in states[name]:
                    return f"{name} has bytes that it never had"
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("first", type=int, help="the first seed")
    parser.add_argument("end", type=int, nargs="?", help="the seed after the last; one without it")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every seed")
    parser.add_argument("--folder", help="where the drives' folders lie; default: a temporary one")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    budgets.settle_kernels()
    endings = collections.Counter()
    wrong_count = 0
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        drives = [Path(folder) / f"drive{number}" for number in range(3)]
        for drive in drives:
            drive.mkdir()
        for seed in range(arguments.first, arguments.end or arguments.first + 1):
            training = Training(seed)
            ending, wrong = training.run(drives)
            endings[f"{training.scenario}: {ending}"] += 1
            if arguments.verbose and not wrong:
                print(f"{training}: {ending}", flush=True)
            if wrong:
                wrong_count += 1
                print(f"WRONG {training}: {wrong}", flush=True)
            left = [str(path) for drive in drives for path in drive.iterdir()]
            if left:
                wrong_count += 1
                print(f"WRONG {training}: left behind: {left}", flush=True)
    for ending, count in sorted(endings.items()):
        print(f"{count:6} {ending}")
    return 1 if wrong_count else 0


if __name__ == "__main__":
    sys.exit(main())
