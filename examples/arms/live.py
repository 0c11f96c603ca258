"""Shows an arm while it runs: loss, step time, device memory, SSD rates, time left."""

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from .arm import Moment


def gigabytes(size_bytes: float) -> str:
    """Formats a size in GB, or in MB below 0.1 GB, so that tiny models do not show zeros."""
    return f"{size_bytes / 1e9:.2f} GB" if size_bytes >= 1e8 else f"{size_bytes / 1e6:.1f} MB"


class LiveArm:
    """Shows one arm: a progress bar on a terminal, else a line per step."""

    COLUMNS = (
        TextColumn("{task.description:<10}"),
        BarColumn(bar_width=24),
        TextColumn("step {task.completed} of {task.total}, left"),
        TimeRemainingColumn(compact=True),
    )

    def __init__(self, console: Console, name: str, steps: int):
        self.console, self.name, self.steps = console, name, steps
        self.bar = Progress(*self.COLUMNS)
        self.task = self.bar.add_task(name, total=steps)
        self.state = "starting"
        self.live = Live(console=console, get_renderable=self._picture)
        self.shown_step = 0

    def __enter__(self):
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *failure):
        if self.console.is_terminal:
            self.live.stop()

    def __call__(self, moment: Moment) -> None:
        self.state = describe(moment)
        self.bar.update(self.task, completed=moment.step)
        if not self.console.is_terminal and moment.step > self.shown_step:
            left = moment.elapsed_seconds / moment.step * (self.steps - moment.step)
            head = f"{self.name:<10} {moment.step}/{self.steps}"
            self.console.print(f"{head}  {self.state}, {left:.0f} s left", highlight=False)
            self.shown_step = moment.step

    def _picture(self) -> Group:
        return Group(self.bar, Text("  " + self.state))


def describe(moment: Moment) -> str:
    """Returns one line: loss, step time, and the memory and traffic of the session, if any."""
    parts = []
    if moment.loss is not None:
        parts += [f"loss {moment.loss:.4f}", f"step {moment.step_seconds:.2f} s"]
    if moment.device_bytes is not None:
        parts.append(f"device {gigabytes(moment.device_bytes)}")
        read, written = moment.ssd_bytes_read_per_second, moment.ssd_bytes_written_per_second
        parts.append(f"SSD read {read / 1e9:.2f}, write {written / 1e9:.2f} GB/s")
    if moment.phase:
        parts.append(moment.phase)
    return ", ".join(parts) or "starting"
