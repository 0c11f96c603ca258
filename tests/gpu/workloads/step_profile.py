"""What a GPU does in one step, and what it waits for, as PyTorch's profiler sees it.

The profiler makes every launch slower. A step under it tells where time goes, not how long a step
takes.
"""

import bisect
import gzip
import json
from collections import defaultdict

import torch

CALLS = ("cuda_runtime", "cuda_driver")  # of the host
WORK = ("kernel", "gpu_memcpy", "gpu_memset")
LONG_GAP_US = 20


def profile_of(step, path) -> dict:
    """Runs `step` under the profiler and writes its trace, for Perfetto, to `path` (.json.gz).
    Returns shares_of its events."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        step()
        torch.cuda.synchronize()
    profiler.export_chrome_trace(str(path))
    return shares_of(json.loads(gzip.decompress(path.read_bytes()))["traceEvents"])


def shares_of(events) -> dict:
    """The seconds of a step by what the GPU does, and by what it waits for while no kernel runs.

    `gap_seconds` is the time between the kernels of the busiest stream. In a gap the next kernel
    has either not been launched yet: `late_host_seconds` tells in which CUDA calls its thread was
    meanwhile, `own work` is all else. Or it waits on the GPU, for the most part for copies:
    `waiting_kernel_seconds`.
    """
    timed = [e for e in events if e.get("ph") == "X" and e.get("cat") in CALLS + WORK]
    timed.sort(key=lambda e: e["ts"])
    work = [e for e in timed if e["cat"] in WORK]
    kernels = [e for e in work if e["cat"] == "kernel"]
    if not kernels:
        return {"error": "the profiler has seen no kernel"}
    calls = [e for e in timed if e["cat"] in CALLS]
    streams = [e["args"]["stream"] for e in kernels]
    busiest = max(set(streams), key=streams.count)
    stream = [e for e in work if e["args"]["stream"] == busiest]
    by_kind = defaultdict(list)
    for event in work:
        name = event["name"] if event["cat"] == "gpu_memcpy" else event["cat"]
        by_kind[name.partition(" (")[0]].append(event)
    return {
        "seconds": (max(map(end, timed)) - timed[0]["ts"]) / 1e6,
        "busy_seconds": {name: union_us(each) / 1e6 for name, each in by_kind.items()},
        "bytes": {
            name: sum(e["args"].get("bytes", 0) for e in each) for name, each in by_kind.items()
        },
        "calls": totals(calls),
    } | gaps_of(stream, calls)


def gaps_of(stream, calls) -> dict:
    """The gaps of a stream by what its next piece of work waits for."""
    launches = {e["args"]["correlation"]: e for e in calls if "correlation" in e["args"]}
    by_thread = defaultdict(list)
    for call in calls:
        by_thread[call["tid"]].append(call)
    begins = {thread: [call["ts"] for call in each] for thread, each in by_thread.items()}
    late, waiting, long_gaps = defaultdict(float), 0.0, 0
    for before, event in zip(stream, stream[1:], strict=False):
        begin, finish = end(before), event["ts"]
        launch = launches.get(event["args"].get("correlation"))
        if finish <= begin or launch is None:
            continue
        long_gaps += finish - begin > LONG_GAP_US
        launched = min(max(end(launch), begin), finish)
        waiting += finish - launched
        own, thread = launched - begin, launch["tid"]
        # Calls of a thread follow each other: few can reach into the gap.
        first = max(bisect.bisect(begins[thread], begin) - 1, 0)
        for call in by_thread[thread][first:]:
            if call["ts"] >= launched:
                break
            inside = max(min(end(call), launched) - max(call["ts"], begin), 0)
            late[call["name"]] += inside
            own -= inside
        late["own work"] += own
    return {
        "gap_seconds": (waiting + sum(late.values())) / 1e6,
        "gaps_over_20_us": long_gaps,
        "waiting_kernel_seconds": waiting / 1e6,
        "late_host_seconds": {name: us / 1e6 for name, us in sorted(late.items()) if us > 0},
    }


def end(event):
    return event["ts"] + event["dur"]


def union_us(events) -> float:
    """The time in which at least one of the events, sorted by begin, goes on."""
    total, reached = 0.0, -1.0
    for event in events:
        total += max(end(event) - max(event["ts"], reached), 0)
        reached = max(reached, end(event))
    return total


def totals(calls) -> dict:
    """The number of calls by name, and their seconds, of the twelve that take longest."""
    found = defaultdict(lambda: [0, 0.0])
    for call in calls:
        found[call["name"]][0] += 1
        found[call["name"]][1] += call["dur"] / 1e6
    return dict(sorted(found.items(), key=lambda item: -item[1][1])[:12])
