"""Fills in docs/evaluation.md and draws its figures: the paper's evaluation, predicted from traces.

PYTHONPATH=. python -m evaluation [--fresh]

Outcomes are kept in build/evaluation: a second run redoes only what depends on something that has
changed, and an interrupted run continues where it ended.
"""

import argparse
import shutil
import signal
import sys

from evaluation import cases, tasks
from evaluation.command import TERAIO


def main(arguments=None):
    parser = argparse.ArgumentParser("python -m evaluation", description=__doc__.splitlines()[0])
    parser.add_argument("--fresh", action="store_true", help="redo everything")
    options = parser.parse_args(arguments)
    folders = tasks.Folders()
    if options.fresh:
        shutil.rmtree(folders.build, ignore_errors=True)
    if not TERAIO.exists():
        print(f"make paper: {TERAIO} is not there: run `make build` first", file=sys.stderr)
        return 1
    # Without a handler, a termination would leave the processes that run tasks behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    wanted = [*cases.CASES, *cases.settings(), *cases.STAGES, *cases.SWEEP.values()]
    try:
        failed = tasks.run(wanted, folders)
    except KeyboardInterrupt:
        print("make paper: interrupted; what was made is kept", file=sys.stderr)
        return 130
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
