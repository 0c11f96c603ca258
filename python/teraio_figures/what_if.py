"""Figures of `teraio what-if`: one per sweep, with speed, bytes written, drive life and cost.

A sweep is an entry of `sweeps` in the tables that `teraio what-if --out` writes, and a setting an
entry of its `settings` (docs/planning.md).
"""

from teraio_figures import style

# The name of a quantity on an axis, and the number that divides its values.
AXES = {
    "drives": ("drives per device", 1),
    "host": ("host memory per device, GB", 1e9),
    "bandwidth": ("what all drives of a device read, GB/s", 1e9),
    "device": ("device memory, GB", 1e9),
    "writes": ("write budget per step, GB", 1e9),
}


def draw(tables, folder):
    """Writes what-if-QUANTITIES as SVG and PNG for each sweep that has settings."""
    for sweep in tables["sweeps"]:
        if not sweep["settings"]:
            continue
        name = "what-if-" + "-".join(sweep["quantities"])
        style.save(figure_of(sweep, tables), folder, name)


def figure_of(sweep, tables):
    rows = [draw_speed, draw_writes]
    cost = cost_measure(sweep, tables)
    if cost:
        rows.append(lambda *given: draw_cost(*given, *cost))
    figure, panels = style.grid(len(rows), 1, width=5.5, height=1.9, sharex=True)
    for (axes,), draw_row in zip(panels, rows, strict=True):
        for line in lines_of(sweep):
            draw_row(axes, line)
    title = f"{style.short(tables['trace'])}\non {tables['hardware']}, predicted"
    panels[0][0].set_title(title)
    finish(panels, sweep)
    return figure


class Line:
    """Settings that differ in the first quantity alone.

    `all` and `fits` are pairs (value of the first quantity, setting); `fits` has those that a plan
    exists for.
    """

    def __init__(self, label, color, settings, quantity):
        self.label = label
        self.color = color
        scale = AXES[quantity][1]
        self.all = [(s["setting"][quantity] / scale, s) for s in settings]
        self.fits = [(at, s) for at, s in self.all if s["fits"]]

    def plot(self, axes, value):
        """Draws value(setting) where it is not None, with a star at the cheapest settings."""
        known = [(at, value(s)) for at, s in self.fits if value(s) is not None]
        places, values = [at for at, _ in known], [v for _, v in known]
        style.points(axes, places, values, self.color, label=self.label)
        for at, setting in self.fits:
            if setting["cheapest_within_5_percent"] and value(setting) is not None:
                axes.plot([at], [value(setting)], marker="*", markersize=11, color=style.RED)


def lines_of(sweep):
    """The lines of a sweep: one, or in a grid one per combination of the other quantities."""
    first, *others = sweep["quantities"]
    groups = {}
    for setting in sweep["settings"]:
        rest = tuple(setting["setting"][name] for name in others)
        groups.setdefault(rest, []).append(setting)
    for index, (rest, settings) in enumerate(groups.items()):
        named = zip(others, rest, strict=True)
        label = ", ".join(f"{AXES[name][0]}: {value / AXES[name][1]:g}" for name, value in named)
        yield Line(label, style.LINES[index % len(style.LINES)], settings, first)


def draw_speed(axes, line):
    line.plot(axes, lambda s: s["fraction_of_ideal"])
    for at, setting in line.all:
        if not setting["fits"]:
            axes.plot([at], [0.02], marker="x", color=style.GREY, clip_on=False)
            axes.annotate(
                "not possible", (at, 0.06), rotation=90, ha="center", color=style.GREY, fontsize=6
            )
    axes.set_ylim(0, 1.05)
    axes.set_ylabel("of ideal")


def draw_writes(axes, line):
    line.plot(axes, lambda s: s["ssd_bytes_written"] / 1e9)
    for at, setting in line.fits:
        if "drive_life_years" in setting:
            text = life_text(setting["drive_life_years"])
            written = setting["ssd_bytes_written"] / 1e9
            axes.annotate(
                text,
                (at, written),
                xytext=(0, 4),
                textcoords="offset points",
                ha="center",
                fontsize=6,
            )
    most = max((s["ssd_bytes_written"] / 1e9 for _, s in line.fits), default=0)
    axes.set_ylim(0, max(axes.get_ylim()[1], 1.3 * most))
    axes.set_ylabel("written per step, GB\n(and drives last)")


def life_text(years):
    if years < 0.1:
        return f"{365.25 * years:.2g} days"
    return f"{years:.2g} years" if years < 10 else f"{years:.0f} years"


def cost_measure(sweep, tables):
    """The key of the cost that settings have, and its name on an axis; None without prices."""
    if "prices" not in tables:
        return None
    currency = tables["prices"]["currency"]
    for key, name in [
        ("cost_per_million_tokens", f"{currency} per\nmillion tokens"),
        ("price", f"price of the\nserver, {currency}"),
    ]:
        if any(key in setting for setting in sweep["settings"]):
            return key, name
    return None


def draw_cost(axes, line, key, name):
    line.plot(axes, lambda s: s.get(key))
    axes.set_ylabel(name)


def finish(panels, sweep):
    bottom = panels[-1][0]
    bottom.set_xlabel(AXES[sweep["quantities"][0]][0])
    if len(sweep["quantities"]) > 1:
        panels[0][0].legend(loc="lower right")
    if any(s.get("cheapest_within_5_percent") for s in sweep["settings"]):
        panels[0][0].plot(
            [], [], "*", color=style.RED, markersize=8, label="cheapest within 5 % of the best"
        )
        panels[0][0].legend(loc="lower right")
