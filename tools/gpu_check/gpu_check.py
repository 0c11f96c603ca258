"""`make gpu-check`: everything that needs a GPU, in one command and a given time.

Runs the checks of tests/gpu with pytest, and writes report.md and report.json to OUT. The most
important checks come first; those that do not fit the remaining time are skipped. The others run
even when a check fails or hangs. Options that are not listed here go to pytest.

    gpu_check.py --out DIR --parts build checks           # without the measurements
    gpu_check.py --out DIR --parts checks -k fused        # some checks of a part
    gpu_check.py --out DIR --device cpu --tiny            # the whole flow, on any machine

The exit code is 1 when a check has failed or a signal has ended the run, otherwise 0.
"""

import argparse
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHECKS = ROOT / "tests" / "gpu"
PARTS = ("build", "checks", "link", "training", "peers")


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
_TEXT = {"test_text.py": ("training", "peers")}
_CHECKS = ("test_layers.py", "test_bits.py", "test_streams.py")

SESSIONS = (  # in this order
    Session("build", {"test_build.py": ("build",)}),
    Session("machine", {"test_machine.py": PARTS}),
    Session("checks", _TEXT | dict.fromkeys(_CHECKS, ("checks",)), 8),
    Session("link", {"test_link.py": ("link",)}),
    Session("training", {"test_training.py": ("training",)}),
    Session("peers", {"test_peers.py": ("peers",)}),
    Session("further_training", {"test_further_training.py": ("training",)}),
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
    add("--out", default="gpu-check", type=Path, help="folder for the report")
    add("--build", default=ROOT / "build-gpu", type=Path)
    add("--carry", default=ROOT / "gpu-carry", type=Path, help="folder that make gpu-carry made")
    add("--ssd", type=Path, help="directory on the drive to use (default: in the build folder)")
    add("--parts", nargs="+", choices=PARTS, default=PARTS)
    add("--seconds", type=float, default=465, help="time for the whole check")
    add("--device", choices=("cuda", "cpu"), default="cuda", help="cpu is for trying the flow")
    add("--tiny", action="store_true", help="the shortest form of everything")
    return parser.parse_known_args(argv)


class Check:
    """One run of the chosen parts."""

    def __init__(self, options, pytest_arguments):
        self.broken = []  # names of sessions in which pytest itself failed
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
            *("--no-header", "--tb=line", "--show-capture=no", *pytest_arguments),
        ]

    def log(self, session) -> Path:
        """Returns the report log of a session, which stays until the session runs again."""
        return self.results / f"{session.name}.jsonl"

    def run(self, reporter) -> str:
        """Runs the sessions. Returns a sentence about how the run ended.

        Raises KeyboardInterrupt.
        """
        import pytest

        broken = (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR)

        for session, _ in self.sessions:
            self.log(session).unlink(missing_ok=True)
        for session, files in self.sessions:
            code = pytest.main([str(a) for a in self.pytest_arguments(session, files)], [reporter])
            if code == pytest.ExitCode.INTERRUPTED:
                raise KeyboardInterrupt
            if code in broken:
                self.broken.append(session.name)
            failed = failed_names(reporter.write(f"The session {session.name} has ended."))
            for name in set(REQUIRED) & failed:
                return f"Nothing was run after {name} had failed."
        if self.broken:
            return f"pytest has failed in {', '.join(self.broken)}."
        return "All chosen checks have ended."

    def pytest_arguments(self, session, files) -> list:
        parallel = ["-n", "auto", "--maxprocesses", session.workers, "--dist", "worksteal"]
        log = ["--report-log", self.log(session)]
        return [*files, *self.arguments, *(parallel if session.workers else []), *log]


def failed_names(results) -> set[str]:
    return {result["name"] for result in results if result["outcome"] == "failed"}


def make_reporter(options, check):
    """Returns the plugin for pytest that writes the report.

    pytest and its plugins come from the carried folder, or from this Python without it.
    """
    sys.path.insert(0, str(options.carry.absolute() / "python"))
    try:
        import pytest_reportlog  # noqa: F401
        import pytest_timeout  # noqa: F401
        import xdist  # noqa: F401
        from reporter import Reporter
    except ImportError as error:
        raise SystemExit(f"gpu-check: {error}: `make gpu-carry` collects what is needed") from None
    return Reporter(options.out, [check.log(session) for session in SESSIONS])


def main(argv=None) -> int:
    options, pytest_arguments = parse_arguments(argv)
    check = Check(options, pytest_arguments)
    reporter = make_reporter(options, check)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    is_interrupted = False
    try:
        state = check.run(reporter)
    except KeyboardInterrupt:
        state, is_interrupted = "A signal has ended the run.", True
    results = reporter.write(state)
    print((options.out / "report.md").read_text().partition("\n## ")[0])
    print(f"report in {options.out}/report.md and report.json")
    return 1 if is_interrupted or check.broken or failed_names(results) else 0


if __name__ == "__main__":
    sys.exit(main())
