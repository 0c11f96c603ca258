"""Where the checks find what was built and leave what they measure."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from arms.arm import ENVIRONMENT as TRAINING_ENVIRONMENT

ROOT = Path(__file__).resolve().parents[2]
WORKLOADS = ROOT / "tests" / "gpu" / "workloads"


@dataclass(frozen=True)
class Workspace:
    """The folders, the device and the size of a run of the checks.

    `carry` holds what `make gpu-carry` has collected; it may be missing. `ssd` lies on the drive
    that is measured. `is_tiny` asks for the smallest shapes, to try the flow on any machine.
    """

    build: Path
    carry: Path
    ssd: Path
    device: str
    is_tiny: bool

    @property
    def work(self) -> Path:
        """The folder for caches and intermediate files."""
        return work_folder(self.build)

    @property
    def prebuilt(self) -> Path:
        """The folder for what was built elsewhere. It exists when that is what is checked."""
        return self.build / "prebuilt"

    @property
    def built(self) -> Path:
        """The folder of what is checked: prebuilt, or what was built here."""
        return self.prebuilt if self.prebuilt.is_dir() else self.build

    def program(self, name: str) -> Path:
        """The path of a program that is checked."""
        return self.built / "bin" / name

    def workload(self, name: str, *arguments) -> list:
        """The command that runs a workload."""
        return [sys.executable, WORKLOADS / f"{name}.py", *arguments]

    @property
    def training_environment(self) -> dict[str, str]:
        """The variables for every process that trains, with or without teraio."""
        # Threads that wait for each other cost small models more than they bring.
        threads = {"OMP_NUM_THREADS": "1"} if self.is_tiny else {}
        return TRAINING_ENVIRONMENT | threads

    @property
    def environment(self) -> dict[str, str]:
        """The variables for every process that imports teraio.

        The cache of measured drives is the checks' own.
        """
        return self.training_environment | {
            "PYTHONPATH": os.pathsep.join(
                filter(None, [str(self.built / "python"), os.environ.get("PYTHONPATH")])
            ),
            "TERAIO_PYTHON": sys.executable,
            "XDG_CACHE_HOME": str(self.work / "cache"),
        }

    @property
    def test_environment(self) -> dict[str, str]:
        """The variables for the C++ tests: the sources may have moved since they were built."""
        return {"TERAIO_TEST_DATA": str(ROOT / "tests" / "data"), "TERAIO_TEST_DEVICE": self.device}

    @property
    def text_options(self) -> list:
        """The options of a workload that name the text to train on and the cache of its tokens."""
        carried = self.carry / "text.json.gz"
        data = ["--data", carried] if carried.exists() else []
        return ["--cache", self.work / "data", *data]

    def job_options(self, job: str, precision: str, steps: int) -> list:
        """The options of a workload that trains `job`."""
        options = ["--job", job, "--precision", precision, "--device", self.device]
        return [*options, "--steps", steps, "--ssd", self.ssd, *self.text_options]


def work_folder(build: Path) -> Path:
    """The folder of a build that is the checks' own."""
    return build / "gpu-check"


def drive_folder(work: Path) -> Path:
    """A folder on a drive: `work`, or another one where `work` lies in memory."""
    for folder in (work, Path("/var/tmp/teraio-gpu-check"), Path.home() / ".cache"):
        folder.mkdir(parents=True, exist_ok=True)
        if file_system(folder) not in ("tmpfs", "ramfs"):
            break
    return folder / "ssd"


def file_system(folder: Path) -> str:
    """The type of the folder's file system; empty where `stat` does not tell."""
    command = ["stat", "--file-system", "--format=%T", folder]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()
