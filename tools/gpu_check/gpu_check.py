"""`make gpu-check`: everything that needs a GPU, in one command and a given time.

Builds for the Python that runs this, runs the tests of device, storage and engine and compares bits
on the GPU, measures, and leaves gpu_check.json and gpu_check.txt in OUT. What matters most comes
first; what no longer fits the time is told as skipped. A step that fails or hangs keeps no other
from running. Exit code 1 when one failed, or when it was told to end before its time.

    gpu_check.py --out DIR --parts build checks             # without the measurements
    gpu_check.py --out DIR --device cpu --tiny              # the whole flow, on any machine
"""

import argparse
import importlib.util
import signal
import sys
from pathlib import Path

import parts
import report
from parts import Place, Training
from steps import ROOT, Clock, run_step, run_together

PARTS = ("build", "checks", "link", "training", "peers")
TESTS_AT_ONCE = 8
ARM_SECONDS = 20  # no arm is begun when less is left of the whole time
MEASURED = {"training": "*.arms.jsonl", "peers": "*.peers.jsonl", "link": "link.json"}


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--out", default="gpu-check", type=Path, help="folder for the report")
    add("--build", default=ROOT / "build-gpu", type=Path)
    add("--carry", default=ROOT / "gpu-carry", type=Path, help="what make gpu-carry has made")
    add("--ssd", type=Path, help="directory on the drive to use (default: in the build folder)")
    add("--parts", nargs="+", choices=PARTS, default=PARTS)
    add("--seconds", type=float, default=520, help="that all of it may take")
    add("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try the flow")
    add("--tiny", action="store_true", help="the shortest form of everything")
    return parser.parse_args(argv)


def drive_directory(work):
    """A directory on a drive: `work`'s, or another where that lies in memory."""
    for folder in (work, Path("/var/tmp/teraio-gpu-check"), Path.home() / ".cache"):
        folder.mkdir(parents=True, exist_ok=True)
        kind = report.output_of("stat", "--file-system", "--format=%T", str(folder))
        if kind not in ("tmpfs", "ramfs"):
            break
    return folder / "ssd"


class Check:
    """One run: what has come of its steps so far, in memory and in the report."""

    def __init__(self, options):
        build = options.build.absolute()
        ssd = (options.ssd or drive_directory(build / "gpu-check")).absolute()
        self.place = Place(build, options.carry.absolute(), ssd, options.device, options.tiny)
        self.clock = Clock(options.seconds)
        self.out = options.out
        self.machine = report.machine_facts()
        self.results = []
        self.is_told_to_end = False
        self.rounds = 0  # of trainings; each leaves a file of its own

    def prepare(self, chosen):
        """Of what an earlier run has measured, the parts that are not chosen now stay."""
        for part, pattern in MEASURED.items():
            for path in self.place.work.glob(pattern) if part in chosen else ():
                path.unlink()
        self.rounds = len(list(self.place.work.glob(MEASURED["training"])))
        self.place.ssd.mkdir(parents=True, exist_ok=True)
        for program in self.place.carry.glob("bin/fio*"):
            if program.is_file():
                program.chmod(0o755)

    def end(self, *_):
        """As a handler of signals: what runs is ended, the report is written."""
        self.is_told_to_end = True
        self.clock.stop()

    def tell(self, result):
        self.results.append(result)
        seconds = result.get("seconds", 0)
        print(f"{result['outcome']:<24} {seconds:>6} s  {result['name']}", flush=True)
        report.write(self.out, self.place.work, self.machine, self.results)

    def run(self, step):
        """Whether it passed."""
        result = run_step(step, self.clock)
        self.tell(result)
        return result["outcome"].startswith("passed")

    def skip(self, name, reason):
        self.tell({"name": name, "outcome": "skipped", "output": reason})


def build(check, texts):
    """Whether it is built. The texts are made meanwhile."""
    configure, building = parts.build_steps(check.place)
    if check.run(configure):
        run_together([building, *texts], check.clock, 1 + len(texts), check.tell)
    ended = {result["name"]: result["outcome"] for result in check.results}
    return ended.get(building.name) == "passed"


def checks(check):
    place = check.place
    steps = [*parts.test_steps(place), *parts.bits_steps(place)]
    run_together(steps, check.clock, TESTS_AT_ONCE, check.tell)


