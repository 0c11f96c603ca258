"""Stands in for each program that gpu-check runs, under the name of that program.

It answers at once what the program answers after its work. STAND_INS, a JSON object in the
environment, makes some of them misbehave: its keys are words of a command (the name of the program
first) or of a request, its values are "fail", "die", "skip" and "hang".
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

NAME = Path(sys.argv[0]).stem
PEAKS = {"ample": 900, "save_on_cpu": 500, "fsdp2": 300}


def behave(*words):
    for key, action in json.loads(os.environ.get("STAND_INS", "{}")).items():
        if set(key.split()) <= {NAME, *words}:
            {"fail": fail, "die": die, "skip": skip, "hang": hang}[action]()


def fail():
    sys.exit("it failed on purpose")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def skip():
    print("[  SKIPPED ] a test")


def hang():
    """Tells a FIFO the process that waits for this one. The FIFO is open as long as this one lives,
    or the process that it has started."""
    with open(os.environ["STAND_IN_FIFO"], "w") as fifo:
        subprocess.Popen(["sleep", "600"], stdout=fifo)
        print(os.getppid(), file=fifo, flush=True)
        while True:
            signal.pause()


def record(arm):
    moved = {f"{tier}_bytes_{way}": 1 for tier in ("host", "ssd") for way in ("read", "written")}
    step = {"stall_read_ns": 1, "stall_memory_ns": 1, **moved}
    return {
        "arm": arm,
        "process": os.getpid(),
        "outcome": "done",
        "measured_seconds": [1.0],
        "losses": ["0x1p+0"],
        "state": "aa",
        "peak_bytes": PEAKS.get(arm),
        "changes": [step],
        "bound_fraction": 1.0,
    }


def write(content):
    Path(sys.argv[sys.argv.index("--out") + 1]).write_text(json.dumps(content))


def main():
    behave(*sys.argv[1:])
    if NAME == "measure_training":
        for line in sys.stdin:
            arm = json.loads(line)["arm"]
            behave(arm)
            print(json.dumps(record(arm)), flush=True)
    elif NAME == "measure_peer":
        write(record(sys.argv[sys.argv.index("--peer") + 1]))
    elif NAME == "teraio" and "--bench" in sys.argv:
        rates = {"read_bytes_per_second": 96e9, "write_bytes_per_second": 0}
        print(json.dumps({"measured": [{"path": "host", "phase": "read"} | rates]}))
    elif NAME == "measure_copies":
        write({"to GPU alone": {"to GPU": 1.0}})


main()
