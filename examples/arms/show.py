"""Shows finished arms: the table, the verdict, and the picture of device memory."""

from pathlib import Path

from llama.atomic import replacing
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from .live import gigabytes
from .results import PLANNED, ArmSummary, Comparison

HEADINGS = ("step", "of ideal", "peak", "read", "written", "planned")


def table_of(comparison: Comparison) -> Table:
    table = Table(box=SIMPLE_HEAD)
    table.add_column("arm")
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    for arm in comparison.arms:
        table.add_row(*row_of(arm))
    return table


def row_of(arm: ArmSummary) -> tuple[str, ...]:
    return (
        title(arm),
        f"{arm.step_seconds:.2f} s",
        f"{arm.fraction_of_ideal:.1%}",
        gigabytes(arm.device_peak_bytes),
        gigabytes(arm.read_bytes_per_step),
        gigabytes(arm.written_bytes_per_step),
        "-" if arm.planned_steps is None else f"{arm.planned_steps} of {arm.measured_steps}",
    )


def title(arm: ArmSummary) -> str:
    return arm.name.replace("_", " ")


def show(console: Console, comparison: Comparison) -> None:
    """Prints the table, the bound, and the verdict on the bits."""
    console.print(table_of(comparison))
    for line in notes(comparison):
        console.print(line, highlight=False)


def newest(comparison: Comparison) -> str:
    """Returns a line about the arm that has finished last."""
    arm = comparison.arms[-1]
    line = f"{title(arm)}: {arm.step_seconds:.2f} s per step"
    return f"{line}, {arm.fraction_of_ideal:.1%} of ideal" if len(comparison.arms) > 1 else line


def notes(comparison: Comparison):
    """Yields the sentences under the table."""
    yield (
        "step: median seconds; peak: device memory; read, written: SSD bytes per step; "
        "planned: measured steps that followed the plan"
    )
    natural, budget = comparison.natural_peak_bytes, comparison.device_budget_bytes
    yield (
        f"The training needs {gigabytes(natural)}. Its device budget was {gigabytes(budget)}, "
        f"{natural / budget:.1f} times less."
    )
    for arm in comparison.arms:
        if arm.planned_steps is not None:
            yield f"Stall per step, {title(arm)}: {stalls(arm)}"
    yield from bound(comparison)
    for difference in comparison.differences:
        yield f"[bold red]NOT EQUAL:[/] {difference}"
    if not comparison.differences and len(comparison.arms) > 1:
        yield (
            "[bold green]Bit-identical:[/] every loss, the final parameters and the optimizer "
            "state are the same in all arms."
        )


def stalls(arm: ArmSummary) -> str:
    causes = sorted(arm.stall_by_cause_seconds.items(), key=lambda cause: -cause[1])
    shown = [f"{cause} {seconds:.2f} s" for cause, seconds in causes if seconds >= 0.005]
    return ", ".join(shown) or "none"


def bound(comparison: Comparison):
    planned = next((arm for arm in comparison.arms if arm.name == PLANNED), None)
    if planned and comparison.bound_fraction is not None:
        yield f"Bound by compute and this machine's drive: {comparison.bound_fraction:.1%} of ideal"
    if planned and comparison.predicted_step_seconds is not None:
        yield (
            f"Predicted step, planned: {comparison.predicted_step_seconds:.2f} s; "
            f"measured: {planned.step_seconds:.2f} s"
        )


def draw_memory(path: Path, natural: dict, planned: dict, budget_bytes: int) -> None:
    """Writes a PNG of device memory over a step, without a limit and under the plan.

    `natural` and `planned` are the counters of two sessions, whose `memory_timeline` is a list of
    (seconds, bytes).
    """
    from teraio_figures import style

    figure, ((axes,),) = style.grid(1, 1, width=9, height=4.5)
    for session, label, color in (
        (natural, "unlimited", style.GREY),
        (planned, "planned", style.BLUE),
    ):
        timeline = session.get("memory_timeline") or []
        seconds = [at - timeline[0][0] for at, _ in timeline]
        used = [size_bytes / 1e9 for _, size_bytes in timeline]
        axes.step(seconds, used, where="post", label=label, color=color, linewidth=1)
        axes.fill_between(seconds, used, step="post", alpha=0.2, color=color)
    axes.axhline(budget_bytes / 1e9, color=style.RED, linestyle="--", label="device budget")
    axes.set(xlabel="seconds into the step", ylabel="device memory (GB)", ylim=(0, None))
    axes.set_title("Device memory over one training step")
    axes.legend(loc="upper right")
    with replacing(path) as partial:
        figure.savefig(partial, format="png")