def train(check, plan):
    """Runs the trainings of the plan that still fit the time."""
    for training in plan:
        check.rounds += 1
        seconds = max(1, min(training.seconds, check.clock.left() - ARM_SECONDS))
        peak = known_peak(check, training.title)
        check.run(parts.training_step(check.place, training, check.rounds, seconds, peak))


def records_of(check, kind, title):
    return [
        record
        for path in sorted(check.place.work.glob(f"{title}*.{kind}.jsonl"))
        for record in report.read_lines(path)
        if record["outcome"] == "done"
    ]


def known_peak(check, title):
    """What the arm ample has told in an earlier round."""
    records = records_of(check, "arms", title + "-[0-9]")
    return next((r["peak_bytes"] for r in records if r["arm"] == "ample"), None)


def peers(check, job, precision):
    """PyTorch's ways and DeepSpeed's, then ours within the same memory as each of them took."""
    has_deepspeed = importlib.util.find_spec("deepspeed") is not None
    for peer in parts.PEERS:
        if peer.startswith("zero") and not has_deepspeed:
            check.skip(f"peer {peer} {job} {precision}", "DeepSpeed is not installed")
        else:
            check.run(parts.peer_step(check.place, peer, job, precision))
    found = records_of(check, "peers", f"{job}-{precision}")
    return [f"host-at-{record['peak_bytes']}" for record in found if record["peak_bytes"]]


# By worth. A second round of what matters most comes when everything has had its first.
HOST_ARMS = ("stock", "ample", "host-2", "host-3", "stock-again")
SSD_ARMS = ("stock", "ample", "ssd-2", "both-2", "ssd-3", "both-3", "stock-again")
TINY_ARMS = ("stock", "ample", "host-2", "ssd-2", "both-3", "stock-again")
FIRST = (Training("1b", "fp32", HOST_ARMS, 75), Training("1b-long", "fp32", SSD_ARMS, 90))
THEN = (
    Training("1b", "bf16", HOST_ARMS, 60),
    Training("llama3-8b", "fp32", HOST_ARMS, 75),
    Training("llama3-8b", "bf16", HOST_ARMS, 60),
    Training("1b", "fp32", ("stock", "ample", "host-3"), 50, "expandable"),
    Training("1b-long", "bf16", SSD_ARMS, 60),
    Training("1b", "fp32", HOST_ARMS, 60),
    Training("1b", "bf16", HOST_ARMS, 50),
)


def measure(check, chosen):
    is_tiny = check.place.is_tiny
    if "training" in chosen:
        train(check, (Training("tiny", "fp32", TINY_ARMS, 60),) if is_tiny else FIRST)
    for precision in ("fp32",) if is_tiny else ("fp32", "bf16"):
        if "peers" in chosen:
            compare_with_peers(check, "tiny" if is_tiny else "1b", precision)
    if "training" in chosen and not is_tiny:
        train(check, THEN)


def compare_with_peers(check, job, precision):
    arms = peers(check, job, precision)
    if arms:
        train(check, [Training(job, precision, ("stock", "ample", *arms), 60)])


def has_gpu(check):
    check.run(parts.gpu_step(check.place))
    return check.results[-1]["outcome"] == "passed"


def run_parts(check, chosen):
    place = check.place
    texts = parts.text_steps(place) if {"training", "peers"} & set(chosen) else []
    if "build" not in chosen:
        run_together(texts, check.clock, len(texts), check.tell)
    elif not build(check, texts):
        return
    if place.device == "cuda" and not has_gpu(check):
        check.skip("everything else", "there is no GPU that our build can use")
        return
    check.run(parts.probe_step(place))
    if "checks" in chosen:
        checks(check)
    if "link" in chosen:
        check.run(parts.link_step(place))
    measure(check, chosen)


def main(argv=None):
    options = parse_arguments(argv)
    check = Check(options)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, check.end)
    check.prepare(options.parts)
    run_parts(check, options.parts)
    report.write(check.out, check.place.work, check.machine, check.results)
    print((check.out / "gpu_check.txt").read_text().partition("\n--- ")[0])
    print(f"report in {check.out}/gpu_check.txt and gpu_check.json")
    has_failed = any(result["outcome"].startswith("failed") for result in check.results)
    return 1 if has_failed or check.is_told_to_end else 0


if __name__ == "__main__":
    sys.exit(main())
