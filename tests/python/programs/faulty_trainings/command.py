"""The command line of `python -m faulty_trainings`."""

import argparse
import collections
import contextlib
import gc
import json
import resource
import tempfile
import time
from pathlib import Path

import torch
from matrix import budgets
from shrinking import shrink

from teraio.directories import cache_directory

from .children import Child, run_all
from .drives import Machine
from .references import reference
from .trainings import Training

SHRINKING_SECONDS = 120
ATTEMPTS = 2  # threads may use offsets in another order


def parse():
    parser = argparse.ArgumentParser(
        prog="python -m faulty_trainings",
        description="Trains on drives that fail and lie, by seed.",
    )
    parser.add_argument("first", type=int, nargs="?", help="the first seed")
    parser.add_argument("end", type=int, nargs="?", help="the seed after the last; one without it")
    parser.add_argument("--repeat", type=Path, metavar="FILE", help="try the trainings of a file")
    parser.add_argument("--jobs", type=int, default=1, help="how many train at a time")
    parser.add_argument("--folder", help="where the drives' folders lie; default: a temporary one")
    parser.add_argument(
        "--without-checksum", action="store_true", help="lies stay unnoticed, and bits differ"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="print every seed")
    arguments = parser.parse_args()
    if (arguments.first is None) == (arguments.repeat is None):
        parser.error("expected a seed or --repeat FILE")
    return arguments


def chosen(arguments):
    if arguments.repeat:
        lines = arguments.repeat.read_text().splitlines()
        return [Training.of_values(json.loads(line)) for line in lines]
    seeds = range(arguments.first, arguments.end or arguments.first + 1)
    trainings = [Training.of_seed(seed) for seed in seeds]
    if arguments.without_checksum:
        return [training.but(checksum=False) for training in trainings]
    return trainings


class Report:
    """Prints what ends wrongly, and at last how often trainings ended how."""

    def __init__(self, is_verbose):
        self._is_verbose = is_verbose
        self._counts = collections.Counter()
        self.wrong = []

    def add(self, training, ending):
        name = "WRONG" if ending.wrong else ending.name
        self._counts[f"{training.scenario}: {name}"] += 1
        if ending.wrong:
            self.wrong.append((training, ending))
            print(f"WRONG {training}: {ending.wrong}", flush=True)
        elif self._is_verbose:
            print(f"{training}: {ending.name}", flush=True)

    def print_counts(self):
        for ending, count in sorted(self._counts.items()):
            print(f"{count:6} {ending}")
        print(f"{self._counts.total()} trainings: {len(self.wrong)} end wrongly")


def shrunk(training, faults, child):
    """The training with the fewest faults that ends wrongly, or None when the faults alone do not
    make it end so."""
    until = time.monotonic() + SHRINKING_SECONDS

    def fails(rest):
        repeated = training.but(faults=rest)
        return time.monotonic() < until and any(child.run(repeated).wrong for _ in range(ATTEMPTS))

    return training.but(faults=shrink(faults, fails)) if fails(faults) else None


def tell_shrunk(training, ending, child):
    least = shrunk(training, ending.faults, child)
    if least is None:
        print(f"seed {training.seed}: its {len(ending.faults)} faults alone do not repeat it")
        return
    print(f"seed {training.seed}: {len(least.faults)} of {len(ending.faults)} faults:")
    print(json.dumps(least.values()), flush=True)


def prepare(trainings, machines):
    """Makes the references once, for all children."""
    # What looks through all objects (garbage collection, and sessions for the names of modules) has
    # 260,000 fewer of them from now on.
    gc.collect()
    gc.freeze()
    torch.set_num_threads(1)
    budgets.settle_kernels()
    with budgets.offload(budgets.UNLIMITED, ssd=machines[0].drives):
        pass  # measures the drives, unless an earlier run has
    for machine in machines:
        machine.note_probes(cache_directory().parent)
    for name in dict.fromkeys(training.job for training in trainings):
        reference(name)


def cpu_seconds():
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return [use.ru_utime + use.ru_stime for use in uses]


def main():
    arguments = parse()
    trainings = chosen(arguments)
    report = Report(arguments.verbose)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        machines = [Machine(Path(folder) / str(number)) for number in range(arguments.jobs)]
        prepare(trainings, machines)
        with contextlib.ExitStack() as stack:
            children = [stack.enter_context(contextlib.closing(Child(each))) for each in machines]
            for training, ending in run_all(trainings, children):
                report.add(training, ending)
            for training, ending in report.wrong:
                if training.faults is None and ending.faults:
                    tell_shrunk(training, ending, children[0])
    report.print_counts()
    own, others = cpu_seconds()
    print(f"CPU seconds: {own:.1f} for references, {others / len(trainings):.2f} per training")
    return 1 if report.wrong else 0
