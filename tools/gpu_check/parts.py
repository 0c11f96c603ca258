"""What the check is made of: its steps, in parts that can be chosen one by one."""

import importlib.util
import math
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from steps import ROOT, Step

sys.path.insert(0, str(ROOT / "examples"))

from arms.arm import ENVIRONMENT as TRAINING_ENVIRONMENT

WORKLOADS = ROOT / "tests" / "gpu" / "workloads"
BITS_CASES = ("single", "foreach", "fused", "autocast", "checkpointing", "compile", "deviation")
PEERS = ("save_on_cpu", "fsdp2", "zero-offload", "zero-infinity")
TARGETS = ("teraio_pytorch", "teraio", "device_tests", "storage_tests", "engine_tests")


@dataclass(frozen=True)
class Place:
    """Where things are. `is_tiny`: the shortest form of everything, to try the flow."""

    build: Path
    carry: Path
    ssd: Path
    device: str
    is_tiny: bool = False

    @property
    def work(self):
        return self.build / "gpu-check"

    def program(self, name):
        return self.build / "bin" / name

    @property
    def environment(self):
        """For everything that imports teraio; its cache of measured drives is the check's own."""
        return TRAINING_ENVIRONMENT | {
            "PATH": f"{os.environ['PATH']}:{self.carry / 'bin'}",  # fio, where the system has none
            "PYTHONPATH": str(self.build / "python"),
            "XDG_CACHE_HOME": str(self.work / "cache"),
        }


def toolkit_hints():
    """For CMake, where the compiler nvcc came without the runtime: that of PyTorch's wheels."""
    nvcc = shutil.which("nvcc", path=f"{os.environ['PATH']}:/usr/local/cuda/bin")
    if nvcc is None:
        return []
    toolkit = Path(nvcc).resolve().parents[1]
    folders = ("lib64", "lib", "targets/x86_64-linux/lib")
    if any((toolkit / folder / "libcudart_static.a").exists() for folder in folders):
        return []
    wheels = importlib.util.find_spec("nvidia")
    found = [
        library.parents[1]
        for place in (wheels.submodule_search_locations if wheels else [])
        for library in Path(place).glob("*/lib/libcudart_static.a")
    ]
    if not found:
        return []
    folder = found[-1]
    return [f"-DCMAKE_LIBRARY_PATH={folder / 'lib'}", f"-DCMAKE_INCLUDE_PATH={folder / 'include'}"]


def build_steps(place):
    """Configuring, then building."""
    configure = ["cmake", "-S", ROOT, "-B", place.build, "-G", "Ninja"]
    configure += [f"-DPython_EXECUTABLE={sys.executable}", "-DTERAIO_BUILD_BENCHMARKS=OFF"]
    configure += [f"-DTERAIO_CUDA={'ON' if place.device == 'cuda' else 'AUTO'}"]
    configure += toolkit_hints()
    if place.carry.is_dir():
        configure += [f"-DCMAKE_PREFIX_PATH={place.carry / 'usr'}"]
    build = ["cmake", "--build", place.build, "--target", *TARGETS]
    return [
        Step("configure", configure, timeout_seconds=120),
        Step("build", build, timeout_seconds=math.inf),  # nothing else can be done without it
    ]


def text_options(place):
    carried = place.carry / "text.json.gz"
    return ["--cache", place.work / "data", *(["--data", carried] if carried.exists() else [])]


def text_steps(place):
    script = [sys.executable, WORKLOADS / "jobs.py", "--device", "cpu", *text_options(place)]
    jobs = ["tiny"] if place.is_tiny else ["1b", "1b-long"]
    return [Step(f"text for {job}", [*script, "--job", job], timeout_seconds=180) for job in jobs]


def probe_step(place):
    """Measured once and alone: everything that follows finds the rates in the check's cache."""
    command = [place.program("teraio"), "probe", "--ssd", place.ssd]
    command += ["--out", place.work / "hardware.json"]
    command += ["--seconds", "0.1"] if place.is_tiny else []
    return Step("probe of the drive", command, place.environment, timeout_seconds=60)


