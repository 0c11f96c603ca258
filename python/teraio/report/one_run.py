"""The page about one run."""

from statistics import median

from teraio.errors import Error
from teraio.report import page, prediction, stalls, summary, wear
from teraio.report.figures import channels, memory, places, steps, style
from teraio.report.memory_levels import memory_levels
from teraio.report.modules import Modules
from teraio.report.progress import told_if_slow
from teraio.report.residency import residency


def page_of_run(directory):
    """Returns the page about a RunDirectory as text.

    Where nothing can be predicted, the page says why, and has only what was measured.
    """
    uses = wear.drive_uses(directory)
    predicted, problem = _prediction(directory)
    step = _PredictedStep(directory.trace, predicted) if predicted else None
    explanation = predicted and predicted.explanation
    return page.render(
        "run.html.j2",
        {
            "memory": memory.memory(step and step.levels, directory),
            "channels": step and channels.channels(predicted.timeline),
            "places": step and step.places_figure(),
            "steps": steps.steps(directory, summary.times_of(directory).ideal),
        },
        directory=directory,
        run=directory.run,
        verdict=summary.verdict(directory),
        speed_sentence=summary.speed_sentence(directory),
        facts=summary.facts(directory, uses),
        stall_sentence=summary.stall_sentence(directory),
        advice=summary.advice(directory, explanation, uses) if not problem else [],
        problem=problem,
        explanation=explanation,
        step=step,
        totals=predicted and predicted.totals,
        drives=uses,
        life_text=wear.life_text,
        modes=mode_rows(directory.run["steps"]),
        style=style,
    )


def _prediction(directory):
    """Returns (the Prediction, or None; what went wrong, or None)."""
    if None in (directory.trace, directory.plan_path, directory.hardware):
        return None, None
    op_count = len(directory.trace["ops"])
    what = f"planning a step of {op_count:,} ops again, with other drives and memory"
    try:
        with told_if_slow(what):
            return prediction.predict(directory), None
    except Error as error:
        return None, str(error)


def mode_rows(steps):
    """Returns a dict per mode and pattern of the steps: how many there are, how long they take."""
    groups = {}
    for each in steps:
        groups.setdefault((each["mode"], each["pattern"]), []).append(each["seconds"])
    return [
        {
            "mode": mode,
            "pattern": pattern,
            "count": len(seconds),
            "least": min(seconds),
            "median": median(seconds),
            "most": max(seconds),
        }
        for (mode, pattern), seconds in groups.items()
    ]


class _PredictedStep:
    """What figures and tables of the predicted step have in common."""

    def __init__(self, trace, predicted):
        self._trace, self._timeline = trace, predicted.timeline
        self._places = residency(trace, predicted.timeline)
        self._modules = Modules(trace)
        self.levels = memory_levels(trace, predicted.timeline, self._places)
        self.by_op = stalls.stall_by_op(trace, predicted.timeline)
        self.by_module = stalls.stall_by_module(trace, predicted.timeline, self._modules)
        self.tensors = places.largest_tensors(trace, self._places)
        self.tensor_count = sum(1 for spans in self._places.values() if spans)

    def places_figure(self):
        return places.places_of_tensors(self._trace, self._timeline, self._places, self._modules)

    def kinds(self):
        """Yields (kind, most bytes on the device, bytes of all its tensors) for each kind."""
        totals = {}
        for tensor in self._trace["tensors"]:
            totals[tensor["kind"]] = totals.get(tensor["kind"], 0) + tensor["bytes"]
        for kind, level in zip(self.levels.kinds, self.levels.of_kind, strict=True):
            if level.any() or kind in totals:
                yield kind, level.max(), totals.get(kind)

    def time_by_place(self, tensor):
        """Returns a dict from places to the seconds that a tensor spends there."""
        seconds = {}
        for start, end, place in self._places[tensor["id"]]:
            seconds[place] = seconds.get(place, 0) + end - start
        return seconds

    def module_of(self, tensor):
        return self._modules.of_tensor.get(tensor["id"], "")
