"""The evaluation as tasks of doit, with the files that each task depends on.

    trace:CASE           a dry run of the case's script
    analysis:CASE:NAME   a result of `teraio` for the trace
    figure:NAME          a figure, drawn from all analyses
    document             the values in docs/evaluation.md, and its figures

doit runs a task only when the content of a file that it depends on or its parameters have changed,
or when its outcome is missing.
"""

import functools
import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from doit.cmd_base import TaskLoader2
from doit.doit_cmd import DoitMain
from doit.exceptions import TaskFailed
from doit.task import dict_to_task
from doit.tools import config_changed

import teraio_figures
from evaluation import analyses, cases, command, document, figures, traces

PACKAGE = Path(__file__).parent
PLOTTING = Path(teraio_figures.__file__).parent
WORKERS = 2


@dataclass(frozen=True)
class Folders:
    """The folders of outcomes: intermediate ones, the document, and its figures."""

    build: Path = cases.ROOT / "build" / "evaluation"
    document: Path = cases.ROOT / "docs" / "evaluation.md"
    images: Path = cases.ROOT / "docs" / "images" / "evaluation"

    def trace(self, case):
        return self.build / "traces" / f"{case.key}.json.gz"

    def analysis(self, case, analysis):
        return self.build / "analyses" / f"{case.key}-{analysis.name}.json"

    def picture(self, name):
        return self.build / "figures" / f"{name}.png"


def run(wanted, folders, workers=WORKERS):
    """Evaluates the cases `wanted`: runs all tasks whose outcome is missing or out of date.

    Up to `workers` tasks run at a time, in processes of their own; 0 runs them in this process. A
    task that fails stops only those that depend on it, but a dry run that fails ends the run after
    the other dry runs. A run that is interrupted continues where it ended.

    Returns 0, or another exit code when a task failed.
    """
    dry_runs = [trace_task(case, folders) for case in wanted]
    later = later_tasks(wanted, folders)
    return run_tasks(dry_runs, folders.build, workers) or run_tasks(later, folders.build, workers)


def run_tasks(tasks, build, workers=WORKERS):
    """Runs the tasks whose outcome is missing or out of date; the folder `build` has the record."""
    build.mkdir(parents=True, exist_ok=True)
    config = {
        "backend": "json",
        "dep_file": str(build / "state.json"),
        "outfile": sys.stdout,
        "continue": True,
        "num_process": workers,
        "verbosity": 0,
    }
    return DoitMain(_Loader(tasks, config), config_filenames=()).run(["run"])


class _Loader(TaskLoader2):
    """Loads tasks that are built already into doit, instead of those of a dodo.py."""

    def __init__(self, tasks, config):
        super().__init__()
        self._tasks, self._config = tasks, config

    def load_doit_config(self):
        return self._config

    def load_tasks(self, cmd, pos_args):
        return [dict_to_task(task) for task in self._tasks]


def later_tasks(wanted, folders):
    """Returns the tasks that follow the dry runs, in the order in which they start."""
    questions = [(case, analysis) for case in wanted for analysis in analyses.of_case(case)]
    return [
        *(analysis_task(case, analysis, folders) for case, analysis in questions),
        *(figure_task(name, wanted, folders) for name in figures.FIGURES),
        document_task(wanted, folders),
    ]


def trace_task(case, folders):
    if case.tf32:
        return rescaling_task(case, folders)
    return {
        "name": f"trace:{case.key}",
        "actions": [(without_traceback(traces.dry_run), [case, folders.trace(case)])],
        "file_dep": _words(traces.dependencies(case)),
        "uptodate": [config_changed({"command": traces.command_of(case), "title": case.title})],
        "targets": _words([folders.trace(case)]),
    }


def rescaling_task(case, folders):
    """Returns the task that makes the trace of a step in TF32 from that in fp32."""
    fp32 = cases.in_fp32(case)
    return {
        "name": f"trace:{case.key}",
        "actions": [
            (without_traceback(traces.rescale), [case, folders.trace(fp32), folders.trace(case)])
        ],
        "file_dep": _words([folders.trace(fp32), PACKAGE / "retime.py"]),
        "targets": _words([folders.trace(case)]),
    }


def analysis_task(case, analysis, folders):
    modules = [PACKAGE / "analyses.py", PLOTTING / "timeline.py"]
    inputs = [folders.trace(case), cases.HARDWARE, command.TERAIO, *modules]
    path = folders.analysis(case, analysis)
    return {
        "name": f"analysis:{case.key}:{analysis.name}",
        "actions": [(without_traceback(_analyse), [analysis, folders.trace(case), path])],
        "file_dep": _words(inputs),
        "uptodate": [config_changed({"parameters": analysis.parameters})],
        "targets": _words([path]),
    }


def figure_task(name, wanted, folders):
    modules = [PACKAGE / f"{module}.py" for module in ("figures", "tables", "cases")]
    inputs = [*_analyses(wanted, folders), *modules, *PLOTTING.glob("*.py")]
    return {
        "name": f"figure:{name}",
        "actions": [(_draw, [name, wanted, folders])],
        "file_dep": _words(inputs),
        "targets": _words([folders.picture(name), folders.picture(name).with_suffix(".svg")]),
    }


def document_task(wanted, folders):
    """Returns the task that fills in the document.

    It always runs, because it is quick and its outcomes are committed files that people can edit.
    """
    inputs = [*_analyses(wanted, folders), *map(folders.picture, figures.FIGURES)]
    return {
        "name": "document",
        "actions": [(_publish, [wanted, folders])],
        "file_dep": _words(inputs),
        "uptodate": [False],
    }


def results_of(wanted, folders):
    """Returns the finished analyses, by case.

    results[case.key] has `origin` (the origin of the trace, in words), `systems` (a step under each
    system), and an entry for each other analysis.
    """
    systems = {system.key for system in (*cases.SYSTEMS, *cases.FRUGAL_SYSTEMS)}
    results = {}
    for case in wanted:
        of_case = results[case.key] = {"origin": traces.origin(case), "systems": {}}
        for analysis in analyses.of_case(case):
            group = of_case["systems"] if analysis.name in systems else of_case
            group[analysis.name] = json.loads(folders.analysis(case, analysis).read_text())
    return results


def _analyses(wanted, folders):
    return [
        folders.analysis(case, analysis) for case in wanted for analysis in analyses.of_case(case)
    ]


def _words(paths):
    return [str(path) for path in paths]


def without_traceback(action):
    """Wraps an action: an error of `teraio` becomes the failure of the task, with its message."""

    @functools.wraps(action)
    def run_action(*arguments):
        try:
            action(*arguments)
        except command.CommandFailed as failure:
            return TaskFailed(str(failure))

    return run_action


def _analyse(analysis, trace, path):
    text = json.dumps(analysis.compute(trace))
    path.parent.mkdir(exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(path)


def _draw(name, wanted, folders):
    figures.draw(name, results_of(wanted, folders), folders.picture(name).parent)


def _publish(wanted, folders):
    folders.images.mkdir(parents=True, exist_ok=True)
    for picture in map(folders.picture, figures.FIGURES):
        shutil.copyfile(picture, folders.images / picture.name)
    page = folders.document.read_text()
    folders.document.write_text(document.text_of(results_of(wanted, folders), page))
