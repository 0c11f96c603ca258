"""The figures of the document, each of several cases."""

from evaluation import cases
from evaluation.tables import DRIVE_SYSTEMS, by_host, name_of, parts_of
from teraio_figures import characterization, style

SYSTEM_COLORS = {
    "algorithm1-ssd": style.BLUE,
    "ours-ssd": style.GREEN,
    "algorithm1-mixed": style.VIOLET,
    "ours-mixed": style.OCHRE,
    "zero-offload": style.ORANGE,
    "zero-infinity": style.RED,
    "zero-infinity-ssd": style.PINK,
    "on-demand": style.GREY,
}


def draw(name, results, folder):
    """Writes the figure of FIGURES as NAME.svg and NAME.png into the folder."""
    style.save(FIGURES[name](results), folder, name)


def memory(results):
    """Figure 1: all bytes and active bytes per op, a panel per trace."""
    found = [*cases.of(results), *(case for case in cases.STAGES if case.key in results)]
    return characterization.memory(traces_of(results, found))


def periods(results):
    """Figure 2: inactive periods by size, time and kind, a row per model."""
    return characterization.periods(traces_of(results, cases.of(results)))


def traces_of(results, found):
    """The characterized traces of the cases, under the cases' titles."""
    return [
        results[case.key]["characterization"]["traces"][0] | {"name": case.title} for case in found
    ]


def bandwidth(results):
    """Figure 3: the bound, and what our planner reaches with drives that fast."""
    traces = traces_of(results, cases.of(results))
    figure, ((axes,),) = style.grid(1, 1, width=6, height=3.4)
    for case, trace, color in zip(cases.of(results), traces, style.LINES, strict=False):
        name = case.model
        characterization.draw_roofline(axes, trace, color, label=f"{name}: no plan exceeds")
        settings = [
            setting
            for setting in results[case.key]["bandwidth"]["sweeps"][0]["settings"]
            if setting["fits"]
        ]
        axes.plot(
            [setting["setting"]["bandwidth"] / 1e9 for setting in settings],
            [setting["fraction_of_ideal"] for setting in settings],
            color=color,
            linestyle="--",
            label=f"{name}: our plan",
        )
    characterization.finish_roofline(axes)
    axes.set_ylabel("of ideal, predicted")
    return figure


def panel_per_case(results, height, **options):
    """A figure with three panels in a row, and (panel, case) for each case."""
    found = cases.of(results)
    columns = min(3, len(found))
    rows = -(-len(found) // columns)
    figure, panels = style.grid(rows, columns, width=3.6, height=height, **options)
    flat = [axes for row in panels for axes in row]
    for axes in flat[len(found) :]:
        axes.set_visible(False)
    return figure, list(zip(flat, found, strict=False))


def throughput(results):
    """Figure 7: tokens per second of each system, one panel per model."""
    figure, panels = panel_per_case(results, height=3.2)
    for axes, case in panels:
        systems = results[case.key]["systems"]
        draw_throughput(axes, case, systems)
        axes.set_title(f"{case.model}\n{case.batch}")
    panels[0][0].set_ylabel("tokens per second of both GPUs, predicted")
    return figure


def draw_throughput(axes, case, systems):
    ideal_s = next(run["ideal_ns"] for run in systems.values() if "ideal_ns" in run) / 1e9
    axes.axhline(case.tokens_per_step / ideal_s, color="black", linewidth=0.9, linestyle="--")
    for place, system in enumerate(cases.SYSTEMS):
        run = systems[system.key]
        if "refused" in run:
            axes.annotate("does not fit", (place, 0), rotation=90, ha="center", va="bottom")
            continue
        value = case.tokens_per_step / (run["step_ns"] / 1e9)
        axes.bar(place, value, color=SYSTEM_COLORS[system.key])
        share = f"{100 * run['fraction_of_ideal']:.0f} %"
        axes.annotate(share, (place, value), ha="center", va="bottom", fontsize=6)
    axes.set_xticks(
        range(len(cases.SYSTEMS)), [system.key for system in cases.SYSTEMS], rotation=60, ha="right"
    )
    axes.grid(axis="x", visible=False)
    axes.margins(y=0.12)


def of_ideal_by_step(results):
    """Figure 7 again: of ideal against the batch and against the length of sequences."""
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
    steps = [case for case in steps if case.key in results]
    for system in cases.SYSTEMS_OF_SETTINGS:
        runs = [(getattr(c, quantity), results[c.key]["systems"][system.key]) for c in steps]
        fits = [(at, run["fraction_of_ideal"]) for at, run in runs if "refused" not in run]
        color = SYSTEM_COLORS[system.key]
        axes.plot(
            [at for at, _ in fits],
            [of for _, of in fits],
            marker="o",
            markersize=3,
            color=color,
            label=system.key,
        )
    axes.set_xscale("log", base=2)
    values = [getattr(case, quantity) for case in steps]
    axes.set_xticks(values, [f"{value:,}" for value in values])
    axes.set_ylim(0, 1.05)


def split(results):
    """Figure 8: a step's time, stalled, computing beside transfers, computing alone."""
    figure, panels = panel_per_case(results, height=3.2)
    for axes, case in panels:
        for place, system in enumerate(cases.SYSTEMS):
            draw_split(axes, place, results[case.key]["systems"][system.key])
        axes.set_title(case.model)
        axes.set_xticks(
            range(len(cases.SYSTEMS)), [s.key for s in cases.SYSTEMS], rotation=60, ha="right"
        )
        axes.grid(axis="x", visible=False)
        axes.margins(y=0.2)
    first = panels[0][0]
    first.set_ylabel("seconds of a step, predicted")
    handles, labels = first.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    first.legend(unique.values(), unique.keys(), loc="upper left")
    return figure


def draw_split(axes, place, run):
    if "refused" in run:
        axes.annotate("does not fit", (place, 0), rotation=90, ha="center", va="bottom")
        return
    bottom = 0.0
    colors = [style.GREEN, style.BLUE, style.RED]
    for (label, seconds), color in zip(parts_of(run).items(), colors, strict=True):
        axes.bar(place, seconds, bottom=bottom, color=color, label=label)
        bottom += seconds


def drives_and_host(results):
    """Figure 9: of ideal against drives per GPU, a line per size of host memory."""
    figure, panels = panel_per_case(results, height=2.8, sharey=True)
    for axes, case in panels:
        for (host, settings), color in zip(
            by_host(results[case.key]["grid"]).items(), style.LINES, strict=False
        ):
            fits = [setting for setting in settings if setting["fits"]]
            axes.plot(
                [setting["setting"]["drives"] for setting in fits],
                [setting["fraction_of_ideal"] for setting in fits],
                marker="o",
                markersize=3,
                color=color,
                label=f"{host / 1e9:g} GB",
            )
        axes.set_title(case.model)
        axes.set_xticks([1, 2, 3, 4])
        axes.set_xlabel("drives per GPU")
        axes.set_ylim(0, 1.05)
    panels[0][0].set_ylabel("of ideal, predicted")
    panels[-1][0].legend(title="host memory per GPU", loc="lower right", title_fontsize=7)
    return figure


def ssd_bandwidth(results):
    """Figure 10: what the drives move over a step: a row per model, a column per system."""
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
    times = [(index + 0.5) * step_s / len(reads) for index in range(len(reads))]
    axes.stackplot(
        times,
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
