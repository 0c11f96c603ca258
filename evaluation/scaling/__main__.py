"""Writes docs/scaling.md and its figures: jobs of many ranks, predicted.

PYTHONPATH=. python -m evaluation.scaling [--workers N]

Outcomes are kept in build/scaling: a second run redoes only what depends on something that has
changed.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

from doit.tools import config_changed

from evaluation import cases as paper
from evaluation import command, tasks, traces
from evaluation.scaling import cases, figures, job, late_reads, layouts, page

BUILD = paper.ROOT / "build" / "scaling"
PAGE = paper.ROOT / "docs" / "scaling.md"
IMAGES = paper.ROOT / "docs" / "images" / "scaling"
MODEL = sorted(Path(__file__).parent.glob("*.py"))


def main():
    parser = argparse.ArgumentParser("python -m evaluation.scaling", description=__doc__)
    parser.add_argument("--workers", type=int, default=tasks.WORKERS, help="tasks at a time")
    options = parser.parse_args()
    dry_runs = {_trace(case): case.trace for case in cases.every()}
    steps = [_step_task(case) for case in cases.every()]
    return tasks.run_tasks(
        [*(_trace_task(*of) for of in dry_runs.values()), *steps, _late_task(), _page_task()],
        BUILD,
        options.workers,
    )


def _trace(case):
    return _trace_of(*case.trace)


def _trace_of(layout, ranks):
    return BUILD / "traces" / f"{layout.key}-{ranks}.json.gz"


def _outcome(case):
    return BUILD / "steps" / f"{case.key}.json"


_LATE = BUILD / "steps" / "late-reads.json"


def _trace_task(layout, ranks):
    path = _trace_of(layout, ranks)
    files = traces.dependencies_of(layouts.SCRIPT)
    return {
        "name": f"trace:{path.stem}",
        "doc": f"{layout.key}, a rank of {ranks}",
        "actions": [(tasks.without_traceback(layouts.dry_run), [layout, ranks, path])],
        "file_dep": [str(file) for file in files],
        "uptodate": [config_changed({"command": layouts.command_of(layout, ranks)})],
        "targets": [str(path)],
    }


def _step_task(case):
    return {
        "name": f"analysis:{case.key}",
        "doc": case.key,
        "actions": [(_predict, [case])],
        "file_dep": _inputs(case),
        "uptodate": [config_changed({"case": repr(case)})],
        "targets": [str(_outcome(case))],
    }


def _inputs(case):
    """Returns the files that a step depends on. The page and its figures are not among them."""
    code = [path for path in MODEL if path.stem not in ("page", "figures", "__main__", "cases")]
    return [str(path) for path in (_trace(case), command.TERAIO, *code)]


def _predict(case):
    try:
        outcome = job.predict(case.job(_trace(case)), case.kinds)
        for run in outcome["kinds"]:
            for long in ("starts_ns", "stalls_ns", "reads"):
                del run[long]
    except command.CommandFailed as failure:
        outcome = {"refused": str(failure)}
    _write(outcome, _outcome(case))


def _late_task():
    parameters = {"case": repr(cases.LATE), "delays": repr((cases.DELAYS, cases.LATE_RANKS))}
    return {
        "name": "analysis:late reads",
        "doc": "late reads",
        "actions": [(tasks.without_traceback(_predict_late), [])],
        "file_dep": _inputs(cases.LATE),
        "uptodate": [config_changed(parameters)],
        "targets": [str(_LATE)],
    }


def _predict_late():
    """Writes how much longer a step is, by the delay's name and the number of ranks."""
    of_ranks = cases.LATE.job(_trace(cases.LATE))
    events = late_reads.events_of(of_ranks, job.predict(of_ranks, cases.LATE.kinds))
    lateness = {
        name: [late_reads.lateness_ns(events, ranks, delay) for ranks in cases.LATE_RANKS]
        for name, delay in cases.DELAYS.items()
    }
    _write(lateness, _LATE)


def _write(value, path):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value))


def _page_task():
    """Returns the task that writes the page, which is quick and always runs."""
    return {
        "name": "document",
        "doc": PAGE.name,
        "actions": [(_write_page, [])],
        "file_dep": [str(path) for path in [*map(_outcome, cases.every()), _LATE]],
        "uptodate": [False],
    }


def _write_page():
    steps = {case.key: json.loads(_outcome(case).read_text()) for case in cases.every()}
    late = json.loads(_LATE.read_text())
    for name, figure in figures.drawn(steps, late).items():
        figures.save(figure, BUILD / "figures", name)
        IMAGES.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(BUILD / "figures" / f"{name}.png", IMAGES / f"{name}.png")
    PAGE.write_text(page.text_of(steps, late))


if __name__ == "__main__":
    sys.exit(main())
