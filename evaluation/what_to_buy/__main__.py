"""Writes docs/what_to_buy.md: machines for full fine-tuning, compared by predicted steps.

PYTHONPATH=. python -m evaluation.what_to_buy

Outcomes are kept in build/what-to-buy: a second run redoes only what depends on something that has
changed.
"""

import json
import sys

from doit.tools import config_changed

from evaluation import cases, command, retime, tasks, traces
from evaluation.what_to_buy import offers, page, steps

BUILD = cases.ROOT / "build" / "what-to-buy"
PAGE = cases.ROOT / "docs" / "what_to_buy.md"


def main():
    machines = offers.machines()
    wanted = {step.key: step for step in map(lambda of: _step(*of), _questions(machines))}
    dry_runs = {step.on_reference.key: step.on_reference for step in wanted.values()}
    others = [step for step in wanted.values() if step.key not in dry_runs]
    plans = [_plan_task(*of) for of in _questions(machines)]
    return tasks.run_tasks(
        [
            *map(_trace_task, dry_runs.values()),
            *map(_device_task, others),
            *plans,
            _page_task(machines),
        ],
        BUILD,
    )


def _questions(machines):
    """Returns each (model, machine, system)."""
    return [
        (model, machine, system)
        for model in steps.MODELS
        for machine in machines
        if machine.host_memory_gb in steps.MODELS[model].host_memories_gb
        for system in steps.SYSTEMS
    ]


def _step(model, machine, system):
    return steps.Step(model, machine.device["accelerator"], system.checkpointing)


def _trace(step):
    return BUILD / "traces" / f"{step.key}.json.gz"


def _outcome(model, machine, system):
    return BUILD / "steps" / f"{steps.MODELS[model].key}-{machine.key}-{system.key}.json"


def _trace_task(step):
    files = traces.dependencies_of(cases.LLAMA)
    return {
        "name": f"trace:{step.key}",
        "doc": step.key,
        "actions": [(tasks.without_traceback(steps.dry_run), [step, _trace(step)])],
        "file_dep": [str(file) for file in files],
        "uptodate": [config_changed({"command": step.command()})],
        "targets": [str(_trace(step))],
    }


def _device_task(step):
    """Returns the task that makes the trace of a step from that of its dry run."""
    return {
        "name": f"trace:{step.key}",
        "doc": step.key,
        "actions": [(steps.change_device, [step, _trace(step.on_reference), _trace(step)])],
        "file_dep": [str(_trace(step.on_reference)), retime.__file__],
        "targets": [str(_trace(step))],
    }


def _plan_task(model, machine, system):
    step, path = _step(model, machine, system), _outcome(model, machine, system)
    return {
        "name": f"analysis:{path.stem}",
        "doc": path.stem,
        "actions": [(tasks.without_traceback(_plan), [system, _trace(step), machine, path])],
        "file_dep": [str(_trace(step)), str(command.TERAIO)],
        "uptodate": [config_changed({"hardware": machine.hardware(), "system": system.options})],
        "targets": [str(path)],
    }


def _plan(system, trace, machine, path):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(steps.under(system, trace, machine)))


def _page_task(machines):
    """Returns the task that writes the page, which is quick and always runs."""
    return {
        "name": "document",
        "doc": PAGE.name,
        "actions": [(_write_page, [machines])],
        "file_dep": [str(_outcome(*of)) for of in _questions(machines)],
        "uptodate": [False],
    }


def _write_page(machines):
    runs = {model: {} for model in steps.MODELS}
    for model, machine, system in _questions(machines):
        outcome = json.loads(_outcome(model, machine, system).read_text())
        runs[model].setdefault(machine.key, {})[system.key] = outcome
    PAGE.write_text(page.text_of(runs, machines))


if __name__ == "__main__":
    sys.exit(main())
