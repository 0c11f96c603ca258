"""Plans and simulates the traces of tests/data and compares the results with their targets.

Per case it reports the fraction of ideal in steady state (Algorithm 1, fast, best) with the target
as reference, the bound, the bytes written to the drives relative to Algorithm 1, and the planning
time relative to a fixed computation in the same run. TERAIO_BENCH_CASES=l8,gr8 selects traces.
"""

import json
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TRACES = ROOT / "tests" / "data" / "traces"
RESULTS = Path(os.environ.get("TERAIO_BENCH_DIR", ROOT / "build" / "bench"))
TERAIO = RESULTS.parent / "bin" / "teraio"

# trace, hardware, Algorithm 1 as the study found it, target of `best`
CASES = [
    ("l8", "h100_ssd", 0.936, 0.969),
    ("l8", "h100_mixed", 0.993, 0.999),
    ("gr8", "h100_ssd", 0.930, 0.964),
    ("l70", "h100_ssd", 0.432, 0.602),
    ("l70", "h100_p385", 0.655, 0.895),
    ("l70", "h100_mixed", 0.755, 0.898),
    ("VIT-1280", "a100_g10", 0.506, 0.995),
    ("Inceptionv3-1536", "a100_g10", 0.950, 0.993),
]
PLANNERS = {
    "Algorithm 1": ["--policy", "algorithm1"],
    "fast": ["--effort", "fast"],
    "best": ["--effort", "best"],
}
FAST_MAY_LACK = 0.03
WRITES_TO_REACH = 0.65  # of the bytes of Algorithm 1, on l70 with drives only
UNITS = {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def reference_seconds():
    """Times a fixed computation, the best of three, as the reference for planning times."""
    values = [(i * 2654435761) % 2**32 for i in range(1_000_000)]
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        sorted(values)
        times.append(time.perf_counter() - begin)
    return min(times)


def teraio(*arguments):
    return subprocess.run([TERAIO, *arguments], check=True, capture_output=True, text=True).stdout


def seconds_after(words, text):
    number, unit = re.search(words + r" ([0-9.]+) (s|ms|us|ns)\b", text).groups()
    return float(number) * UNITS[unit]


def measure(trace, hardware, options):
    """Plans with `options`; returns what `teraio simulate` prints, planning time and bound."""
    given = ["--trace", TRACES / f"{trace}.json.gz", "--hardware", TRACES / f"{hardware}.json"]
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.json.gz"
        said = teraio("plan", *given, *options, "--out", plan)
        run = json.loads(teraio("simulate", *given, "--plan", plan, "--json"))
    run["planning_s"] = seconds_after("planned in", said)
    run["bound"] = min(1.0, run["ideal_ns"] / 1e9 / seconds_after("no plan is faster than", said))
    return run


def entry(name, value, reference, unit=""):
    return {
        "name": name,
        "value": round(value, 4),
        "unit": unit,
        "reference": round(reference, 4),
        "ratio": round(value / reference, 4) if reference else None,
    }


def entries_of(case, runs, reference_s):
    trace, hardware, algorithm1, target = case
    references = {"Algorithm 1": algorithm1, "fast": target - FAST_MAY_LACK, "best": target}
    for planner, run in runs.items():
        name = f"{trace}/{hardware} {planner}"
        yield entry(f"{name}: of ideal", run["fraction_of_ideal"], references[planner])
        yield entry(f"{name}: planning", run["planning_s"], reference_s, "s")
    bound = runs["best"]["bound"]
    yield entry(f"{trace}/{hardware}: best against bound", runs["best"]["fraction_of_ideal"], bound)
    if (trace, hardware) == ("l70", "h100_ssd"):
        written = runs["best"]["ssd_bytes_written"] / runs["Algorithm 1"]["ssd_bytes_written"]
        yield entry(f"{trace}/{hardware} best: written, of Algorithm 1", written, WRITES_TO_REACH)


def print_case(case, runs):
    trace, hardware, _, target = case
    cells = [f"{runs[planner]['fraction_of_ideal']:.4f}" for planner in PLANNERS]
    times = [f"{runs[planner]['planning_s']:.2f} s" for planner in PLANNERS]
    reached = "yes" if runs["best"]["fraction_of_ideal"] >= target else "no"
    row = [f"{trace} / {hardware}", *cells, f"{target:.3f}", reached]
    print_row([*row, f"{runs['best']['bound']:.3f}", *times])


def print_row(cells):
    print(f"{cells[0]:30}" + "".join(f"{cell:>12}" for cell in cells[1:]), flush=True)


def main():
    chosen = os.environ.get("TERAIO_BENCH_CASES", "").split(",")
    reference_s = reference_seconds()
    print(f"fractions of ideal in steady state; reference computation {reference_s:.2f} s")
    times = ["planned in", "fast", "best"]
    print_row(["case", *PLANNERS, "target", "reached", "bound", *times])
    results = []
    for case in CASES:
        if chosen != [""] and case[0] not in chosen:
            continue
        runs = {name: measure(case[0], case[1], options) for name, options in PLANNERS.items()}
        print_case(case, runs)
        results.extend(entries_of(case, runs, reference_s))
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "planning.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
