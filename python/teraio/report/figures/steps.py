"""The times of the steps of one or of two runs."""

import numpy
import plotly.graph_objects as go

from teraio.report.figures import style

LIMIT = 2000  # steps per mode and pattern


def steps(directory, ideal_s):
    """Returns the figure of a RunDirectory, with lines for the predicted and the ideal time."""
    run = directory.run
    if not run["steps"]:
        return None
    figure = _figure()
    first = run.get("first_step", 0)
    patterns = {step["pattern"] for step in run["steps"]}
    for (mode, pattern), (numbers, seconds) in _groups(run["steps"], first).items():
        name = f"{mode}, pattern {pattern}" if len(patterns) > 1 and pattern else mode
        _add_points(figure, numbers, seconds, name, style.MODES[mode], len(figure.data))
    ends = [first + 1, first + len(run["steps"])]
    for name, seconds, color in (
        ("predicted", run["predicted_step_seconds"], style.LINE),
        ("compute alone", ideal_s, style.KINDS["workspace"]),
    ):
        if seconds is not None:
            hover = {"hovertemplate": "%{y:.3s}s"}
            figure.add_trace(style.line(ends, [seconds] * 2, name, color, dash="dash", **hover))
    return figure


def steps_of_two(directories, labels):
    """Returns the figure of two RunDirectories with the names `labels`."""
    figure = _figure()
    for directory, label, color in zip(directories, labels, style.RUNS, strict=True):
        seconds = numpy.array([step["seconds"] for step in directory.run["steps"]])
        numbers = numpy.arange(len(seconds)) + 1 + directory.run.get("first_step", 0)
        kept = _kept(seconds)
        _add_points(figure, numbers[kept], seconds[kept], label, color, 0)
    return figure


def _figure():
    return style.figure(
        320,
        xaxis={"title": "step"},
        yaxis={"title": "step time", "tickformat": "~s", "ticksuffix": "s", "rangemode": "tozero"},
    )


def _groups(steps, first):
    """Returns a dict from (mode, pattern) to arrays of step numbers and seconds."""
    groups = {}
    for number, step in enumerate(steps, first + 1):
        groups.setdefault((step["mode"], step["pattern"]), []).append((number, step["seconds"]))
    return {key: _thinned(numpy.array(values)) for key, values in groups.items()}


def _thinned(values):
    return values[_kept(values[:, 1])].T


def _kept(seconds):
    """Returns the indices of the fastest and the slowest of each group of neighbours."""
    if len(seconds) <= LIMIT:
        return numpy.arange(len(seconds))
    groups = numpy.array_split(numpy.arange(len(seconds)), LIMIT // 2)
    extremes = [(g[seconds[g].argmin()], g[seconds[g].argmax()]) for g in groups]
    return numpy.unique(extremes)


def _add_points(figure, numbers, seconds, name, color, symbol):
    marker = {"color": color, "size": 6, "symbol": symbol}
    options = {"mode": "markers", "marker": marker, "hovertemplate": "%{y:.3s}s"}
    figure.add_trace(go.Scatter(x=numbers, y=seconds, name=name, **options))
