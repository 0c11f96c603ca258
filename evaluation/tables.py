"""The numbers and tables of the document.

Functions take the results of tasks.results_of. Tables are Markdown. The paper is arXiv 2506.06472.
"""

import json
import statistics

from evaluation import cases, wear

# What the paper reports: seconds of planning (Table 1), and what its text says about Figure 7.
PLANNING_S = {"l8": 31.2, "gr8": 37.9, "l70": 396.6}
THROUGHPUT = {
    ("l8", "ssd"): "near ideal",
    ("l8", "mixed"): "near ideal",
    ("l8", "zero-offload"): "65.9 %",
    ("gr8", "ssd"): "like ZeRO",
    ("gr8", "mixed"): "near ideal",
    ("gr8", "zero-offload"): "65.5 %",
    ("l70", "mixed"): "59.7 %",
    ("l70", "zero-offload"): "out of memory",
    ("l70", "zero-infinity"): "43.0 %",
}
TWO_SERVERS_OF_8 = 499_591.4  # dollars, for two servers of eight GPUs
BANDWIDTHS_GB = (4, 8, 16, 32, 48, 64)
PLANNED_HERE = ("algorithm1-mixed", "ours-mixed", "ours-replay-mixed")
DRIVE_SYSTEMS = ("ours-ssd", "algorithm1-ssd", "zero-infinity-ssd")


def values(results):
    """Returns the text of each value of the page, by its name."""
    machine, load = planning_conditions(results)
    prices = server_prices()
    return {
        "summary_ssd": summary(results, cases.SSD_SYSTEMS),
        "summary_host": summary(results, cases.HOST_SYSTEMS),
        "means": means(results),
        "steps_of_figure_7": str(len(steps_of_figure_7(results))),
        "traces": traces(results),
        "figure_1": figure_1(results),
        "stages": stages(results),
        "figure_2": figure_2(results),
        "figure_3": figure_3(results),
        "planning_machine": machine,
        "planning_load": load,
        "table_1": table_1(results),
        "figure_7": figure_7(results),
        "settings": settings(results, [*steps_of_figure_7(results)]),
        "figure_8": figure_8(results),
        "figure_9": figure_9(results),
        "half_machine": half_machine(results),
        "figure_10": figure_10(results),
        "table_3": table_3(results, prices),
        "price_ratio_ssd": f"{TWO_SERVERS_OF_8 / prices['ssd']:.2f}",
        "price_ratio_mixed": f"{TWO_SERVERS_OF_8 / prices['mixed']:.2f}",
        "efficiency": efficiency(results, prices),
    }


def table(header, rows):
    """Returns a Markdown table; cells are converted with str()."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def percent(value, whole=1):
    return f"{100 * value / whole:.1f} %" if whole else "-"


def small_percent(value, whole):
    return f"{100 * value / whole:.2g} %"


def fraction_of_ideal(run):
    """Formats the fraction of ideal in percent, or "does not fit"."""
    return "does not fit" if "refused" in run else percent(run["fraction_of_ideal"])


def trace_of(results, case):
    return results[case.key]["characterization"]["traces"][0]


def run_of(results, case, system):
    return results[case.key]["systems"][system]


def fitting(results, *systems):
    """Returns the cases that fit under our planner with host memory and under the given systems."""
    return [
        case
        for case in cases.of(results)
        if all("refused" not in run_of(results, case, key) for key in ("ours-mixed", *systems))
    ]


def speedup(results, case, over, ours="ours-mixed"):
    """Returns the step time under the system `over`, divided by that under the system `ours`."""
    return run_of(results, case, over)["step_ns"] / run_of(results, case, ours)["step_ns"]


def summary(results, systems):
    """Makes a table of systems that use the same tiers, with what no plan on these can exceed."""
    rows = []
    for case in fitting(results):
        row = [case.model]
        for system in systems:
            row.append(fraction_of_ideal(run_of(results, case, system.key)))
            if system.key.startswith("ours-"):
                row.append(bound_of(results, case, system))
        rows.append(row)
    header = ["model"]
    for system in systems:
        header.append(system.name)
        if system.key.startswith("ours-"):
            header.append(
                f"no plan {'' if system.recompute == 'all' else 'that only moves '}exceeds"
            )
    return table(header, rows)


def bound_of(results, case, system):
    """Formats the bound on the fraction of ideal for plans of the kind of the system's."""
    run = run_of(results, case, system.key)
    if "refused" in run:
        return "-"
    bound_s = run["replay_bound_s"] if system.recompute == "all" else run["bound_s"]
    if bound_s is None:  # the plan has no replay, because it is as fast without them
        bound_s = run["bound_s"]
    return percent(min(1.0, run["ideal_ns"] / 1e9 / bound_s))


