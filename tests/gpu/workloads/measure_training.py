"""One training several ways ("arms"), one after the other in one process.

    measure_training.py --job 1b --arms stock ample host-2 both-3 --out arms.jsonl ...

stock            PyTorch alone; as the first arm, before teraio is loaded
stock-again      the same at the end: whether the machine and the bits stayed the same
ample            a session whose budget holds everything
TIER-RATIO       a budget of the peak over RATIO; TIER is host, ssd or both
host-at-BYTES    that budget, tensors go to host memory

A line of JSON for each arm, at once. Started again with the same file, it goes on with the arms
that have not begun: one that ends the process keeps no other from being measured. Exit code 1: all
have been tried, and one failed.
"""

import argparse
import contextlib
import gc
import json
import sys
import time
import traceback

import jobs
from fingerprint import state_fingerprint
from pretrain_llama import build_model

AMPLE_CPU_BUDGET = "16GB"  # on a GPU the default is ample


class NoPeak(Exception):
    """The arm needs a peak that no arm before it has measured."""


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    jobs.add_measuring_options(parser)
    add = parser.add_argument
    add("--arms", nargs="+", required=True)
    add("--seconds", type=float, default=1e9, help="no arm is begun after so long")
    add("--peak-bytes", type=int, help="what the training needs; else the arm ample tells")
    return parser.parse_args(argv)


def main(argv=None):
    options = parse_arguments(argv)
    jobs.settle()
    began = time.monotonic()
    records = earlier_records(options.out)
    for arm in options.arms:
        if arm in records:
            continue
        if time.monotonic() - began > options.seconds:
            note(options.out, records, {"arm": arm, "outcome": "skipped: no time was left"})
            continue
        note(options.out, records, {"arm": arm, "outcome": "failed: it ended the process"})
        note(options.out, records, record_of(options, arm, records))
    return 1 if any(r["outcome"].startswith("failed") for r in records.values()) else 0


def earlier_records(path):
    """By arm; the last line of an arm counts."""
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {line["arm"]: line for line in lines}


def note(path, records, record):
    records[record["arm"]] = record
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


def record_of(options, arm, records):
    """The arm's record, also when it failed."""
    print(f"{arm} ...", flush=True)
    record = {"arm": arm, "job": options.job, "precision": options.precision}
    try:
        found = run_arm(options, arm, records)
    except Exception as error:
        traceback.print_exc()
        found = {"outcome": f"failed: {type(error).__name__}: {error}"}
    gc.collect()
    jobs.forget_memory(options.device)
    return record | {"outcome": "done"} | found


def run_arm(options, arm, records):
    args = jobs.training_options(options)
    if arm.startswith("stock"):
        return train_arm(args)
    import teraio  # here, so that the first arm is PyTorch as it comes

    session_options = options_of(options, arm, records)
    session = teraio.offload(device=options.device, **session_options)
    found = train_arm(args, session)
    return found | {"options": {k: str(v) for k, v in session_options.items()}}


def options_of(options, arm, records):
    """The session's options for an arm."""
    if arm == "ample":
        budget = AMPLE_CPU_BUDGET if options.device == "cpu" else None
        return {"device_budget": budget, "ssd": False, "host_limit": "64MB"}
    tier, _, rest = arm.partition("-")
    peak = options.peak_bytes or records.get("ample", {}).get("peak_bytes")
    if not peak:
        raise NoPeak(f"{arm} needs the peak, which the arm ample did not tell")
    is_budget = rest.startswith("at-")
    budget = int(rest[3:]) if is_budget else int(peak / float(rest))
    # Copies on a tier stay there while the tensor is back: more than what is away at once.
    tiers = {
        "host": {"ssd": False, "host_limit": peak},
        "ssd": {"ssd": options.ssd, "ssd_capacity": 2 * peak},
        "both": {
            "ssd": options.ssd,
            "ssd_capacity": 2 * peak,
            "host_limit": max(peak - budget, 2) // 2,
        },
    }
    return {"device_budget": budget, **tiers[tier]}


def train_arm(args, session=None):
    """Trains within the session, if there is one. What came of it, as a dict."""
    config = jobs.config_of(args)
    batches = jobs.batches_of(args, config)
    jobs.forget_memory(args.device)
    with session or contextlib.nullcontext():
        model = build_model(args, config)
        optimizer, found = jobs.train(args, model, batches)
        memory = (
            session_record(session) if session else {"peak_bytes": jobs.peak_bytes(args.device)}
        )
    return found | memory | {"state": state_fingerprint(model, optimizer)}


def session_record(session):
    """What the session counted; of its last steps, what they moved and waited for."""
    iterations = session.iterations()
    counters = session.counters()
    prediction = session.prediction() or {}
    return {
        "peak_bytes": max((i["device_peak_bytes"] for i in iterations), default=0),
        "budget_bytes": counters["device_budget_bytes"],
        "reserved_peak_bytes": counters["device_reserved_peak_bytes"],
        "unmovable_bytes": counters["unmovable_bytes"],
        "modes": [i["mode"] for i in iterations],
        "measured": iterations[-jobs.MEASURED_STEPS :],
        "bound_fraction": ratio(prediction.get("ideal_ns"), prediction.get("bound_ns")),
        "predicted_seconds": ratio(prediction.get("step_ns"), 1e9),
        "ssd_drives": counters.get("ssd_drives", []),
        **{name: value for name, value in counters.items() if name.startswith("gpu_direct_")},
    }


def ratio(value, reference):
    return value / reference if value and reference else None


if __name__ == "__main__":
    sys.exit(main())
