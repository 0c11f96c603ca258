"""Fills in docs/what_to_buy.md and writes docs/javascripts/fit_table.js: machines, by steps.

PYTHONPATH=. python -m evaluation.what_to_buy

Outcomes are kept in build/what-to-buy: a second run redoes only what depends on something that has
changed.
"""

import json
import sys

from doit.tools import config_changed

from evaluation import cases, command, retime, tasks, traces
from evaluation.what_to_buy import fit_table, grid, page, steps

BUILD = cases.ROOT / "build" / "what-to-buy"
TABLE = cases.ROOT / "docs" / "javascripts" / "fit_table.js"


def main(workers=tasks.WORKERS):
    questions = grid.questions()
    wanted = {question.step.key: question.step for question in questions}
    dry_runs = {step.on_reference.key: step.on_reference for step in wanted.values()}
    others = [step for step in wanted.values() if step.key not in dry_runs]
    return tasks.run_tasks(
        [
            *map(_trace_task, dry_runs.values()),
            *map(_device_task, others),
            *map(_plan_task, questions),
            _page_task(questions),
        ],
        BUILD,
        workers,
    )


def _trace(step):
    return BUILD / "traces" / f"{step.key}.json.gz"


def _outcome(question):
    return BUILD / "steps" / f"{question.key}.json"


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


def _plan_task(question):
    trace, hardware = _trace(question.step), question.machine.hardware()
    system = question.system.options
    return {
        "name": f"analysis:{question.key}",
        "doc": question.key,
        "actions": [(tasks.without_traceback(_plan), [question])],
        "file_dep": [str(trace), str(command.TERAIO)],
        "uptodate": [config_changed({"hardware": hardware, "system": system})],
        "targets": [str(_outcome(question))],
    }


def _plan(question):
    path = _outcome(question)
    path.parent.mkdir(exist_ok=True)
    outcome = steps.under(question.system, _trace(question.step), question.machine)
    path.write_text(json.dumps(outcome))


def _page_task(questions):
    """Returns the task that writes the page and the table, which is quick and always runs."""
    return {
        "name": "document",
        "doc": page.PAGE.name,
        "actions": [(_write, [questions])],
        "file_dep": [str(_outcome(question)) for question in questions],
        "uptodate": [False],
    }


def _write(questions):
    outcomes = [(q, _read(q)) for q in questions]
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(fit_table.text_of(outcomes))
    page.PAGE.write_text(page.text_of(outcomes))


def _read(question):
    return json.loads(_outcome(question).read_text()) | {"tokens": question.step.tokens}


if __name__ == "__main__":
    sys.exit(main())