def known(results, groups):
    """Returns the cases of the groups that have results, each once."""
    every = {case.key: case for group in groups.values() for case in group}
    return [case for key, case in every.items() if key in results]


def steps_of_figure_7(results):
    """Returns the models, batches and sequence lengths of Figure 7 of the paper."""
    return known(
        results, {key: (*cases.BATCHES[key], *cases.SEQUENCES[key]) for key in cases.BATCHES}
    )


def means(results):
    """Makes a table of mean fractions of ideal and mean speeds over each ZeRO system (Figure 7)."""
    rows = []
    for key in (system.key for system in cases.SYSTEMS_OF_SETTINGS if "zero" not in system.key):
        runs = [run_of(results, case, key) for case in steps_of_figure_7(results)]
        fractions = [run["fraction_of_ideal"] for run in runs if "refused" not in run]
        ratios = [mean_speedup(results, key, over) for over in ("zero-offload", "zero-infinity")]
        rows.append([name_of(key), percent(statistics.mean(fractions)), *ratios])
    header = ["system", "mean fraction of ideal"]
    header += ["mean speed over ZeRO-Offload", "mean speed over ZeRO-Infinity"]
    return table(header, rows)


def mean_speedup(results, key, over):
    """Returns e.g. "1.20 (maximum 1.31, 13 steps)", over steps of Figure 7 that fit under both."""
    steps = [
        case
        for case in steps_of_figure_7(results)
        if all("refused" not in run_of(results, case, system) for system in (key, over))
    ]
    ratios = [speedup(results, case, over, key) for case in steps]
    if not ratios:
        return "does not fit"
    return f"{statistics.mean(ratios):.2f} (maximum {max(ratios):.2f}, {len(ratios)} steps)"


def settings(results, steps):
    """Makes a row per step: its description, and its fraction of ideal under each system."""
    rows = []
    for case in steps:
        runs = [run_of(results, case, system.key) for system in cases.SYSTEMS_OF_SETTINGS]
        sizes = [case.sequences, f"{case.sequence_length:,}", case.micro_batch]
        peak = f"{peak_of(results, case):.1f}"
        rows.append([case.model, *sizes, peak, *map(fraction_of_ideal, runs)])
    header = ["model", "sequences", "sequence length", "micro-batch", "M"]
    return table(header + [system.name for system in cases.SYSTEMS_OF_SETTINGS], rows)


def peak_of(results, case):
    """Returns the M of the paper: the natural peak of the step over the capacity of the device."""
    capacity = json.loads(cases.HARDWARE.read_text())["device_memory_bytes"]
    return trace_of(results, case)["phases"][-1]["all_bytes_max"] / capacity


def traces(results):
    rows = []
    for case in cases.of(results):
        trace = trace_of(results, case)
        ops, step_s = len(trace["per_op"]["duration_ns"]), trace["step_ns"] / 1e9
        facts = [case.batch, f"{ops:,}", f"{step_s:.1f} s", f"{peak_of(results, case):.2f}"]
        written = results[case.key]["replayable"]
        again = percent(written["replayable_bytes"], written["bytes"])
        rows.append([case.model, *facts, again, results[case.key]["origin"]])
    header = [
        "model",
        "one step",
        "ops",
        "ideal step time",
        "peak / capacity",
        "written by ops that can be replayed",
        "source of the trace",
    ]
    return table(header, rows)


def figure_1(results):
    return memory_table(results, cases.of(results))


def stages(results):
    return memory_table(results, [case for case in cases.STAGES if case.key in results])


def memory_table(results, found):
    rows = [memory_row(case, trace_of(results, case)) for case in found]
    return table(["model", "ops", "all, maximum", "active, maximum", "active, mean"], rows)


def memory_row(case, trace):
    step, capacity = trace["phases"][-1], trace["capacity_bytes"]  # the last one is the whole step
    return [
        case.model,
        step["ops"],
        percent(step["all_bytes_max"], capacity),
        small_percent(step["active_bytes_max"], capacity),
        small_percent(step["active_bytes_mean"], capacity),
    ]


def figure_2(results):
    rows = []
    for case in cases.of(results):
        whole = trace_of(results, case)["kinds"][-1]
        middle = whole["tensors_10MB_to_1GB"]
        rows.append(
            [
                case.model,
                whole["tensors"],
                percent(middle, whole["tensors"]),
                percent(whole["tensors_100MB_and_more"], whole["tensors"]),
                percent(whole["tensors_10MB_to_1GB_idle_above_10ms"], middle),
                percent(whole["periods_above_10ms"], whole["periods"]),
                f"{whole['median_idle_ns'] / 1e6:.1f} ms",
            ]
        )
    header = ["model", "tensors", "of 10 MB to 1 GB", "of 100 MB and more"]
    header += ["of 10 MB to 1 GB, inactive above 10 ms", "periods above 10 ms", "median period"]
    return table(header, rows)


