"""Fills docs/what_to_buy.md with tables of the predicted steps."""

import datetime
import json
import textwrap
from pathlib import Path

from evaluation import cases, document, tables
from evaluation.what_to_buy import offers, steps
from teraio import accelerator

PAGE = cases.ROOT / "docs" / "what_to_buy.md"
MEASURED = Path(__file__).with_name("measured.json")
SMALL, LARGE = (count * steps.MICRO_BATCH_TOKENS for count in (2, 16))
WITH_DRIVES = 2
HARDLY_FASTER = 1.03


def text_of(outcomes):
    """Returns the page in Markdown; `outcomes` are pairs of a question and its outcome."""
    assumptions, answers = offers.load(), Answers(outcomes)
    measured = json.loads(MEASURED.read_text())
    values = {
        "eight": _table_of_8b(answers),
        "larger": _table_of_larger(answers),
        "systems": _table_of_systems(answers),
        "measured": _table_of_measured(answers, measured),
        "reasons": _reasons(measured),
        "date": datetime.date.today().isoformat(),
        "plans": f"{len(outcomes):,}",
        "offers": _offers(assumptions),
        "service_months": str(assumptions["service_months"]),
        "usable_host": _percent(assumptions["host_memory"]["usable_share"]),
        "usable_device": _percent(offers.USABLE_DEVICE_SHARE),
        "reference": _name(steps.REFERENCE),
    }
    return document.filled(PAGE.read_text(), values)


class Answers:
    """The outcomes, found by what was asked."""

    def __init__(self, outcomes):
        self.outcomes = outcomes
        self._by_key = {_key(q.step, q.machine, q.system): run for q, run in outcomes}

    def run(self, model, training, tokens, machine, system=steps.TERAIO):
        """Returns the outcome, or None where the grid has no such question."""
        count, device = tokens // steps.MICRO_BATCH_TOKENS, machine.device["accelerator"]
        step = steps.Step(model, training, count, device, system.checkpointing)
        return self._by_key.get(_key(step, machine, system))

    def plans(self, **wanted):
        """Returns our plans of steps with the fields `wanted`: pairs of question and outcome."""
        return [
            (q, run)
            for q, run in self.outcomes
            if q.system == steps.TERAIO
            and "refused" not in run
            and all(getattr(q.step, name) == value for name, value in wanted.items())
        ]


def _key(step, machine, system):
    return step.key, machine.key, system.key


def _table_of_8b(answers):
    header = ["device", "host memory", "drives", "price", "fp32 states", "131k tokens"]
    header += ["drives last", "price per 10^9 tokens", "bf16 states", "131k tokens", "LoRA"]
    return tables.table(
        header, [_row_of_8b(answers, *of) for of in _worth_a_row(answers, "8b", "full-fp32")]
    )


def _row_of_8b(answers, machine, run):
    def speed(training, tokens):
        return _speed(answers.run("8b", training, tokens, machine))

    return [
        *_described_in_cells(machine),
        f"${machine.price():,.0f}",
        *(speed("full-fp32", tokens) for tokens in (SMALL, LARGE)),
        *_costs(machine, run),
        *(speed("full-bf16", tokens) for tokens in (SMALL, LARGE)),
        _speed(answers.run("8b", "lora", SMALL, machine.with_drives(0))),
    ]


def _table_of_larger(answers):
    header = ["model", "device", "host memory", "drives", "bf16 states", "drives last"]
    header += ["price per 10^9 tokens", "fp32 states, 2 drives"]
    rows = []
    for model in ("14b", "32b"):
        worth = _worth_a_row(answers, model, "full-bf16")
        fastest = {machine.device_name: (machine, run) for machine, run in worth}
        rows += [_row_of_larger(answers, model, *of) for of in fastest.values()]
    return tables.table(header, rows)


def _row_of_larger(answers, model, machine, run):
    return [
        model.upper(),
        *_described_in_cells(machine),
        _speed(run),
        *_costs(machine, run),
        _speed(answers.run(model, "full-fp32", SMALL, machine.with_drives(WITH_DRIVES))),
    ]


def _worth_a_row(answers, model, training):
    """Returns for each device and host memory the machine with the least price per token.

    Each is with its outcome. Machines that are hardly faster than one with less host memory are
    left out.
    """
    best = {}
    for question, run in answers.plans(model=model, training=training, micro_batches=2):
        machine = question.machine
        if machine.drives not in (0, WITH_DRIVES):
            continue
        place = (machine.device_name, machine.host_memory_gb)
        if place not in best or price_per_billion(machine, run) < price_per_billion(*best[place]):
            best[place] = machine, run
    chosen, speed = [], {}
    for machine, run in best.values():
        if tokens_per_second(run) > HARDLY_FASTER * speed.get(machine.device_name, 0):
            chosen.append((machine, run))
            speed[machine.device_name] = tokens_per_second(run)
    return chosen


def _described_in_cells(machine):
    return [machine.device_name, f"{machine.host_memory_gb} GB", machine.drives]


def _costs(machine, run):
    """Returns how long the drives last, and the price of a billion tokens."""
    life = _duration(life_months(machine, run)) if machine.drives else ""
    return [life, _price_per_billion(machine, run)]


def _table_of_systems(answers):
    header = ["device", "host memory", "states", "TERAIO", "TERAIO, no drives"]
    header += ["ZeRO-Offload", "ZeRO-3 offload", "ZeRO-Infinity"]
    rows = []
    for question, run in answers.outcomes:
        if question.system == steps.ZERO_INFINITY and question.machine.drives == WITH_DRIVES:
            rows.append(_row_of_systems(answers, question, run))
    return tables.table(header, rows)


