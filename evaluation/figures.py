"""The figures of the document.

Each function takes the results of tasks.results_of and returns a figure of matplotlib. The names of
FIGURES are those of the files; numbers are those of the paper's figures.
"""

from evaluation import cases
from evaluation.tables import DRIVE_SYSTEMS, by_host, name_of, parts_of
from teraio_figures import characterization, style

SYSTEM_COLORS = {
    "algorithm1-ssd": style.BLUE,
    "ours-ssd": style.GREEN,
    "algorithm1-mixed": style.VIOLET,
    "ours-mixed": style.OCHRE,
    "ours-replay-ssd": style.TEAL,
    "ours-replay-mixed": style.BROWN,
    "zero-offload": style.ORANGE,
    "zero-infinity": style.RED,
    "zero-infinity-ssd": style.PINK,
    "on-demand": style.GREY,
}


def draw(name, results, folder):
    """Writes the figure as NAME.svg and NAME.png into the folder."""
    style.save(FIGURES[name](results), folder, name)


def memory(results):
    """Figure 1: all bytes and active bytes per op, a panel per trace."""
    stages = [case for case in cases.STAGES if case.key in results]
    return characterization.memory(traces_of(results, [*cases.of(results), *stages]))


def periods(results):
    """Figure 2: inactive periods by size, length and kind, a row per model."""
    return characterization.periods(traces_of(results, cases.of(results)))


def traces_of(results, found):
    """Returns the characterized traces of the cases, with the titles of the cases."""
    return [
        results[case.key]["characterization"]["traces"][0] | {"name": case.title} for case in found
    ]


def bandwidth(results):
    """Figure 3: fraction of ideal against bandwidth: the bound, and the result of our planner."""
    figure, ((axes,),) = style.grid(1, 1, width=6, height=3.4)
    found = cases.having(results, "bandwidth")
    traces = traces_of(results, found)
    for case, trace, color in zip(found, traces, style.LINES, strict=False):
        label = f"{case.model}: no plan exceeds"
        characterization.draw_roofline(axes, trace, color, label=label)
        draw_plans(axes, results[case.key]["bandwidth"], color, f"{case.model}: our plan")
    characterization.finish_roofline(axes)
    axes.set_ylabel("of ideal, predicted")
    return figure


def draw_plans(axes, tables, color, label):
    settings = [setting for setting in tables["sweeps"][0]["settings"] if setting["fits"]]
    axes.plot(
        [setting["setting"]["bandwidth"] / 1e9 for setting in settings],
        [setting["fraction_of_ideal"] for setting in settings],
        color=color,
        linestyle="--",
        label=label,
    )


