"""The panel of a session in a notebook: the figures of the status line, which follow the run.

Where the kernel is ipykernel (Jupyter, VS Code, Colab), the output of a cell is replaced under its
display id, also from another thread and when the cell has ended. Nothing else is needed: no widget,
no script. IPython is not imported unless it is running already.
"""

import os
import sys

from teraio.units import format_size
from teraio.watch.run_status import HISTORY_CELLS
from teraio.watch.status_line import memory_text, parts, percent_text, seconds_text, tier_text

_HEIGHT, _CELL_WIDTH = 36, 6  # of the memory's history, in pixels
_BLUE, _RED, _GREY = "#4c8fd6", "#d9503f", "rgba(128,128,128,0.25)"
_NOT_BEGUN = "This session has not begun: train in a <code>with</code> block."
_ENDED = "<code>session.report()</code> shows where the time went, and what would help."


def is_kernel():
    """Returns whether this process is the kernel of a notebook."""
    # Another thread may be importing IPython right now: then it lacks the function still.
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_ipython is not None and hasattr(get_ipython(), "kernel")


def command():
    """Returns the words of the command that this process was started by, or the notebook's name."""
    if is_kernel():
        return [os.environ.get("JPY_SESSION_NAME", "notebook")]  # which Jupyter sets
    return [str(word) for word in sys.argv]


class Panel:
    """The output of a cell that shows the state of a session.

    The thread that runs the cell makes it; then one thread at a time uses it.

    Args:
        status: the state to begin with, or None before the session has begun.
    """

    def __init__(self, status=None):
        from IPython.display import display

        self._handle = display(_bundle(status), raw=True, display_id=True)

    def show(self, status):
        """Shows a state, as RunStatus.read() returns it."""
        self._handle.update(_bundle(status), raw=True)


def _bundle(status):
    return {"text/plain": text(status), "text/html": html(status)}


def text(status):
    """Returns a state in one line. `status` is None before the session has begun."""
    return f"<teraio.Session: {'not begun' if status is None else ' | '.join(parts(status))}>"


def html(status):
    """Returns a state as HTML without a script. `status` is None before the session has begun."""
    if status is None:
        return _framed(_NOT_BEGUN)
    rows = "".join(
        f'<div style="color:inherit;opacity:0.75">{name}</div><div>{value}</div>'
        for name, value in _rows(status)
    )
    grid = "display:grid;grid-template-columns:max-content auto;gap:2px 16px;margin:6px 0"
    note = _ENDED if status["phase"] == "ended" else ""
    return _framed(
        f"<b>TERAIO</b>: {status['phase']}, step {status['step']}"
        f'<div style="{grid}">{rows}</div>{note}'
    )


def _framed(content):
    style = f"border:1px solid {_GREY};border-radius:6px;padding:8px 12px;max-width:44rem"
    font = "font:13px/1.5 system-ui,sans-serif;font-variant-numeric:tabular-nums"
    return f'<div style="{style};{font}">{content}</div>'


def _rows(status):
    """Yields pairs of a figure's name and its value, as HTML."""
    natural = format_size(status["natural_peak_bytes"])
    if status["step_seconds"]:
        yield "time per step", _step_time(status)
    yield "device memory", _bar(status) + memory_text(status) + f" ({natural} without TERAIO)"
    if status["memory_bytes"]:
        yield "over the last steps", _history(status)
    if status["stall_share"] is not None:
        yield "waiting for transfers", f"{percent_text(status['stall_share'])} of the time"
    for name, tier in status["tiers"].items():
        yield name, tier_text(tier)
    if status["wear_per_day"] is not None:
        yield "wear per day", f"{percent_text(status['wear_per_day'])} of the rated writes"


def _step_time(status):
    measured, ideal = status["step_seconds"], status["ideal_step_seconds"]
    value = f"<b>{seconds_text(measured)}</b>"
    if predicted := status["predicted_step_seconds"]:
        value += f", predicted {seconds_text(predicted)}"
    if ideal:
        share = percent_text(min(1, ideal / measured))
        value += f", ideal {seconds_text(ideal)} ({share} of ideal)"
    return value


def _bar(status):
    share = min(1, status["device_bytes"] / status["device_budget_bytes"])
    outer = f"display:inline-block;width:8rem;height:10px;background:{_GREY};margin-right:8px"
    inner = f"display:block;width:{100 * share:.0f}%;height:100%;background:{_BLUE}"
    return f'<span style="{outer}"><span style="{inner}"></span></span>'


def _history(status):
    """The memory's history as a picture: the full height is the budget."""
    budget_bytes, sizes_bytes = status["device_budget_bytes"], status["memory_bytes"]
    width = _CELL_WIDTH * HISTORY_CELLS
    steps = "".join(
        f"V{_HEIGHT * (1 - min(1, size_bytes / budget_bytes)):.0f}h{_CELL_WIDTH}"
        for size_bytes in sizes_bytes
    )
    style = f"display:block;margin-top:4px;border-top:1px dashed {_RED};background:{_GREY}"
    return (
        f'<svg role="img" aria-label="Device memory, up to the budget" style="{style}" '
        f'width="{width}" height="{_HEIGHT}">'
        f'<path d="M0 {_HEIGHT}{steps}V{_HEIGHT}z" fill="{_BLUE}"/></svg>'
    )
