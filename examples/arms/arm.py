"""One arm: the training script in a process of its own, with or without an offloading session."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1]
SCRIPT = EXAMPLES / "pretrain_llama.py"
WARM_START = EXAMPLES / "arms" / "warm_start.py"

# glibc returns large blocks to the system on every free, and touching new pages costs more than
# many ops do. In every arm, the process keeps them instead.
ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
    "PYTHONUNBUFFERED": "1",
}
POLL_SECONDS = 0.25
STOP_SECONDS = 60


class ArmFailed(Exception):
    """Raised when the process of an arm fails; the message shows the end of its log."""


@dataclass(frozen=True)
class Arm:
    """A way to run the training. Without a budget it is stock PyTorch, without TERAIO."""

    name: str
    device_budget: str | None = None
    policy: str = "planned"
    recompute: str = "all"
    prefix: tuple[str, ...] = ()  # of the command: what limits the process
    save: bool = False  # save the trace and the plan beside the report
    script: Path = SCRIPT  # takes the options of pretrain_llama.py and leaves its records

    def command(self, training: list[str], directory: Path, ssd: list[Path]) -> list[str]:
        script = [
            *(str(WARM_START), str(self.script), *training),
            *("--losses", str(directory / "losses.json")),
            *("--progress-file", str(directory / "training.json")),
        ]
        if self.device_budget is None:
            return [*self.prefix, sys.executable, *script]
        options = ["--device-budget", self.device_budget, "--policy", self.policy]
        if self.recompute != "all":
            options += ["--recompute", self.recompute]
        for drive in ssd:
            options += ["--ssd", str(drive)]
        options += ["--report", str(directory)]
        if self.save:
            options += ["--save-trace", str(directory / "trace.json.gz")]
            options += ["--save-plan", str(directory / "plan.json.gz")]
        return [*self.prefix, sys.executable, "-m", "teraio", "run", *options, *script]


@dataclass(frozen=True)
class Moment:
    """The progress of an arm while it runs; values that are not known yet are None."""

    elapsed_seconds: float
    step: int = 0
    loss: float | None = None
    step_seconds: float | None = None
    phase: str | None = None
    device_bytes: int | None = None
    ssd_bytes_read_per_second: float = 0
    ssd_bytes_written_per_second: float = 0


@dataclass(frozen=True)
class ArmResult:
    """The records of a finished arm: the script's, and the session's (None for stock PyTorch)."""

    name: str
    training: dict
    session: dict | None


def run_arm(
    arm: Arm,
    training: list[str],
    directory: Path,
    ssd: list[Path],
    watch: Callable[[Moment], None] = lambda moment: None,
) -> ArmResult:
    """Runs `arm` to its end, calling `watch` a few times a second. Raises ArmFailed."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("losses.json", "training.json", "run.json"):
        (directory / name).unlink(missing_ok=True)
    log = directory / "log.txt"
    began = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(
            arm.command(training, directory, ssd),
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **ENVIRONMENT},
        )
        with stopping(process):
            while process.poll() is None:
                watch(observe(directory, time.monotonic() - began))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_SECONDS)
    watch(observe(directory, time.monotonic() - began))
    if process.returncode != 0:
        raise ArmFailed(f"{arm.name} ended with {process.returncode}; {log}:\n{tail(log)}")
    return load(arm.name, directory)


@contextlib.contextmanager
def stopping(process: subprocess.Popen):
    """Ends the process with the block: by SIGINT, then by SIGKILL if it does not end in time."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def observe(directory: Path, elapsed_seconds: float) -> Moment:
    training = read_json(directory / "training.json") or {}
    session = session_that_reports_to(directory)
    ssd = session.get("tiers", {}).get("ssd", {})
    return Moment(
        elapsed_seconds=elapsed_seconds,
        step=training.get("step", 0),
        loss=training.get("loss"),
        step_seconds=training.get("step_seconds"),
        phase=session.get("phase"),
        device_bytes=session.get("device_bytes"),
        ssd_bytes_read_per_second=ssd.get("read_bytes_per_second", 0),
        ssd_bytes_written_per_second=ssd.get("write_bytes_per_second", 0),
    )


def session_that_reports_to(directory: Path) -> dict:
    """Returns what `teraio top` shows of the arm's session, empty while there is none."""
    # Not at the top of the file: the demo itself tells that the package is missing.
    from teraio.watch.status_file import read_jobs

    jobs = [job for job in read_jobs() if job["report"] == os.path.abspath(directory)]
    return next((job for job in jobs if not job["is_dead"]), {})


def load(name: str, directory: Path) -> ArmResult:
    """Reads the records of a finished arm. Raises ArmFailed when the script's is missing."""
    training = read_json(directory / "losses.json")
    if training is None:
        raise ArmFailed(f"{name} left no {directory / 'losses.json'}: its log is log.txt there")
    return ArmResult(name, training, read_json(directory / "run.json"))


def read_json(path: Path):
    """Returns the JSON value of a file, or None while the file does not exist."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None


def tail(log: Path, lines: int = 20) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
