"""`teraio top`: watches the running jobs of a user on a machine, from another terminal."""

import argparse
import os
import sys
import time
from pathlib import Path

from teraio.commands.arguments import CommandParser
from teraio.errors import Error
from teraio.watch.status_file import read_jobs, remove_old_files
from teraio.watch.status_line import memory_text, percent_text, rate_text, seconds_text

_PERIOD_SECONDS = 1
_FILE_WIDTH = 250  # columns
_WIDE = 140
_WIDE_CELLS, _NARROW_CELLS = 40, 14
_EPILOG = """\
Shows every process that trains under TERAIO, with a row for each rank of a job. Ctrl-C ends it.
A process that has died without ending its session is shown as dead for an hour.
"""


def command_parser():
    parser = CommandParser(
        "top",
        description="Watches the running jobs of this user on this machine.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "job",
        nargs="?",
        metavar="PID | DIR",
        help="only the job with this process or launcher, or those that were started in this "
        "directory or report to it",
    )
    parser.add_argument("--once", action="store_true", help="print one snapshot and end")
    return parser


def top(arguments):
    """Executes `teraio top` and returns its exit code.

    Args:
        arguments: the words of the command line after `top`.
    """
    parser = command_parser()
    options = parser.parse_args(arguments)
    try:
        is_wanted = _selection(options.job)
        remove_old_files()
        return _print_once(is_wanted) if options.once else _watch(is_wanted)
    except Error as error:
        return parser.failure(error, 2)


def _selection(word):
    """Returns a function that tells whether a job is one of those that `word` names.

    Raises:
        teraio.Error: `word` is neither the number of a process nor a directory.
    """
    if word is None:
        return lambda job: True
    if word.isdecimal():
        return lambda job: int(word) in (job["process"], job["parent"])
    if not Path(word).is_dir():
        raise Error(f"{word} is neither the number of a process nor a directory")
    directory = str(Path(word).resolve())
    return lambda job: directory in (job["directory"], job["report"])


def _print_once(is_wanted):
    from rich.console import Console

    jobs = _jobs(is_wanted)
    console = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else _FILE_WIDTH)
    console.print(_screen(jobs, console))
    return 0 if jobs else 1


def _watch(is_wanted):
    from rich.console import Console
    from rich.live import Live

    console = Console()
    try:
        with Live(console=console, screen=console.is_terminal, auto_refresh=False) as live:
            while True:
                live.update(_screen(_jobs(is_wanted), console), refresh=True)
                time.sleep(_PERIOD_SECONDS)
    except KeyboardInterrupt:
        return 0


def _jobs(is_wanted):
    """Returns the wanted jobs: the ranks of a launcher together, in their order."""
    jobs = [job for job in read_jobs() if is_wanted(job)]
    return sorted(jobs, key=lambda job: (job["parent"], job["local_rank"], job["process"]))


def _screen(jobs, console):
    """Returns what shows the jobs: a table of the most important columns that fit."""
    from rich.text import Text

    if not jobs:
        return Text("No job runs under TERAIO here.")
    columns = _columns(jobs, is_wide=console.width >= _WIDE, can_draw=_can_draw(console))
    for count in range(len(columns), 0, -1):
        table = _table(jobs, columns[:count])
        if console.measure(table, options=console.options.update(width=1000)).maximum <= (
            console.width
        ):
            break
    return table


def _table(jobs, columns):
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name, _ in columns:
        table.add_column(name, no_wrap=True)
    for job in jobs:
        cells = [Text(cell_of(job)) for _, cell_of in columns]
        table.add_row(*cells, style="red" if job["is_dead"] else "")
    return table


def _columns(jobs, is_wide, can_draw):
    """Returns pairs of a column's name and a function from a job to its cell."""
    cells = _WIDE_CELLS if is_wide else _NARROW_CELLS

    def history(job):
        return sparkline(job["memory_bytes"][-cells:], job["device_budget_bytes"], can_draw)

    def rank(job):
        return f"{job['local_rank']}/{job['local_world_size']}"

    has_ranks = any(job["local_world_size"] > 1 for job in jobs)
    return [
        ("process", lambda job: str(job["process"])),
        *([("rank", rank)] if has_ranks else []),
        ("program", lambda job: os.path.basename(job["command"][0]) if job["command"] else ""),
        ("phase", _phase),
        ("step", lambda job: str(job["step"])),
        ("time/step", _time("step_seconds")),
        ("memory", memory_text),
        ("history", history),
        ("stall", _share("stall_share")),
        ("predicted", _time("predicted_step_seconds")),
        ("ideal", _time("ideal_step_seconds")),
        *_rate_columns(jobs),
        ("wear/day", _share("wear_per_day")),
    ]


def _rate_columns(jobs):
    tiers = sorted({tier for job in jobs for tier in job["tiers"]}, reverse=True)  # ssd first
    for tier in tiers:
        for direction in ("read", "write"):
            yield f"{tier} {direction}", _rate(tier, direction)


def _rate(tier, direction):
    return lambda job: rate_text(job["tiers"][tier], direction) if tier in job["tiers"] else "-"


def _time(name):
    return lambda job: "-" if job[name] is None else seconds_text(job[name])


def _share(name):
    return lambda job: "-" if job[name] is None else percent_text(job[name])


def _phase(job):
    if not job["is_dead"]:
        return job["phase"]
    return f"dead since {time.strftime('%H:%M:%S', time.localtime(job['time']))}"


def _can_draw(console):
    return console.encoding.lower().startswith("utf")


def sparkline(sizes_bytes, budget_bytes, can_draw):
    """Returns a character per size, whose height is the part of the budget that the size takes."""
    levels = "▁▂▃▄▅▆▇█" if can_draw else "_.-=+*%#"
    top_level = len(levels) - 1
    return "".join(
        levels[min(top_level, round(top_level * size_bytes / budget_bytes))]
        for size_bytes in sizes_bytes
    )
