"""The status line of a run: what it does now, beside the output of the script.

On a terminal, tqdm draws the line again and again. Elsewhere a line is printed to stderr
when the run comes into a phase for the first time, and then after 30 s, a minute, and so on, up to
every 10 minutes.
"""

import contextlib
import os
import sys
import time

from teraio.units import format_duration, format_size

_STDERR = 2
_INTERVAL_SECONDS, _INTERVAL_SECONDS_MAX = 30, 600
_SEPARATOR = " | "


def open_status_line():
    """Returns a `TerminalLine` if stderr is a terminal that allows it, else `PrintedLines`.

    Returns None if the process was started without stderr.
    """
    if sys.__stderr__ is None:
        return None
    is_terminal = os.isatty(_STDERR) and os.environ.get("TERM", "dumb") != "dumb"
    descriptor = os.dup(_STDERR)  # the program may redirect its stderr
    return TerminalLine(descriptor) if is_terminal else PrintedLines(descriptor)


class TerminalLine:
    """The status line in a terminal. One thread uses it at a time.

    The line takes the whole width, so that other output begins on a line of its own. While the
    program shows bars of tqdm, lines are printed above them instead.

    Args:
        descriptor: that of the terminal, which end() closes.
    """

    def __init__(self, descriptor):
        from tqdm.std import tqdm

        self._terminal = open(descriptor, "w")
        self._draw = tqdm.status_printer(self._terminal)
        self._is_drawn = False
        self._lines = PrintedLines(descriptor)

    def show(self, status):
        """Shows a state, as RunStatus.read() returns it."""
        with contextlib.suppress(OSError):
            if status["step"] == 0 or not self._is_in_foreground():
                return
            if _bars():
                self._remove()
                self._lines.show(status)
                return
            columns = os.get_terminal_size(self._terminal.fileno()).columns
            self._draw(fitting(parts(status), columns).ljust(columns))
            self._is_drawn = True

    def end(self):
        """Removes the line."""
        with contextlib.suppress(OSError):
            self._remove()
            self._terminal.close()

    def _remove(self):
        if self._is_drawn:
            self._is_drawn = False
            for text in ("", "\r"):
                self._draw(text)
            for bar in _bars():
                bar.refresh()

    def _is_in_foreground(self):
        try:
            return os.tcgetpgrp(self._terminal.fileno()) == os.getpgrp()
        except OSError:
            return True  # not the terminal that controls this process


class PrintedLines:
    """The status line in a file or pipe. One thread uses it at a time.

    Args:
        descriptor: that of the file, which end() closes.
        clock: a function that returns a time in seconds.
    """

    def __init__(self, descriptor, clock=time.monotonic):
        self._descriptor = descriptor
        self._clock = clock
        self._phases = set()
        self._interval = _INTERVAL_SECONDS
        self._due = 0

    def show(self, status):
        """Prints a state, as RunStatus.read() returns it, if it is due."""
        if status["step"] == 0 or not self._is_due(status["phase"], self._clock()):
            return
        line = f"teraio: {_SEPARATOR.join(parts(status))}"
        with contextlib.suppress(OSError):
            if _bars() and os.isatty(self._descriptor):
                sys.modules["tqdm"].tqdm.write(line, file=sys.__stderr__)
            else:  # One write: other threads cannot print into it.
                os.write(self._descriptor, f"{_end_of_open_bar()}{line}\n".encode())

    def end(self):
        """Prints no more."""
        os.close(self._descriptor)

    def _is_due(self, phase, now):
        if phase not in self._phases:
            self._phases.add(phase)
            self._interval = _INTERVAL_SECONDS
        elif now < self._due:
            return False
        else:
            self._interval = min(2 * self._interval, _INTERVAL_SECONDS_MAX)
        self._due = now + self._interval
        return True


def _end_of_open_bar():
    """Returns a line break if a progress bar of tqdm has left the cursor within a line."""
    return "\n" if _bars() else ""


def _bars():
    """Returns a list of the progress bars of tqdm that the program shows."""
    tqdm = sys.modules.get("tqdm")
    return list(getattr(getattr(tqdm, "tqdm", None), "_instances", ()))


def fitting(texts, width):
    """Returns a line of at most `width` characters: the texts that fit, the first ones first."""
    line = texts[0][:width]
    for text in texts[1:]:
        if len(line) + len(_SEPARATOR) + len(text) <= width:
            line += _SEPARATOR + text
    return line


def parts(status):
    """Returns the parts of the line for a state, the most important ones first."""
    return [
        f"{status['phase']}, step {status['step']}",
        *_step_time(status),
        f"memory {memory_text(status)}",
        *_share("stall", status["stall_share"]),
        *_share("MFU", status["flop_utilisation"]),
        *(f"{name} {tier_text(tier)}" for name, tier in status["tiers"].items()),
        *_share("wear per day", status["wear_per_day"]),
        *_plan(status["plan"]),
    ]


def memory_text(status):
    """Returns the device memory that is in use, of the budget: "11.8 GB of 12.0 GB"."""
    used, budget = (format_size(status[name]) for name in ("device_bytes", "device_budget_bytes"))
    return f"{used} of {budget}"


def _step_time(status):
    if status["step_seconds"] is None:
        return []
    expected = [
        f"{word} {seconds_text(status[f'{word}_step_seconds'])}"
        for word in ("predicted", "ideal")
        if status[f"{word}_step_seconds"]
    ]
    comparison = f" ({', '.join(expected)})" if expected else ""
    return [f"{seconds_text(status['step_seconds'])}/step{comparison}"]


def _plan(plan):
    if plan is None:
        return []
    text = f"plan of step {plan['from_step']}"
    if plan["is_found_by_search"]:
        gain, seconds = percent_text(plan["predicted_gain"]), seconds_text(plan["search_seconds"])
        return [f"{text}, {gain} faster, found in {seconds}"]
    if plan["is_kept"]:
        text = f"{text}, kept from an earlier search"
    return [f"{text}, searching for a better one" if plan["is_searching"] else text]


def seconds_text(seconds):
    """Returns a number of seconds as text with three significant digits: "3.21 s"."""
    return format_duration(round(seconds * 1e9))


def tier_text(tier):
    """Returns the rates of a tier: "read 1.20 GB/s of 3.40 GB/s, write ..."."""
    return f"read {rate_text(tier, 'read')}, write {rate_text(tier, 'write')}"


def rate_text(tier, direction):
    """Returns the rate of a tier in a direction, "read" or "write": "1.20 GB/s of 3.40 GB/s"."""
    text = f"{format_size(round(tier[f'{direction}_bytes_per_second']))}/s"
    limit = tier[f"{direction}_limit_bytes_per_second"]
    return f"{text} of {format_size(limit)}/s" if limit else text


def _share(name, share):
    return [] if share is None else [f"{name} {percent_text(share)}"]


def percent_text(share):
    """Returns a share as text with at most two significant digits below 100: "8 %", "0.31 %"."""
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"