def figure_3(results):
    rows = []
    for case in cases.having(results, "bandwidth"):
        points = trace_of(results, case)["roofline"]
        bounds = {p["bytes_per_second"] // 10**9: p["fraction_of_ideal"] for p in points}
        settings = results[case.key]["bandwidth"]["sweeps"][0]["settings"]
        plans = {s["setting"]["bandwidth"] // 10**9: fraction_of_setting(s) for s in settings}
        cells = [f"{percent(bounds[rate])} ({plans[rate]})" for rate in BANDWIDTHS_GB]
        rows.append([case.model, *cells])
    return table(["model", *(f"{rate} GB/s" for rate in BANDWIDTHS_GB)], rows)


def fraction_of_setting(setting):
    return percent(setting["fraction_of_ideal"]) if setting["fits"] else "does not fit"


def planned_here(results):
    """Returns the runs whose planning times are in Table 1."""
    return [
        run_of(results, case, system)
        for case in fitting(results, *PLANNED_HERE)
        for system in PLANNED_HERE
    ]


def planning_conditions(results):
    """Returns the machine that planned and its highest load average during planning, in words."""
    runs = planned_here(results)
    load = max(run["load"] for run in runs)
    return "; ".join(sorted({run["machine"] for run in runs})), f"{load:.1f}"


def table_1(results):
    rows = []
    for case in fitting(results, *PLANNED_HERE):
        runs = [run_of(results, case, key) for key in PLANNED_HERE]
        times = [f"{run['planning_s']:.2f} s" for run in runs]
        rows.append([case.model, reported_planning(case), *times])
    header = ["model", "the paper", "the paper's Algorithm 1, here", "ours (`--effort fast`), here"]
    return table([*header, "ours with recompute, here"], rows)


def reported_planning(case):
    return f"{PLANNING_S[case.key]} s" if case.key in PLANNING_S else ""


def figure_7(results):
    """Makes a row for each model and system of which the paper's text says something."""
    rows = []
    for case in cases.of(results):
        for system in cases.SYSTEMS:
            if reported := THROUGHPUT.get((case.key, reported_key(system))):
                run = run_of(results, case, system.key)
                predicted = [fraction_of_ideal(run), tokens(case, run)]
                rows.append([case.model, system.name, reported, *predicted])
    header = ["model", "system", "of ideal, the paper", "of ideal, predicted"]
    header += ["tokens/s of both GPUs, predicted"]
    return table(header, rows)


def reported_key(system):
    """Returns the key of the paper's figures for a system; its only planner is Algorithm 1."""
    return system.key.removeprefix("algorithm1-").removeprefix("ours-replay-").removeprefix("ours-")


def tokens(case, run):
    """Formats the tokens per second of both GPUs; empty when the step does not fit."""
    return "" if "refused" in run else f"{case.tokens_per_step / (run['step_ns'] / 1e9):,.0f}"


def figure_8(results):
    """Makes a table of the stalled share of a step; the picture has the other parts."""
    rows = []
    for case in cases.of(results):
        runs = [run_of(results, case, system.key) for system in cases.SYSTEMS_OF_FIGURES]
        rows.append([case.model, *map(stalled, runs)])
    return table(["model", *(system.name for system in cases.SYSTEMS_OF_FIGURES)], rows)


def stalled(run):
    return "does not fit" if "refused" in run else percent(run["stall_ns"], run["step_ns"])


def parts_of(run):
    """Divides the seconds of a step into compute, overlap and stalls."""
    ideal_s = run["ideal_ns"] / 1e9
    overlapped_s = min(run["overlapped_s"], ideal_s)
    return {
        "compute alone": ideal_s - overlapped_s,
        "compute beside transfers": overlapped_s,
        "stalled": run["stall_ns"] / 1e9,
    }


def by_host(grid):
    """Returns the settings for each size of host memory, in order of drives."""
    groups = {}
    for setting in grid["sweeps"][0]["settings"]:
        groups.setdefault(setting["setting"]["host"], []).append(setting)
    return groups


def figure_9(results):
    rows = []
    for case in cases.having(results, "grid"):
        for host, settings in by_host(results[case.key]["grid"]).items():
            rows.append([case.model, f"{host / 1e9:g} GB", *map(fraction_of_setting, settings)])
    header = ["model", "host memory per GPU", "1 drive", "2 drives", "4 drives"]
    return table(header, rows)


def half_machine(results):
    """Compares half of the drives and memory with the whole machine, as the paper does."""
    small = setting_of(results, "l8", 2, 32)
    half, whole = setting_of(results, "l70", 2, 256), setting_of(results, "l70", 4, 512)
    sentences = ["Memory is per GPU here, and the server has twice as much."]
    if small:
        reached = percent(small["fraction_of_ideal"])
        sentences.append(
            f"Llama3-8B is predicted to reach {reached} of ideal with 2 drives and 32 GB per GPU."
        )
    if half and whole:
        reached = percent(whole["step_ns"], half["step_ns"])
        sentences.append(
            f"Llama3-70B is predicted to reach {reached} of its throughput with 4 drives and "
            "512 GB per GPU when it has 2 drives and 256 GB; the paper reports 73.1 %."
        )
    return "\n".join(sentences)


def setting_of(results, key, drives, host_gb):
    """Returns the result of a machine of the grid; None without results or when it does not fit."""
    if key not in results:
        return None
    for setting in results[key]["grid"]["sweeps"][0]["settings"]:
        chosen = setting["setting"]
        if (chosen["drives"], chosen["host"]) == (drives, host_gb * 10**9) and setting["fits"]:
            return setting
    return None


def figure_10(results):
    rows = []
    for case in cases.of(results):
        runs = [run_of(results, case, key) for key in DRIVE_SYSTEMS]
        rows.append([case.model, *map(drive_use, runs)])
    return table(["model", *map(name_of, DRIVE_SYSTEMS)], rows)


def drive_use(run):
    """Describes the bytes read and written per second: mean, busiest slices, and idle time."""
    if "refused" in run:
        return "does not fit"
    pairs = zip(run["ssd_read_rates"], run["ssd_write_rates"], strict=True)
    rates = sorted(read + written for read, written in pairs)
    busiest = rates[-max(1, len(rates) // 20) :]
    idle = sum(rate < 1e7 for rate in rates)
    mean, busy = (statistics.mean(some) / 1e9 for some in (rates, busiest))
    return f"{mean:.1f}, {busy:.1f} GB/s; {percent(idle, len(rates))}"


def name_of(key):
    return cases.system(key).name


def server_prices():
    """Returns the dollars that the server of each kind of system costs, with memory and drives."""
    prices = json.loads(cases.PRICES.read_text())
    drives = len(json.loads(cases.HARDWARE.read_text())["drives"]) * prices["devices"]
    small = prices["server"]
    large = small + prices["host_memory_per_gib"] * (1024 - 128)
    with_drives = drives * prices["drive"]
    return {
        "ssd": small + with_drives,
        "mixed": large + with_drives,
        "host": large,
        "drives": with_drives,
    }


def price_of(key, prices):
    if key == "zero-offload":  # it uses no drives
        return prices["host"]
    return prices["mixed" if cases.system(key).host else "ssd"]


SYSTEMS_OF_TABLE_3 = (
    "ours-replay-ssd",
    "frugal-ssd",
    "ours-replay-mixed",
    "frugal-mixed",
    "zero-infinity-ssd",
    "zero-offload",
    "zero-infinity",
)


def table_3(results, prices):
    rows = []
    for case in cases.OF_PAPER:
        if case.key not in results:
            continue
        for key in SYSTEMS_OF_TABLE_3:
            if key not in results[case.key]["systems"]:
                continue
            run, price = run_of(results, case, key), price_of(key, prices)
            costs = ["does not fit", "", "", ""]
            if "refused" not in run:
                per_token_s = price * run["step_ns"] / 1e9 / case.tokens_per_step
                drives = 0 if key == "zero-offload" else prices["drives"]
                costs = [f"${per_token_s:,.2f}", *wear.costs(case, run, price, drives)]
            rows.append([case.model, name_of(key), f"${price:,.0f}", *costs])
    header = ["model", "system", "price of server and drives", "price per token/s"]
    header += ["drives last", "drives a year", "price per 10^9 tokens"]
    return table(header, rows)


def efficiency(results, prices):
    """Describes throughput per price relative to ZeRO systems, as means over models that fit."""
    parts = []
    for key in ("zero-offload", "zero-infinity"):
        ratios = [
            speedup(results, case, key) * price_of(key, prices) / prices["mixed"]
            for case in fitting(results, key)
        ]
        if ratios:
            mean = statistics.mean(ratios)
            models = "1 model" if len(ratios) == 1 else f"{len(ratios)} models"
            parts.append(f"{mean:.2f} times that of {name_of(key)} ({models})")
    return " and ".join(parts)
