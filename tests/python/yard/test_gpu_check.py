"""`make gpu-check` on a pretended GPU: stand-ins answer for all programs that it runs."""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools" / "gpu_check" / "gpu_check.py"
STAND_IN = ROOT / "tests" / "python" / "yard" / "gpu_stand_ins" / "stand_in.py"
PROGRAMS = ("device_tests", "storage_tests", "engine_tests", "runtime_tests", "teraio")
TOOLS = ("cmake", "compute-sanitizer")
WORKLOADS = ("train_matrix", "exercise_streams", "jobs")
WORKLOADS += ("measure_copies", "measure_peer", "measure_training")

sys.path.append(str(TOOL.parent))
figures = importlib.import_module("figures")
prebuilt = importlib.import_module("prebuilt")

STREAM_CHECKS = [
    f"test_streams.py::test_results_are_those_without_a_session[{case}]"
    for case in ("side-stream", "record-stream", "capture", "fragmentation")
]

pytestmark = pytest.mark.timeout(300)


class Run:
    """A run of gpu-check that may still be going on."""

    def __init__(self, folder, arguments, misbehaviour, workers):
        self.out = folder / "out"
        self.fifo = folder / "fifo"
        if not self.fifo.exists():
            os.mkfifo(self.fifo)
        command = [sys.executable, TOOL, "--out", self.out, "--build", folder / "build"]
        command += ["--carry", folder / "carry", "--workloads", folder / "workloads", *arguments]
        environment = {
            "PATH": f"{folder / 'tools'}:{os.environ['PATH']}",
            "STAND_INS": json.dumps(misbehaviour),
            "STAND_IN_FIFO": str(self.fifo),
            "PYTEST_XDIST_AUTO_NUM_WORKERS": str(workers),
        }
        self.process = subprocess.Popen(
            [str(word) for word in command],
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_for_hanging(self):
        """The id of the process that runs the hanging program, and a file that ends with that."""
        file = self.fifo.open()
        return int(file.readline()), file

    def end(self):
        """The exit code."""
        self.output, _ = self.process.communicate()
        return self.process.returncode

    @property
    def report(self):
        return (self.out / "report.txt").read_text()

    def results(self):
        """The phases of all tests that the logs tell of, by the name of the test."""
        found = {}
        for log in self.out.glob("*.jsonl"):
            for entry in map(json.loads, log.read_text().splitlines()):
                if entry["$report_type"] == "TestReport":
                    found.setdefault(entry["nodeid"], []).append(entry)
        return found

    @property
    def outcomes(self):
        """The worst outcome of each test by its name."""
        worst = ("failed", "skipped", "passed")
        return {
            name: min((phase["outcome"] for phase in phases), key=worst.index)
            for name, phases in self.results().items()
        }

    def text(self, name):
        """All that the logs have of a test."""
        return json.dumps(self.results()[name])


@pytest.fixture
def start(tmp_path):
    """Starts gpu-check; `misbehaviour` is what the stand-ins are told."""
    for folder, names, suffix in (
        ("build/bin", PROGRAMS, ""),
        ("tools", TOOLS, ""),
        ("workloads", WORKLOADS, ".py"),
    ):
        (tmp_path / folder).mkdir(parents=True)
        for name in names:
            path = tmp_path / folder / (name + suffix)
            path.write_text(f"#!{sys.executable} -S\n{STAND_IN.read_text()}")
            path.chmod(0o755)
    runs = []

    def start(*arguments, misbehaviour=None, workers=1):
        runs.append(Run(tmp_path, arguments, misbehaviour or {}, workers))
        return runs[-1]

    yield start
    for run in runs:
        run.process.kill()


@pytest.mark.full
def test_everything_runs(start):
    run = start(workers=2)
    assert run.end() == 0, run.output
    assert set(run.outcomes.values()) <= {"passed", "skipped"}
    assert "1b-fp32, host-2: 1.000 s per step, 1.000 of ideal" in run.report
    assert "1b-fp32, fsdp2: 1.000 s per step in 300 bytes, 1.000 of our step" in run.report
    processes = {}  # an arm is measured once, and beside the peers
    for name, phases in run.results().items():
        for kind, record in phases[1]["user_properties"]:
            if kind == "arm" and "1b-fp32" in name:
                processes.setdefault(record["arm"], set()).add(record["process"])
    (beside_peers,) = processes["stock"] - processes["host-2"]
    assert processes["host-2"] == processes["host-3"] and len(processes["host-2"]) == 1
    assert processes["host-at-500"] == processes["host-at-300"] == {beside_peers}


def test_what_fails_dies_or_hangs_keeps_nothing_else_from_running(start):
    run = start(
        *("--tiny", "--parts", "checks", "link", "training"),
        misbehaviour={
            "device_tests --gtest_filter=*BytesComeBack*": "skip",
            "train_matrix": "hang",
            "measure_copies": "fail",
            "measure_training ample": "die",
            "measure_training both-2": "hang",
        },
    )
    worker, program = run.wait_for_hanging()
    assert worker != run.process.pid
    os.kill(worker, signal.SIGALRM)  # what the system sends at the end of the time limit
    assert program.read() == ""
    process, program = run.wait_for_hanging()
    assert process == run.process.pid
    os.kill(process, signal.SIGALRM)
    assert program.read() == ""
    assert run.end() == 1, run.output
    assert run.outcomes == dict.fromkeys(STREAM_CHECKS, "passed") | {
        "test_text.py::test_text[tiny]": "passed",
        "test_machine.py::test_gpu_is_found": "passed",
        "test_machine.py::test_drive_is_measured": "passed",
        "test_layers.py::test_device": "passed",
        "test_bits.py::test_bits[llama, changing lengths]": "failed",
        "test_link.py::test_link_and_drive": "passed",
        "test_link.py::test_copies_within_the_gpu": "failed",
        "test_training.py::test_arm[tiny-fp32-stock]": "passed",
        "test_training.py::test_arm[tiny-fp32-ample]": "failed",
        "test_training.py::test_arm[tiny-fp32-both-2]": "failed",
        "test_training.py::test_arm[tiny-fp32-stock-again]": "passed",
        "test_training.py::test_arm[tiny-muon-bf16-profiled-stock]": "passed",
        "test_training.py::test_arm[tiny-muon-bf16-profiled-both-2]": "failed",
    }
    assert "ended by SIGKILL" in run.text("test_training.py::test_arm[tiny-fp32-ample]")
    in_worker = run.text("test_bits.py::test_bits[llama, changing lengths]")
    in_trainer = run.text("test_training.py::test_arm[tiny-fp32-both-2]")
    for hung in (in_worker, in_trainer):
        assert "Timeout" in hung and "in hang" in hung
    assert "skipped in part" in run.text("test_layers.py::test_device")
    assert "it failed on purpose" in run.report
    assert "device <-> host, read: 96.00 GB/s read, 0.00 written" in run.report


@pytest.mark.parametrize(
    ("number", "part", "program"),
    [
        (signal.SIGTERM, "checks", "train_matrix"),  # runs in a worker
        (signal.SIGINT, "training", "measure_training both-2"),
    ],
    ids=["SIGTERM", "SIGINT"],
)
def test_a_signal_ends_all_programs_and_what_was_measured_is_told(start, number, part, program):
    run = start("--tiny", "--parts", part, misbehaviour={program: "hang"})
    _, program = run.wait_for_hanging()
    run.process.send_signal(number)
    assert program.read() == ""
    assert run.end() == 1, run.output
    assert "A signal has ended the run." in run.report
    assert ("tiny-fp32, ample: 1.000 s per step" in run.report) == (part == "training")
    assert run.outcomes["test_machine.py::test_drive_is_measured"] == "passed"


def test_when_time_is_up_what_runs_is_cut_off_and_the_rest_is_skipped(start):
    run = start("--tiny", "--parts", "training", "--seconds", 3, misbehaviour={"jobs": "hang"})
    assert run.end() == 0, run.output
    outcomes = {name.partition("::")[0]: outcome for name, outcome in run.outcomes.items()}
    assert outcomes == {
        "test_machine.py": "passed",
        "test_text.py": "skipped",
        "test_training.py": "skipped",
    }
    assert "s were left, it needs" in run.text("test_training.py::test_arm[tiny-fp32-stock]")


@pytest.mark.parametrize(
    ("program", "failed"),
    [
        ("cmake --build", "test_build.py::test_build"),
        ("device_tests --gtest_filter=*TellsWhatItIs", "test_machine.py::test_gpu_is_found"),
    ],
)
def test_nothing_runs_without_a_build_or_a_gpu(start, program, failed):
    action = "fail" if program.startswith("cmake") else "skip"
    run = start("--tiny", "--parts", "build", "link", misbehaviour={program: action})
    assert run.end() == 1, run.output
    assert run.outcomes[failed] == "failed"
    assert f"Nothing was run after {failed} had failed." in run.report
    assert "test_link.py::test_link_and_drive" not in run.outcomes


@pytest.fixture
def carried(tmp_path, start):
    """Files that were prebuilt for this machine: our extension, and stand-ins for the programs."""
    packages = prebuilt.folder_of_torch()
    if not prebuilt.cuda_runtime(packages).exists():
        pytest.skip("not applicable: PyTorch is no wheel for CUDA 13")
    folder = tmp_path / "carry" / "prebuilt"
    shutil.copytree(tmp_path / "build" / "bin", folder / "bin")
    (folder / "python" / "teraio").mkdir(parents=True)
    package = ROOT / "build" / "python" / "teraio"
    for path in [
        *package.glob("_build_info.py"),
        *package.glob("_units*"),
        *package.glob("torch_*"),
    ]:
        copy = shutil.copytree if path.is_dir() else shutil.copy
        copy(path, folder / "python" / "teraio" / path.name)
    (folder / "lib").mkdir()
    made_for = prebuilt.facts_of_this_machine(ROOT, packages)
    (folder / prebuilt.MADE_FOR).write_text(json.dumps(made_for))
    return folder


def test_prebuilt_files_that_fit_are_checked_without_a_build(start, tmp_path, carried):
    shutil.rmtree(tmp_path / "build" / "bin")
    run = start("--tiny", "--parts", "build", misbehaviour={"cmake": "fail"})
    assert run.end() == 0, run.output
    assert run.outcomes["test_machine.py::test_gpu_is_found"] == "passed"
    assert '"note", "prebuilt"' in run.text("test_build.py::test_build")


def test_prebuilt_files_of_other_sources_are_told_and_replaced_by_a_build(start, tmp_path, carried):
    (tmp_path / "build" / "prebuilt").mkdir()  # of an earlier run
    made_for = json.loads((carried / prebuilt.MADE_FOR).read_text())
    (carried / prebuilt.MADE_FOR).write_text(json.dumps(made_for | {"sources": "others"}))
    run = start("--tiny", "--parts", "build", misbehaviour={"cmake --build": "fail"})
    assert run.end() == 1, run.output
    assert run.outcomes["test_build.py::test_build"] == "failed"
    reason = "built here: the prebuilt files do not fit: they are of other sources"
    assert reason in run.text("test_build.py::test_build")
    assert not (tmp_path / "build" / "prebuilt").exists()


def test_what_other_parts_have_measured_stays(start):
    assert start("--tiny", "--parts", "link").end() == 0
    run = start("--tiny", "--parts", "training", "-k", "drive_is_measured or stock")
    assert run.end() == 0, run.output
    assert run.outcomes.keys() == {
        "test_machine.py::test_drive_is_measured",
        "test_link.py::test_link_and_drive",
        "test_link.py::test_copies_within_the_gpu",
        "test_training.py::test_arm[tiny-fp32-stock]",
        "test_training.py::test_arm[tiny-fp32-stock-again]",
        "test_training.py::test_arm[tiny-muon-bf16-profiled-stock]",
    }
    assert "device <-> host" in run.report


def test_an_arm_with_other_bits_than_stock_is_told(tmp_path):
    def line(arm, state):
        record = {"title": "1b", "arm": arm, "outcome": "done", "measured_seconds": [2.0]}
        record |= {"losses": [], "state": state, "sampled_peak_bytes": 11, "budget_bytes": 10}
        phase = {"$report_type": "TestReport", "when": "call"}
        return json.dumps(phase | {"user_properties": [["arm", record]]})

    log = tmp_path / "log.jsonl"
    lines = [line("stock", "aa"), line("host-2", "aa"), line("ssd-2", "bb"), '{"cut o']
    log.write_text("\n".join(lines))
    stock, equal, other = figures.table([log, tmp_path / "missing"]).splitlines()
    assert equal.endswith("host-2: 2.000 s per step, 1.000 of ideal, 1.100 of the budget taken")
    assert other == f"{equal.replace('host', 'ssd')}, BITS DIFFER FROM STOCK"


def test_an_ordinary_run_of_the_suite_leaves_these_checks_out():
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "tests",
        "--ignore=tests/python",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert "test_tidy.py" in done.stdout and "test_bits.py" not in done.stdout
