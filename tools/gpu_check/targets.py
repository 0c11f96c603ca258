"""Makes rows from the records of arms, peers and copies: a figure beside its target.

A row is a dict with `name`, `value`, `reference`, `ratio` and `met`. `reference` is the target;
`met` says whether the figure meets it, and is None without a verdict. `note` is optional.
"""

from statistics import median

FRACTION_TARGET = 0.95
OF_BOUND_TARGET = 0.97
IDLE_COST_MAX = 0.01
PEER_TARGET = 2.0
RATE_TARGET = 0.95
TAKEN_MAX = 1.03  # of the budget; libraries load code beside it
DRIFT_MAX = 0.10  # of stock PyTorch between its two runs; above it, times have no verdict


def row(name, value, reference, met, note=""):
    ratio = None if value is None else value / reference
    result = {"name": name, "value": value, "reference": reference, "ratio": ratio, "met": met}
    return result | ({"note": note} if note else {})


class Arms:
    """The records of one job in one precision, from all of its measurements."""

    def __init__(self, title, records):
        self.title = title
        self.by_name = {}
        for record in records:
            if record["outcome"] == "done":
                self.by_name.setdefault(record["arm"], []).append(record)

    def seconds(self, arm):
        """Returns the median over all measured steps; None when the arm was not measured."""
        records = self.by_name.get(arm, [])
        times = [seconds for record in records for seconds in record["measured_seconds"]]
        return median(times) if times else None

    def ideal_seconds(self):
        known = [t for t in (self.seconds("stock"), self.seconds("ample")) if t is not None]
        return min(known) if known else None

    def drift(self):
        first, again = self.seconds("stock"), self.seconds("stock-again")
        return max(first, again) / min(first, again) - 1 if first and again else 0.0

    def budgeted(self):
        """Returns the names of the arms under a budget, in the order of their first measurement."""
        return [name for name in self.by_name if name.partition("-")[0] in ("host", "ssd", "both")]


def training_rows(arms):
    if arms.seconds("stock") is None:
        return []
    rows = [fraction_row(arms, name) for name in arms.budgeted() if "-at-" not in name]
    if arms.seconds("ample"):
        cost = arms.seconds("ample") / arms.seconds("stock")
        name = f"{arms.title}, budget >= peak: step / stock step"
        rows.append(row(name, cost, 1 + IDLE_COST_MAX, cost <= 1 + IDLE_COST_MAX))
    if arms.drift() > DRIFT_MAX:
        rows = [entry | {"met": None} for entry in rows]
        name = f"{arms.title}: stock PyTorch, slower / faster run; no verdicts above"
        rows.append(row(name, 1 + arms.drift(), 1 + DRIFT_MAX, False))
    return rows


def fraction_row(arms, name):
    tier, _, peak_over_budget = name.partition("-")
    records = arms.by_name[name]
    bounds = [r["bound_fraction"] for r in records if r.get("bound_fraction")]
    target = min([FRACTION_TARGET, *(OF_BOUND_TARGET * bound for bound in bounds)])
    fraction = arms.ideal_seconds() / arms.seconds(name)
    tier = {"both": "host and ssd"}.get(tier, tier)
    title = f"{arms.title}, {tier}, peak/budget {peak_over_budget}: fraction of ideal"
    return row(title, fraction, target, fraction >= target, arm_note(arms, records, bounds))


def arm_note(arms, records, bounds):
    last = records[-1]
    steps = last["measured"]
    moved = sum(s[f"{t}_bytes_{w}"] for s in steps for t in ("host", "ssd") for w in MOVES)
    waited = sum(s["stall_read_ns"] + s["stall_memory_ns"] for s in steps)
    planned = sum(step["mode"] == "planned" for step in steps)
    parts = [
        f"step {arms.seconds(last['arm']):.3f} s, ideal {arms.ideal_seconds():.3f} s",
        f"bound {min(bounds):.3f}" if bounds else "no plan",
        f"{moved / len(steps) / 1e9:.2f} GB moved and {waited / len(steps) / 1e9:.3f} s waited",
        f"{planned} of {len(steps)} steps planned",
    ]
    return "; ".join(parts)


MOVES = ("read", "written")


def memory_rows(arms):
    """Compares what CUDA says that an arm has taken of the GPU with its budget."""
    rows = []
    for name in arms.budgeted():
        records = [r for r in arms.by_name[name] if "sampled_peak_bytes" in r]
        if not records:
            continue
        taken = max(r["sampled_peak_bytes"] / r["budget_bytes"] for r in records)
        counts = records[-1]["allocator"]
        note = ", ".join(f"{count} {what[4:]}" for what, count in counts.items())
        title = f"{arms.title}, {name}: memory taken / budget"
        rows.append(row(title, taken, TAKEN_MAX, taken <= TAKEN_MAX, note))
    return rows


def bits_rows(arms):
    """Counts the arms whose losses and final state have the bits of stock PyTorch."""
    stock = arms.by_name.get("stock", [])
    if not stock:
        return []
    expected = stock[0]["losses"], stock[0]["state"]
    others = [r for name, rs in arms.by_name.items() if name != "stock" for r in rs] + stock[1:]
    ours = [r for r in others if not r["arm"].startswith("stock")]
    unequal = [r["arm"] for r in others if (r["losses"], r["state"]) != expected]
    of_stock = [arm for arm in unequal if arm.startswith("stock")]
    different = [arm for arm in unequal if arm not in of_stock]
    note = f"differ: {', '.join(different)}" if different else ""
    if of_stock:
        note = "stock PyTorch differs from itself; " + note
    if not ours:
        return []
    equal = len(ours) - len(different)
    met = None if of_stock else not different
    name = f"{arms.title}: arms whose losses and state have stock's bits"
    return [row(name, equal, len(ours), met, note)]


def peer_rows(arms, peers):
    """Compares the step of each peer with ours within the peak of device memory that it took."""
    rows = []
    for peer in peers:
        if peer["outcome"] != "done":
            continue
        theirs = median(peer["measured_seconds"])
        ours = arms.seconds(f"host-at-{peer['peak_bytes']}")
        name = f"{arms.title}, {peer['arm']} at its peak: its step / our step"
        if ours is None:
            note = f"step {theirs:.3f} s; ours was not measured at its peak"
            rows.append(row(name, None, PEER_TARGET, None, note))
            continue
        gigabytes = peer["peak_bytes"] / 1e9
        note = f"its step {theirs:.3f} s, ours {ours:.3f} s, at {gigabytes:.2f} GB"
        rows.append(row(name, theirs / ours, PEER_TARGET, theirs / ours >= PEER_TARGET, note))
    return rows


def link_rows(link):
    """Compares the engine's rates with the machine's. PyTorch's own copies have no target."""
    rows = []
    for each in link["rows"]:
        place = {"host": "device <-> host", "ssd": "device <-> drive"}[each["path"]]
        name = f"{place}, {each['phase']}: engine / {each['against']}"
        met = None if each["against"] == "torch" else each["ratio"] >= RATE_TARGET
        note = f"{each['value'] / 1e9:.2f} against {each['reference'] / 1e9:.2f} GB/s"
        rows.append(row(name, each["ratio"], RATE_TARGET, met, note))
    return rows
