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

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "gpu_check" / "gpu_check.py"
STAND_IN = ROOT / "tests" / "python" / "gpu_stand_ins" / "stand_in.py"
PROGRAMS = ("device_tests", "storage_tests", "engine_tests", "teraio")
TOOLS = ("cmake", "compute-sanitizer")
WORKLOADS = ("compare_bits", "exercise_streams", "jobs")
WORKLOADS += ("measure_link", "measure_peer", "measure_training")

sys.path.append(str(TOOL.parent))
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
        return json.loads((self.out / "report.json").read_text())

    @property
    def outcomes(self):
        """The outcomes of the tests by name, in the order of the report."""
        return {result["name"]: result["outcome"] for result in self.report["results"]}

    def result(self, name):
        return next(result for result in self.report["results"] if result["name"] == name)


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
def test_everything_runs_and_what_matters_most_comes_first(start):
    run = start(workers=2)
    assert run.end() == 0, run.output
    names = list(run.outcomes)
    first = ["test_build.py::test_build", "test_machine.py::test_gpu_is_found"]
    first += ["test_bits.py::test_planned[fused]", "test_link.py::test_link_and_drive"]
    then = ["test_training.py::test_arm[1b-fp32-host-2]"]
    then += ["test_training.py::test_arm[1b-long-fp32-stock]"]
    then += ["test_peers.py::TestJob::test_peer[fsdp2-1b-fp32]"]
    then += ["test_peers.py::TestJob::test_ours[within-fsdp2-1b-fp32]"]
    then += ["test_peers.py::TestJob::test_peer[fsdp2-1b-bf16]"]
    last = ["test_further_training.py::test_arm[1b-bf16-stock]"]
    last += ["test_further_training.py::test_arm[1b-fp32-again-host-3]"]
    places = [names.index(name) for name in first + then + last]
    assert places == sorted(places)
    for case in ("autocast", "checkpointing", "compile", "deviation", "foreach", "fused", "single"):
        assert run.outcomes[f"test_bits.py::test_planned[{case}]"] == "passed"
        assert run.outcomes[f"test_bits.py::test_evicted_after_every_op[{case}]"] == "passed"
    assert all(run.outcomes[name] == "passed" for name in STREAM_CHECKS)
    assert run.outcomes["test_layers.py::test_device_under_compute_sanitizer"] == "passed"
    processes = {}
    for record in run.report["records"]["arms"]["1b-fp32"]:
        processes.setdefault(record["arm"], []).append(record["process"])
    first, beside_peers, again = processes["stock"]
    assert processes["host-2"] == processes["stock-again"] == [first, again]
    assert processes["host-at-500"] == processes["host-at-300"] == [beside_peers]
    assert len({first, beside_peers, again}) == 3