def gpu_step(place):
    """Passes, and is not skipped in part, where our own build finds a GPU."""
    return Step("a GPU is there", [place.program("device_tests"), "--gtest_filter=*TellsWhatItIs"])


def test_steps(place):
    on_device = {"TERAIO_TEST_DEVICE": place.device}
    small = "--gtest_filter=*cuda*:CudaOrder*-*Random*"
    few = ["--gtest_filter=*BytesComeBack*"] if place.is_tiny else []
    steps = [Step("device tests", [place.program("device_tests"), *few], timeout_seconds=120)]
    if place.is_tiny:
        return steps
    return [
        Step(
            "device tests under compute-sanitizer",
            ["compute-sanitizer", "--error-exitcode", "9", place.program("device_tests"), small],
            timeout_seconds=180,
            needs="compute-sanitizer",
        ),
        *steps,
        Step("storage tests", [place.program("storage_tests")], timeout_seconds=240),
        Step("engine tests", [place.program("engine_tests")], on_device, timeout_seconds=240),
    ]


def bits_steps(place):
    script = [sys.executable, WORKLOADS / "compare_bits.py", "--device", place.device]
    cases = ("foreach", "deviation") if place.is_tiny else BITS_CASES
    shape = ["--steps", "5", "--width", "128"] if place.is_tiny else []
    plain = [("bits", case, []) for case in cases]
    under_stress = [("bits under stress", case, ["--stress"]) for case in cases[-1:] + cases[:-1]]
    return [
        Step(
            f"{name}: {case}",
            [*script, "--case", case, "--ssd", place.ssd, *shape, *more],
            place.environment,
            timeout_seconds=200,
        )
        for name, case, more in plain + under_stress
    ]


def link_step(place):
    command = [sys.executable, WORKLOADS / "measure_link.py", "--teraio", place.program("teraio")]
    command += ["--device", place.device, "--ssd", place.ssd, "--out", place.work / "link.json"]
    if place.is_tiny:
        command += ["--rounds", "1", "--seconds", "0.05", "--size", str(1 << 28)]
    return Step("link and drive", command, place.environment, timeout_seconds=90, needs_seconds=20)


@dataclass(frozen=True)
class Training:
    """A job's arms in one process; no arm is begun after `seconds`."""

    job: str
    precision: str
    arms: tuple[str, ...]
    seconds: float
    variant: str = ""  # of VARIANTS; arms are compared within one

    @property
    def title(self):
        return "-".join(filter(None, (self.job, self.precision, self.variant)))


# Ways to run everything in a process, stock PyTorch too.
VARIANTS = {
    "": {},
    # Memory under a hard limit in pieces that grow, where else each size has blocks of its own.
    "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
}


def job_words(place, job, precision, steps):
    words = ["--job", job, "--precision", precision, "--device", place.device]
    return [*words, "--steps", steps, "--ssd", place.ssd, *text_options(place)]


def training_step(place, training, number, seconds, peak_bytes=None):
    """`number` counts the processes; each leaves a file of its own."""
    name = f"{training.title}-{number}"
    command = [sys.executable, WORKLOADS / "measure_training.py"]
    command += job_words(place, training.job, training.precision, steps=9)
    command += ["--arms", *training.arms, "--seconds", seconds]
    command += ["--out", place.work / f"{name}.arms.jsonl"]
    command += ["--peak-bytes", peak_bytes] if peak_bytes else []
    return Step(
        f"training {name}",
        command,
        place.environment | VARIANTS[training.variant],
        timeout_seconds=seconds + 45,  # for the arm that began last
        quiet_seconds=75,
        needs_seconds=5 if place.is_tiny else 40,
        attempts=3,
    )


def peer_step(place, peer, job, precision, steps=5):
    command = [sys.executable, WORKLOADS / "measure_peer.py", "--peer", peer]
    command += job_words(place, job, precision, steps)
    command += ["--out", place.work / f"{job}-{precision}.peers.jsonl"]
    return Step(
        f"peer {peer} {job} {precision}",
        command,
        TRAINING_ENVIRONMENT,
        timeout_seconds=60,
        quiet_seconds=50,
        needs_seconds=20,
    )
