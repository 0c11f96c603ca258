"""The figures of the page."""

from evaluation.scaling import cases
from teraio_figures import style

save = style.save


def drawn(steps, late):
    """Returns the figures by name, given the steps by Case.key and the lateness by delay."""
    return {"network": network(steps), "late-reads": late_reads(late)}


def network(steps):
    """Speed relative to compute alone, against the network, a line per layout and drives."""
    figure, ((axes,),) = style.grid(1, 1, width=6, height=3.2)
    for line, color in zip(cases.NETWORK_LINES, style.LINES, strict=False):
        layout, drives = line
        of_line = [steps[cases.networked(*line, rate).key] for rate in cases.NETWORKS_GIGABITS]
        label = f"{layout.model}, {layout.states}, {drives} drives"
        shares = [step["compute_ns"] / step["step_ns"] for step in of_line]
        style.points(axes, cases.NETWORKS_GIGABITS, shares, color, label=label)
    axes.set_xscale("log")
    axes.set_xticks(cases.NETWORKS_GIGABITS, [f"{rate:,}" for rate in cases.NETWORKS_GIGABITS])
    axes.minorticks_off()
    axes.set_xlabel("network of a node, Gb/s each way")
    axes.set_ylabel("of the speed of compute alone, predicted")
    axes.set_ylim(0, 1.05)
    axes.legend()
    return figure


def late_reads(late):
    """Seconds that late reads add to a step, against the number of ranks, a line per delay."""
    figure, ((axes,),) = style.grid(1, 1, width=6, height=3.2)
    for (name, lateness), color in zip(late.items(), style.LINES, strict=False):
        added_s = [late_ns / 1e9 for late_ns in lateness]
        style.points(axes, cases.LATE_RANKS, added_s, color, label=f"late by {name}")
    style.powers_of_two(axes, cases.LATE_RANKS)
    axes.set_yscale("log")
    axes.set_xlabel("ranks")
    axes.set_ylabel("s added to a step, predicted")
    axes.legend()
    return figure