def _row_of_systems(answers, question, infinity):
    step, machine = question.step, question.machine
    alone = machine.with_drives(0)

    def speed(machine, system):
        return _speed(answers.run(step.model, step.training, step.tokens, machine, system))

    return [
        machine.device_name,
        f"{machine.host_memory_gb} GB",
        steps.TRAININGS[step.training].name,
        speed(machine, steps.TERAIO),
        speed(alone, steps.TERAIO),
        speed(alone, steps.ZERO_OFFLOAD),
        speed(alone, steps.ZERO_INFINITY),
        _speed(infinity),
    ]


def _table_of_measured(answers, measured):
    header = ["device", "what", "system", "tokens a step", "measured by others, tokens/s"]
    header += ["ours, predicted", "why"]
    numbers = {reason: number for number, reason in enumerate(measured["reasons"], 1)}
    rows = [_row_of_measured(answers, row, numbers) for row in measured["rows"]]
    return tables.table(header, filter(None, rows))


def _row_of_measured(answers, row, numbers):
    """Returns the row with our fastest machine beside what was measured; None without a plan."""
    plans = answers.plans(model=row["model"], training=row["training"], accelerator=row["device"])
    tokens = row["tokens_per_step"]
    ours = max(tokens or LARGE, SMALL)
    speeds = [(_speed_of_step(answers, question, ours), question.machine) for question, _ in plans]
    speed, machine = max(speeds, key=lambda of: of[0], default=(0, None))
    if not speed:
        return None
    is_slower = speed < 0.95 * row["tokens_per_second"]
    return [
        _name(row["device"]),
        f"{row['what']}, {steps.TRAININGS[row['training']].name}",
        f"{row['system']} ({row['source']})",
        f"{tokens:,}" if tokens else "not stated",
        f"{row['tokens_per_second']:,}",
        f"{speed:,.0f} ({ours // 1000}k tokens, {machine.host_memory_gb} GB of host memory)",
        numbers[row["why"]] if is_slower else "",
    ]


def _speed_of_step(answers, question, tokens):
    """Returns the tokens per second of steps of `tokens` on the machine of a question, or 0.

    Without a plan for such a step, a micro-batch more than in the small step takes as long as each
    that the large step has more.
    """
    step = question.step
    small, large, same = (
        answers.run(step.model, step.training, count, question.machine)
        for count in (SMALL, LARGE, tokens)
    )
    if same and "refused" not in same:
        return tokens_per_second(same)
    if not small or not large or "refused" in small | large:
        return 0
    per_token_ns = (large["step_ns"] - small["step_ns"]) / (LARGE - SMALL)
    return tokens / (small["step_ns"] + per_token_ns * (tokens - SMALL)) * 1e9


def _reasons(measured):
    return "\n".join(
        textwrap.fill(reason, 120, initial_indent=f"{number}. ", subsequent_indent="   ")
        for number, reason in enumerate(measured["reasons"].values(), 1)
    )


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
    return run["tokens"] / (run["step_ns"] / 1e9)


def life_months(machine, run):
    """Returns how long the drives last when the machine does nothing but such steps."""
    return machine.drive_life_months(run["ssd_bytes_written"], run["step_ns"] / 1e9)


def price_per_billion(machine, run):
    """Returns the price of a billion tokens; the machine trains without a pause."""
    per_month = machine.price_per_month(life_months(machine, run))
    return per_month / (tokens_per_second(run) * offers.SECONDS_PER_MONTH) * 1e9


def _price_per_billion(machine, run):
    return f"${price_per_billion(machine, run):,.0f}"


def _speed(run):
    """Returns tokens per second and the share of ideal, or why there is no plan."""
    if run is None:
        return ""
    if "refused" in run:
        return refusal(run)
    share = _percent(run["ideal_ns"] / run["step_ns"])
    return f"{tokens_per_second(run):,.0f} ({share})"


def refusal(run):
    """Returns why a plan was refused, in a few words."""
    message = run["refused"]
    if "the device budget is" in message:
        return "no: the device is full"
    if "tiers have no room" in message or "no tier has room" in message:
        drives = "SSD" in message and "SSD 0" not in message
        return "no: host and drives are full" if drives else "no: host memory is full"
    return f"no: {message.partition(':')[0]}"


def _name(key):
    return accelerator.load(key).name.removeprefix("NVIDIA ")


def _percent(share):
    return f"{100 * share:.0f} %"


def _duration(months):
    if months > 120:
        return "over 10 years"
    if months >= 24:
        return f"{months / 12:.0f} years"
    return f"{months:.1f} months" if months >= 1 else f"{months * 365.25 / 12:.0f} days"


def _offers(assumptions):
    rows = [["machine without host memory", f"${assumptions['machine']['price']:,}"]]
    rows[0] += [assumptions["machine"]["date"], assumptions["machine"]["source"]]
    memory, drive = assumptions["host_memory"], assumptions["drive"]
    rows.append(["1 GiB of host memory", f"${memory['price_per_gib']}", memory["date"]])
    rows[-1].append(memory["source"])
    rows.append([drive["name"], f"${drive['price']}", drive["date"], drive["source"]])
    for device in assumptions["devices"]:
        row = [_name(device["accelerator"]), f"${device['price']:,}"]
        rows.append([*row, device["date"], device["source"]])
    return tables.table(["part", "price", "date", "source"], rows)
