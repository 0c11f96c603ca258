"""The output of a run: a line for each finished task, and the failures at the end."""

import sys
import time
from collections import Counter

from doit.exceptions import UnmetDependency
from doit.reporter import ConsoleReporter

PLURALS = {
    "trace": "dry runs",
    "analysis": "analyses",
    "figure": "figures",
    "document": "documents",
}


class Progress(ConsoleReporter):
    """The reporter for doit: numbers the tasks of each kind, and prints how long each took.

    The kind of a task is its name up to the first colon.
    """

    desc = "a line for each finished task"

    def __init__(self, outstream, options):
        super().__init__(outstream, options)
        self._totals, self._finished = Counter(), Counter()
        self._began = {}
        self._failed = []

    def initialize(self, tasks, selected_tasks):
        self._totals.update(_kind(task) for task in tasks.values() if task.actions)

    def execute_task(self, task):
        self._began[task.name] = time.perf_counter()

    def add_success(self, task):
        if task.actions:
            self._tell(task, f"{time.perf_counter() - self._began[task.name]:.1f} s")

    def skip_uptodate(self, task):
        if task.actions:
            self._tell(task, "kept")

    def add_failure(self, task, fail):
        if isinstance(fail, UnmetDependency):
            return  # a task that it depends on has failed and was reported
        self._failed.append(task)
        self._tell(task, f"failed: {fail.message}")
        if fail.traceback:
            print("".join(fail.traceback), file=sys.stderr)

    def runtime_error(self, msg):
        print(f"make paper: {msg}", file=sys.stderr)

    def complete_run(self):
        for kind, plural in PLURALS.items():
            failed = [task.doc for task in self._failed if _kind(task) == kind]
            if failed:
                count = f"{len(failed)} of {self._totals[kind]} {plural} failed"
                named = "; ".join(failed)
                print(f"make paper: {count}: {named}; what was made is kept", file=sys.stderr)

    def _tell(self, task, outcome):
        kind = _kind(task)
        self._finished[kind] += 1
        place = f"{kind} {self._finished[kind]}/{self._totals[kind]}"
        self.write(f"{place}  {task.doc}  {outcome}\n")
        self.outstream.flush()


def _kind(task):
    return task.name.partition(":")[0]
