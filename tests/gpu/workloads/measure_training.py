"""One training several ways ("arms"), one after the other in one process.

    echo '{"arm": "stock"}' | measure_training.py --job tiny --device cpu ...

stock            PyTorch alone; as the first arm, before teraio is loaded
stock-again      the same at the end: whether the machine and the bits stayed the same
ample            a session whose budget holds everything
TIER-RATIO       a budget of the peak over RATIO; TIER is host, ssd or both
host-at-BYTES    that budget, tensors go to host memory

Reads requests, a line of JSON for each arm: its name as `arm`, and for an arm that needs it the
peak of the training in bytes as `peak_bytes`, which the record of the arm ample tells. Answers each
on standard output with a line of JSON, the record of the arm; `outcome` is "done", or tells why the
arm failed. All other output goes to standard error.
"""

import argparse
import contextlib
import gc
import json
import os
import sys
import traceback
from functools import partial
from pathlib import Path

import jobs
from fingerprint import state_fingerprint
from memory_watch import MemoryWatch
from pretrain_llama import build_model
from step_profile import profile_of

AMPLE_CPU_BUDGET = "16GB"  # on a GPU the default is ample
STAGING_BYTES = 32 << 20  # the least that the way between drives and a GPU takes, and a little


class NoPeak(Exception):
    """The arm needs the peak of the training, which the request does not tell."""


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    jobs.add_measuring_options(parser)
    parser.add_argument("--profile", type=Path, help="folder for traces of one more step")
    return parser.parse_args(argv)


def main(argv=None):
    options = parse_arguments(argv)
    with own_standard_output() as replies:
        jobs.settle()
        for line in sys.stdin:
            replies.write(json.dumps(record_of(options, json.loads(line))) + "\n")
            replies.flush()


def own_standard_output():
    """A file for standard output; what libraries print there goes to standard error from now on."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return replies


def record_of(options, request):
    """The record of an arm, also when it failed."""
    arm = request["arm"]
    print(f"{arm} ...", flush=True)
    record = {"arm": arm, "job": options.job, "precision": options.precision}
    try:
        found = run_arm(options, arm, request.get("peak_bytes"))
    except Exception as error:
        traceback.print_exc()
        found = {"outcome": f"failed: {type(error).__name__}: {error}"}
    gc.collect()
    jobs.forget_memory(options.device)
    return record | {"outcome": "done"} | found


def run_arm(options, arm, peak_bytes):
    args = jobs.training_options(options)
    profile = None
    if options.profile:
        profile = partial(profile_of, path=options.profile / f"{arm}.trace.json.gz")
    if arm.startswith("stock"):
        return train_arm(args, profile)
    import teraio  # here, so that the first arm is PyTorch as it comes

    session_options = options_of(options, arm, peak_bytes)

    def make_session():
        return teraio.offload(device=options.device, **session_options)

    found = train_arm(args, profile, make_session)
    return found | {"options": {k: str(v) for k, v in session_options.items()}}


def options_of(options, arm, peak_bytes):
    """The session's options for an arm."""
    if arm == "ample":
        budget = AMPLE_CPU_BUDGET if options.device == "cpu" else None
        return {"device_budget": budget, "ssd": False, "host_limit": "64MB"}
    tier, _, rest = arm.partition("-")
    if not peak_bytes:
        raise NoPeak(f"{arm} needs the peak, which the arm ample tells")
    is_budget = rest.startswith("at-")
    budget = int(rest[3:]) if is_budget else int(peak_bytes / float(rest))
    # A copy stays on its tier while its tensor is on the device: tiers hold more than is offloaded.
    tiers = {
        "host": {"ssd": False, "host_limit": peak_bytes},
        "ssd": {"ssd": options.ssd, "ssd_capacity": 2 * peak_bytes},
        "both": {
            "ssd": options.ssd,
            "ssd_capacity": 2 * peak_bytes,
            "host_limit": max((peak_bytes - budget) // 2, STAGING_BYTES),
        },
    }
    return {"device_budget": budget, **tiers[tier]}


def train_arm(args, profile, make_session=contextlib.nullcontext):
    """Trains within the session, if there is one. The result is a part of the record."""
    config = jobs.config_of(args)
    batches = jobs.batches_of(args, config)
    jobs.forget_memory(args.device)
    with MemoryWatch(args.device) as watch, make_session() as session:
        model = build_model(args, config)
        counters = session.counters if session else dict
        optimizer, found = jobs.train(args, model, batches, counters=counters, profile=profile)
        watch.end()  # a session that ends brings all tensors back, beyond its budget
        memory = (
            session_record(session) if session else {"peak_bytes": jobs.peak_bytes(args.device)}
        )
    return found | memory | watch.record | {"state": state_fingerprint(model, optimizer)}


def session_record(session):
    """What the session counted and predicted."""
    iterations = session.iterations()
    counters = session.counters()
    prediction = session.prediction() or {}
    return {
        "peak_bytes": max((i["device_peak_bytes"] for i in iterations), default=0),
        "budget_bytes": counters["device_budget_bytes"],
        "reserved_peak_bytes": counters["device_reserved_peak_bytes"],
        "unmovable_bytes": counters["unmovable_bytes"],
        "modes": [i["mode"] for i in iterations],
        "bound_fraction": ratio(prediction.get("ideal_ns"), prediction.get("bound_ns")),
        "predicted_seconds": ratio(prediction.get("step_ns"), 1e9),
        "ssd_drives": counters.get("ssd_drives", []),
        **{name: value for name, value in counters.items() if name.startswith("gpu_direct_")},
    }


def ratio(value, reference):
    return value / reference if value and reference else None


if __name__ == "__main__":
    main()
