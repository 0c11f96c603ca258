"""Fills page.template.md with tables of the predicted steps."""

import textwrap
from pathlib import Path

from evaluation import document, tables
from evaluation.what_to_buy import offers, steps
from teraio.dry_run import accelerator

TEMPLATE = Path(__file__).with_name("page.template.md")
HEADER = [
    "device",
    "host memory",
    "drives",
    "TERAIO, tokens/s",
    "of ideal",
    "waits for",
    "drives last",
    "price",
    "price per 10^9 tokens",
    "ZeRO-Offload, tokens/s",
    "ZeRO-Infinity, tokens/s",
]


def text_of(runs, machines):
    """Returns the page in Markdown; runs[model][machine.key][system.key] are of steps.under."""
    assumptions = machines[0].assumptions
    values = {
        "tables": "\n".join(_section(model, runs[model], machines) for model in runs),
        "offers": _offers(assumptions, machines),
        "service_months": str(assumptions["service_months"]),
        "usable_host": _percent(assumptions["host_memory"]["usable_share"]),
        "usable_device": _percent(offers.USABLE_DEVICE_SHARE),
        "reference": accelerator.load(steps.REFERENCE).name.removeprefix("NVIDIA "),
        "tokens": f"{steps.TOKENS_PER_STEP:,}",
        "micro_batch": (
            f"{steps.MICRO_BATCHES} micro-batches of {steps.MICRO_BATCH} sequences of "
            f"{steps.SEQUENCE_LENGTH:,} tokens"
        ),
    }
    return document.filled(TEMPLATE.read_text(), values)


def _section(model, runs, machines):
    machines = [machine for machine in machines if machine.key in runs]
    rows = [_row(machine, runs[machine.key]) for machine in machines]
    advice = textwrap.fill(_advice(runs, machines), 120)
    return f"### {model}\n\n{advice}\n\n{tables.table(HEADER, rows)}\n"


def _row(machine, systems):
    ours = systems["teraio"]
    drives = f"{machine.drives} x 2 TB"
    start = [machine.device_name, f"{machine.host_memory_gb} GB", drives]
    price = f"${machine.price():,.0f}"
    others = [_speed(systems["zero-offload"]), _speed(systems["zero-infinity"])]
    if "refused" in ours:
        return [*start, _refusal(ours), "", "", "", price, "", *others]
    return [
        *start,
        _speed(ours),
        _percent(ours["ideal_ns"] / ours["step_ns"]),
        bottleneck(ours),
        _duration(life_months(machine, ours)),
        price,
        f"${price_per_billion(machine, ours):,.0f}",
        *others,
    ]


def bottleneck(run):
    """Returns what most of the stalls of a step wait for, in words."""
    if run["stall_ns"] < 0.05 * run["step_ns"]:
        return "nothing: compute is the limit"
    drives = run["ssd_bytes_written"] + run["ssd_bytes_read"]
    if not drives:
        return "the link to host memory"
    writes = (
        run["ssd_bytes_written"] > 0
        and run["stall_by_cause"]["memory"] > (run["stall_by_cause"]["read"])
    )
    return "writes to drives and host" if writes else "reads from drives and host"


def tokens_per_second(run):
    return steps.TOKENS_PER_STEP / (run["step_ns"] / 1e9)


def life_months(machine, run):
    """Returns how long the drives last when the machine does nothing but such steps."""
    return machine.drive_life_months(run["ssd_bytes_written"], run["step_ns"] / 1e9)


def price_per_billion(machine, run):
    """Returns the price of a billion tokens; the machine trains without a pause."""
    per_month = machine.price_per_month(life_months(machine, run))
    return per_month / (tokens_per_second(run) * offers.SECONDS_PER_MONTH) * 1e9


def _advice(runs, machines):
    """Names the cheapest and the fastest machine for a model under TERAIO."""
    fitting = [m for m in machines if "refused" not in runs[m.key]["teraio"]]
    if not fitting:
        return "No machine of the table trains this model."

    def run_of(machine):
        return runs[machine.key]["teraio"]

    frugal = min(fitting, key=lambda m: price_per_billion(m, run_of(m)))
    fastest = max(fitting, key=lambda m: tokens_per_second(run_of(m)))
    cheapest = min(fitting, key=lambda m: m.price())
    return (
        f"{_described(frugal, 'A')} has the least price per token: "
        f"${price_per_billion(frugal, run_of(frugal)):,.0f} per 10^9 tokens at "
        f"{tokens_per_second(run_of(frugal)):,.0f} tokens/s. "
        f"The fastest is {_described(fastest)}, with "
        f"{tokens_per_second(run_of(fastest)):,.0f} tokens/s. "
        f"The cheapest that trains it at all is {_described(cheapest)}, for "
        f"${cheapest.price():,.0f}: {tokens_per_second(run_of(cheapest)):,.0f} tokens/s, and "
        f"drives that last {_duration(life_months(cheapest, run_of(cheapest)))}."
    )


def _described(machine, article="a"):
    drives = "one drive" if machine.drives == 1 else f"{machine.drives} drives"
    article += "n" if machine.device_name.startswith("H") else ""
    return f"{article} {machine.device_name} with {machine.host_memory_gb} GB and {drives}"


def _speed(run):
    return _refusal(run) if "refused" in run else f"{tokens_per_second(run):,.0f}"


def _refusal(run):
    message = run["refused"]
    if "the device budget is" in message:
        return "no: the device is full"
    if "no tier has room" in message:
        drives = "SSD" in message and "SSD 0" not in message
        return "no: host and drives are full" if drives else "no: host memory is full"
    return f"no: {message.partition(':')[0]}"


def _percent(share):
    return f"{100 * share:.0f} %"


def _duration(months):
    if months > 120:
        return "over 10 years"
    if months >= 24:
        return f"{months / 12:.0f} years"
    return f"{months:.1f} months" if months >= 1 else f"{months * 365.25 / 12:.0f} days"


def _offers(assumptions, machines):
    rows = [["machine without host memory", f"${assumptions['machine']['price']:,}"]]
    rows[0] += [assumptions["machine"]["date"], assumptions["machine"]["source"]]
    memory, drive = assumptions["host_memory"], assumptions["drive"]
    rows.append(["1 GiB of host memory", f"${memory['price_per_gib']}", memory["date"]])
    rows[-1].append(memory["source"])
    rows.append([drive["name"], f"${drive['price']}", drive["date"], drive["source"]])
    names = {m.device["accelerator"]: m.device_name for m in machines}
    for device in assumptions["devices"]:
        row = [names[device["accelerator"]], f"${device['price']:,}"]
        rows.append([*row, device["date"], device["source"]])
    return tables.table(["part", "price", "date", "source"], rows)