def test_what_fails_dies_or_hangs_keeps_nothing_else_from_running(start):
    run = start(
        *("--tiny", "--parts", "checks", "link", "training"),
        misbehaviour={
            "device_tests --gtest_filter=*BytesComeBack*": "skip",
            "compare_bits": "hang",
            "measure_link after-a-round": "fail",
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
        "test_bits.py::test_evicted_after_every_op[deviation]": "failed",
        "test_link.py::test_link_and_drive": "failed",
        "test_training.py::test_arm[tiny-fp32-stock]": "passed",
        "test_training.py::test_arm[tiny-fp32-ample]": "failed",
        "test_training.py::test_arm[tiny-fp32-both-2]": "failed",
        "test_training.py::test_arm[tiny-fp32-stock-again]": "passed",
    }
    dead = run.result("test_training.py::test_arm[tiny-fp32-ample]")
    assert "ended by SIGKILL" in dead["error"]
    in_worker = run.result("test_bits.py::test_evicted_after_every_op[deviation]")
    in_trainer = run.result("test_training.py::test_arm[tiny-fp32-both-2]")
    for hung in (in_worker, in_trainer):
        assert "Timeout" in hung["error"] and "in hang" in hung["output"]
    text = (run.out / "report.md").read_text()
    assert "test_layers.py::test_device | skipped in part |" in text
    assert "it failed on purpose" in text
    assert "device <-> host, read: engine / bare" in text  # of the round before the failure


@pytest.mark.parametrize(
    ("number", "part", "program"),
    [
        (signal.SIGTERM, "checks", "compare_bits"),  # runs in a worker
        (signal.SIGINT, "training", "measure_training both-2"),
    ],
    ids=["SIGTERM", "SIGINT"],
)
def test_the_report_is_on_disk_at_any_moment_and_a_signal_ends_all_programs(
    start, number, part, program
):
    run = start("--tiny", "--parts", part, misbehaviour={program: "hang"})
    _, program = run.wait_for_hanging()
    assert run.report["state"] == "The checks are running."
    if part == "training":
        assert run.outcomes["test_training.py::test_arm[tiny-fp32-ample]"] == "passed"
        assert run.outcomes["test_training.py::test_arm[tiny-fp32-both-2]"] == "unfinished"
        assert "budget >= peak: step / stock step" in (run.out / "report.md").read_text()
    run.process.send_signal(number)
    assert program.read() == ""
    assert run.end() == 1, run.output
    assert run.report["state"] == "A signal has ended the run."
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
    assert "s were left, it needs" in run.report["results"][-1]["reason"]


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
    assert run.report["state"] == f"Nothing was run after {failed} had failed."
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
    text = (run.out / "report.md").read_text()
    assert "test_build.py::test_build | prebuilt |" in text


def test_prebuilt_files_that_do_not_start_are_told_and_a_build_is_checked(start, tmp_path, carried):
    run = start("--tiny", "--parts", "build", misbehaviour={"--gtest_list_tests": "fail"})
    assert run.end() == 0, run.output
    note = run.result("test_build.py::test_build")["properties"]["note"]
    assert note == (
        "built here: the prebuilt files do not start here: device_tests: it failed on purpose"
    )
    assert not (tmp_path / "build" / "prebuilt").exists()


def test_a_prebuilt_file_that_is_missing_is_told_and_a_build_is_checked(start, tmp_path, carried):
    (carried / "bin" / "engine_tests").unlink()
    run = start("--tiny", "--parts", "build")
    assert run.end() == 0, run.output
    note = run.result("test_build.py::test_build")["properties"]["note"]
    assert note.startswith("built here: the prebuilt files are incomplete: ")
    assert "engine_tests" in note
    assert not (tmp_path / "build" / "prebuilt").exists()


def test_prebuilt_files_of_other_sources_are_told_and_replaced_by_a_build(start, tmp_path, carried):
    (tmp_path / "build" / "prebuilt").mkdir()  # of an earlier run
    made_for = json.loads((carried / prebuilt.MADE_FOR).read_text())
    (carried / prebuilt.MADE_FOR).write_text(json.dumps(made_for | {"sources": "others"}))
    run = start("--tiny", "--parts", "build", misbehaviour={"cmake --build": "fail"})
    assert run.end() == 1, run.output
    assert run.outcomes["test_build.py::test_build"] == "failed"
    note = run.result("test_build.py::test_build")["properties"]["note"]
    assert note.startswith("built here: the prebuilt files do not fit: they are of other sources")
    assert not (tmp_path / "build" / "prebuilt").exists()


def test_torch_compile_is_skipped_where_it_finds_no_compiler(start, monkeypatch):
    monkeypatch.setenv("CC", "/nowhere/cc")
    run = start("--parts", "checks", "-k", "compile")
    assert run.end() == 0, run.output
    assert len(run.outcomes) == 2 and set(run.outcomes.values()) == {"skipped"}
    reason = run.report["results"][0]["reason"]
    assert reason == "torch.compile needs a compiler: there is no /nowhere/cc"


def test_the_carried_folder_may_stand_beside_the_sources(start, tmp_path):
    shutil.rmtree(tmp_path / "workloads")  # of all paths, only those of the checks and this exist
    run = start(
        *("--parts", "build", "-k", "test_build"),
        "--carry",
        ROOT / "docs",
        "--build",
        tmp_path / "new",
    )
    assert run.end() == 0, run.output
    assert run.outcomes == {"test_build.py::test_build": "passed"}


def test_what_other_parts_have_measured_stays(start):
    assert start("--tiny", "--parts", "link", "training").end() == 0
    run = start("--tiny", "--parts", "training", "-k", "drive_is_measured or stock")
    assert run.end() == 0, run.output
    assert list(run.outcomes) == [
        "test_machine.py::test_drive_is_measured",
        "test_link.py::test_link_and_drive",
        "test_training.py::test_arm[tiny-fp32-stock]",
        "test_training.py::test_arm[tiny-fp32-stock-again]",
    ]


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