def panel_per_case(found, height, **options):
    """Makes a figure with three panels in a row; returns it, and (panel, case) for each case."""
    columns = min(3, len(found))
    rows = -(-len(found) // columns)
    figure, panels = style.grid(rows, columns, width=3.6, height=height, **options)
    flat = [axes for row in panels for axes in row]
    for axes in flat[len(found) :]:
        axes.set_visible(False)
    return figure, list(zip(flat, found, strict=False))


def throughput(results):
    """Figure 7: tokens per second of each system, a panel per model."""
    figure, panels = panel_per_case(cases.of(results), height=3.2)
    for axes, case in panels:
        draw_throughput(axes, case, results[case.key]["systems"])
        axes.set_title(f"{case.model}\n{case.batch}")
        label_systems(axes, margin=0.12)
    panels[0][0].set_ylabel("tokens per second of both GPUs, predicted")
    return figure


def draw_throughput(axes, case, systems):
    ideal_s = next(run["ideal_ns"] for run in systems.values() if "ideal_ns" in run) / 1e9
    axes.axhline(case.tokens_per_step / ideal_s, color="black", linewidth=0.9, linestyle="--")
    for place, system in enumerate(cases.SYSTEMS_OF_FIGURES):
        run = systems[system.key]
        if "refused" in run:
            note_that_it_does_not_fit(axes, place)
            continue
        value = case.tokens_per_step / (run["step_ns"] / 1e9)
        axes.bar(place, value, color=SYSTEM_COLORS[system.key])
        share = f"{100 * run['fraction_of_ideal']:.0f} %"
        axes.annotate(share, (place, value), ha="center", va="bottom", fontsize=6)


def label_systems(axes, margin):
    """Labels the bars of a panel that has one per system."""
    keys = [system.key for system in cases.SYSTEMS_OF_FIGURES]
    axes.set_xticks(range(len(keys)), keys, rotation=60, ha="right")
    axes.grid(axis="x", visible=False)
    axes.margins(y=margin)


def note_that_it_does_not_fit(axes, place):
    axes.annotate("does not fit", (place, 0), rotation=90, ha="center", va="bottom")


def of_ideal_by_step(results):
    """Figure 7 again: fraction of ideal against the batch and against the length of sequences."""
    found = [case for case in cases.of(results) if case.key in cases.BATCHES]
    figure, panels = style.grid(len(found), 2, width=4.6, height=2.3, sharey=True)
    for row, case in zip(panels, found, strict=True):
        draw_steps(row[0], results, cases.BATCHES[case.key], "sequences")
        draw_steps(row[1], results, cases.SEQUENCES[case.key], "sequence_length")
        for axes in row:
            axes.set_title(case.model)
        row[0].set_ylabel("of ideal, predicted")
    panels[-1][0].set_xlabel("sequences of a step")
    panels[-1][1].set_xlabel("tokens of a sequence")
    panels[0][0].legend(loc="lower left", ncols=2)
    return figure


def draw_steps(axes, results, steps, quantity):
    """Draws a line per system over the steps; `quantity` is an attribute of cases."""
    steps = [case for case in steps if case.key in results]
    for system in cases.SYSTEMS_OF_SETTINGS:
        runs = {getattr(c, quantity): results[c.key]["systems"][system.key] for c in steps}
        fits = {at: run["fraction_of_ideal"] for at, run in runs.items() if "refused" not in run}
        color = SYSTEM_COLORS[system.key]
        style.points(axes, list(fits), list(fits.values()), color, label=system.key)
    style.powers_of_two(axes, [getattr(case, quantity) for case in steps])
    axes.set_ylim(0, 1.05)


def split(results):
    """Figure 8: seconds of a step: compute alone, compute that overlaps transfers, and stalls."""
    figure, panels = panel_per_case(cases.of(results), height=3.2)
    for axes, case in panels:
        for place, system in enumerate(cases.SYSTEMS_OF_FIGURES):
            draw_split(axes, place, results[case.key]["systems"][system.key])
        axes.set_title(case.model)
        label_systems(axes, margin=0.2)
    first = panels[0][0]
    first.set_ylabel("seconds of a step, predicted")
    handles, labels = first.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    first.legend(unique.values(), unique.keys(), loc="upper left")
    return figure


def draw_split(axes, place, run):
    if "refused" in run:
        note_that_it_does_not_fit(axes, place)
        return
    bottom = 0.0
    colors = [style.GREEN, style.BLUE, style.RED]
    for (label, seconds), color in zip(parts_of(run).items(), colors, strict=True):
        axes.bar(place, seconds, bottom=bottom, color=color, label=label)
        bottom += seconds


def drives_and_host(results):
    """Figure 9: fraction of ideal against drives per GPU, a line per size of host memory."""
    figure, panels = panel_per_case(cases.having(results, "grid"), height=2.8, sharey=True)
    for axes, case in panels:
        groups = by_host(results[case.key]["grid"])
        for (host, settings), color in zip(groups.items(), style.LINES, strict=False):
            fits = [setting for setting in settings if setting["fits"]]
            drives = [setting["setting"]["drives"] for setting in fits]
            shares = [setting["fraction_of_ideal"] for setting in fits]
            style.points(axes, drives, shares, color, label=f"{host / 1e9:g} GB")
        axes.set_title(case.model)
        axes.set_xticks([1, 2, 4])
        axes.set_xlabel("drives per GPU")
        axes.set_ylim(0, 1.05)
    panels[0][0].set_ylabel("of ideal, predicted")
    panels[-1][0].legend(title="host memory per GPU", loc="lower right", title_fontsize=7)
    return figure


def ssd_bandwidth(results):
    """Figure 10: bandwidth of the drives over a step, a row per model, a column per system."""
    found = cases.of(results)
    figure, panels = style.grid(len(found), len(DRIVE_SYSTEMS), width=3.6, height=1.7)
    for row, case in zip(panels, found, strict=True):
        for axes, key in zip(row, DRIVE_SYSTEMS, strict=True):
            draw_ssd_bandwidth(axes, results[case.key]["systems"][key])
            axes.set_title(f"{case.model}: {name_of(key)}", fontsize=7)
        row[0].set_ylabel("GB/s")
    panels[0][0].legend(loc="upper right")
    for axes in panels[-1]:
        axes.set_xlabel("seconds of a step")
    return figure


def draw_ssd_bandwidth(axes, run):
    if "refused" in run:
        axes.annotate("does not fit", (0.5, 0.5), xycoords="axes fraction", ha="center")
        return
    reads, writes = run["ssd_read_rates"], run["ssd_write_rates"]
    step_s = run["step_ns"] / 1e9
    axes.stackplot(
        [(index + 0.5) * step_s / len(reads) for index in range(len(reads))],
        [rate / 1e9 for rate in reads],
        [rate / 1e9 for rate in writes],
        colors=[style.GREEN, style.ORANGE],
        labels=["read", "written"],
    )
    axes.set_xlim(0, step_s)
    axes.set_ylim(0, 33)


FIGURES = {
    "figure-1": memory,
    "figure-2": periods,
    "figure-3": bandwidth,
    "figure-7": throughput,
    "figure-7-steps": of_ideal_by_step,
    "figure-8": split,
    "figure-9": drives_and_host,
    "figure-10": ssd_bandwidth,
}
