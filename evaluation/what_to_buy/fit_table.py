"""Writes the predicted steps as the table that the page "Will it fit?" reads in a browser."""

import datetime
import json

from evaluation.what_to_buy import offers, page, steps
from teraio import accelerator

COLUMNS = (
    "model device training host_memory_gb drives tokens_per_step memory_needed_bytes "
    "ideal_step_seconds step_seconds ssd_bytes_read ssd_bytes_written host_peak_bytes waits_for"
).split()


def text_of(outcomes):
    """Returns the statement in JavaScript; `outcomes` are pairs of a question and its outcome."""
    assumptions = offers.load()
    drive = assumptions["drive"]
    table = {
        "format": "teraio-fit/1",
        "generated": datetime.date.today().isoformat(),
        "micro_batch_tokens": steps.MICRO_BATCH_TOKENS,
        "models": [_model(key) for key in steps.MODELS],
        "devices": [_device(device) for device in assumptions["devices"]],
        "drive": {k: drive[k] for k in ("name", "capacity_bytes", "rated_bytes_written", "price")},
        "columns": COLUMNS,
        "rows": [_row(q, run) for q, run in outcomes if q.system is steps.TERAIO],
    }
    return f"window.TERAIO_FIT = {json.dumps(table, separators=(',', ':'))};\n".replace(
        "],[", "],\n["
    )


def _model(key):
    model = steps.MODELS[key]
    return {"key": key, "name": model.name, "parameters": model.parameters}


def _device(device):
    key = device["accelerator"]
    return {
        "key": key,
        "name": accelerator.load(key).name.removeprefix("NVIDIA "),
        "memory_gb": device["memory_gb"],
        "price": device["price"],
        "is_arm": device.get("is_arm", False),  # there is no wheel for it
    }


def _row(question, run):
    step, machine = question.step, question.machine
    start = [step.model, step.accelerator, step.training, machine.host_memory_gb, machine.drives]
    start += [step.tokens, run["natural_peak_bytes"], _seconds(run["ideal_ns"])]
    if "refused" in run:
        return [*start, None, None, None, None, page.refusal(run)]
    moved = [run[name] for name in ("ssd_bytes_read", "ssd_bytes_written", "host_peak_bytes")]
    return [*start, _seconds(run["step_ns"]), *moved, page.bottleneck(run)]


def _seconds(ns):
    return round(ns / 1e9, 3)
