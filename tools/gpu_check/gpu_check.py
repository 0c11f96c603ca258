"""`make gpu-check`: everything that needs a GPU, in one command and a given time.

Runs the checks of tests/gpu with pytest. OUT gets report.txt, with what pytest prints and a table
of the figures, and the logs of pytest-reportlog, with all that was measured. The most important
checks come first; those that do not fit the remaining time are skipped. The others run even when a
check fails or hangs. Options that are not listed here go to pytest.

    gpu_check.py --out DIR --parts build checks           # without the measurements
    gpu_check.py --out DIR --parts checks -k fused        # some checks of a part
    gpu_check.py --out DIR --device cpu --tiny            # the whole flow, on any machine

The exit code is 1 when a check has failed or a signal has ended the run, otherwise 0.
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from figures import table

ROOT = Path(__file__).resolve().parents[2]
CHECKS = ROOT / "tests" / "gpu"
PARTS = ("build", "checks", "link", "training")


@dataclass(frozen=True)
class Session:
    """A session of pytest: its files in order, each with the parts of the check that need it.

    With `workers`, up to that many tests run at a time, one per core.
    """

    name: str
    files: dict[str, tuple[str, ...]]
    workers: int = 0

    def chosen_files(self, parts) -> list[Path]:
        return [CHECKS / name for name, needed_by in self.files.items() if set(needed_by) & parts]


# The tokens are made while nothing is measured.
_TEXT = {"test_text.py": ("training",)}
_CHECKS = ("test_layers.py", "test_bits.py", "test_streams.py")

SESSIONS = (  # in this order
    Session("build", {"test_build.py": ("build",)}),
    Session("machine", {"test_machine.py": PARTS}),
    Session("checks", _TEXT | dict.fromkeys(_CHECKS, ("checks",)), 8),
    Session("link", {"test_link.py": ("link",)}),
    Session("training", {"test_training.py": ("training",)}),
)
# When one of these fails, nothing else runs.
REQUIRED = ("test_build.py::test_build", "test_machine.py::test_gpu_is_found")


def parse_arguments(argv=None):
    """Returns our options, and the arguments for pytest."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--out", default=Path("gpu-check"), type=Path, help="folder for the report")
    add("--build", default=ROOT / "build-gpu", type=Path)
    add("--carry", default=ROOT / "gpu-carry", type=Path, help="folder that make gpu-carry made")
    add("--ssd", type=Path, help="directory on the drive to use (default: in the build folder)")
    add("--parts", nargs="+", choices=PARTS, default=PARTS)
    add("--seconds", type=float, default=465, help="time for the whole check")
    add("--device", choices=("cuda", "cpu"), default="cuda", help="cpu is for trying the flow")
    add("--tiny", action="store_true", help="the shortest form of everything")
    return parser.parse_known_args(argv)


class Failures:
    """A plugin for pytest that collects the names of the tests that have failed."""

    def __init__(self):
        self.names = set()

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.names.add(report.nodeid)

    pytest_collectreport = pytest_runtest_logreport


class Check:
    """One run of the chosen parts."""

    def __init__(self, options, pytest_arguments):
        self.out = options.out
        self.results = options.build.absolute() / "gpu-check" / "results"
        chosen = [(session, session.chosen_files(set(options.parts))) for session in SESSIONS]
        self.sessions = [(session, files) for session, files in chosen if files]
        # Named, because pytest would look for a configuration above all paths among the arguments.
        self.arguments = [
            *("-c", CHECKS / "pytest.ini", "--rootdir", CHECKS),
            *("--build", options.build, "--carry", options.carry, "--device", options.device),
            *(["--ssd", options.ssd] if options.ssd else []),
            *(["--tiny"] if options.tiny else []),
            *("--deadline", time.monotonic() + options.seconds),
            *("--tb=short", *pytest_arguments),
        ]

    def log(self, session) -> Path:
        """Returns the report log of a session, which stays until the session runs again."""
        return self.results / f"{session.name}.jsonl"

    def run(self) -> bool:
        """Runs the sessions, prints the table after each. Returns whether all checks have passed.

        Raises KeyboardInterrupt.
        """
        import pytest

        broken = (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR)
        failures, is_broken = Failures(), False
        for session, _ in self.sessions:
            self.log(session).unlink(missing_ok=True)
        for session, files in self.sessions:
            code = pytest.main([str(a) for a in self.pytest_arguments(session, files)], [failures])
            self.keep_logs()
            if code == pytest.ExitCode.INTERRUPTED:
                raise KeyboardInterrupt
            is_broken |= code in broken
            for name in set(REQUIRED) & failures.names:
                print(f"Nothing was run after {name} had failed.")
                return False
        return not failures.names and not is_broken

    def pytest_arguments(self, session, files) -> list:
        parallel = ["-n", "auto", "--maxprocesses", session.workers, "--dist", "worksteal"]
        log = ["--report-log", self.log(session)]
        return [*files, *self.arguments, *(parallel if session.workers else []), *log]

    def keep_logs(self) -> None:
        """Copies the logs to OUT, also those of sessions that an earlier run has left."""
        for log in self.results.glob("*.jsonl"):
            shutil.copy(log, self.out)

    def table(self) -> str:
        return table([self.log(session) for session in SESSIONS])


def use_carried_packages(carry: Path) -> None:
    """Takes pytest and its plugins from the carried folder, or from this Python without it."""
    sys.path.insert(0, str(carry.absolute() / "python"))
    try:
        import pytest_reportlog  # noqa: F401
        import pytest_timeout  # noqa: F401
        import xdist  # noqa: F401
    except ImportError as error:
        raise SystemExit(f"gpu-check: {error}: `make gpu-carry` collects what is needed") from None


@contextlib.contextmanager
def also_printed_to(path: Path):
    """Lets standard output go to a file, too."""
    # In a session of its own, so that Ctrl-C does not end it before what it reports.
    tee = subprocess.Popen(["tee", path], stdin=subprocess.PIPE, start_new_session=True)
    terminal = os.dup(1)
    os.dup2(tee.stdin.fileno(), 1)
    tee.stdin.close()
    sys.stdout.reconfigure(line_buffering=True)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(terminal, 1)
        tee.wait()


def run(check: Check) -> bool:
    """Runs the checks and prints the table. Returns whether all of them have passed."""
    try:
        is_passed = check.run()
    except KeyboardInterrupt:
        print("A signal has ended the run.")
        is_passed = False
    check.keep_logs()
    print(check.table(), f"report in {check.out}/report.txt", sep="\n")
    return is_passed


def main(argv=None) -> int:
    options, pytest_arguments = parse_arguments(argv)
    check = Check(options, pytest_arguments)
    use_carried_packages(options.carry)
    options.out.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    with also_printed_to(options.out / "report.txt"):
        return 0 if run(check) else 1


if __name__ == "__main__":
    sys.exit(main())
