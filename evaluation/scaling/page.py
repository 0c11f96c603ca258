"""Fills page.template.md with tables of the predicted steps."""

from pathlib import Path

from evaluation import document, tables
from evaluation.scaling import case, cases, late_reads, layouts, node
from teraio.dry_run import accelerator

TEMPLATE = Path(__file__).with_name("page.template.md")


def text_of(steps, late):
    """Returns the page in Markdown, given the steps by Case.key and the lateness by delay."""
    return document.filled(
        TEMPLATE.read_text(),
        {
            "equal": _equal(steps),
            "faulty": _faulty(steps),
            "late": _late(late),
            **_summary(steps, late),
            **_machine(),
            **_step(),
        },
    )


def _equal(steps):
    header = ["model", "states", "drives of a node", *(f"{n:,} GPUs" for n in cases.RANKS)]
    rows = []
    for layout in dict.fromkeys(each.layout for each in cases.EQUAL):
        for drives in cases.DRIVES:
            wanted = [cases.equal(layout, ranks, drives) for ranks in cases.RANKS]
            cells = [_speed(steps[each.key]) if each.key in steps else "" for each in wanted]
            rows.append([layout.model, layout.title, drives, *cells])
    return tables.table(header, rows)


def _speed(step):
    if "refused" in step:
        return f"no: {step['refused']}"
    tokens = layouts.TOKENS_PER_RANK / (step["step_ns"] / 1e9)
    return f"{tokens:,.0f} ({_percent(step['ideal_ns'] / step['step_ns'])})"


def _faulty(steps):
    jobs = cases.FAULTY_JOBS
    header = ["what is wrong", *(f"{ranks:,} GPUs, {layout.states}" for layout, ranks in jobs)]
    base = [steps[cases.equal(*job, node.RANKS).key]["step_ns"] for job in jobs]
    rows = [["nothing", *(f"{_seconds(step_ns)}" for step_ns in base)]]
    for fault, (words, _) in cases.FAULTS.items():
        of_fault = [steps[cases.faulty(fault, *job).key]["step_ns"] for job in jobs]
        cells = [_change(step, of) for step, of in zip(of_fault, base, strict=True)]
        rows.append([words, *cells])
    return tables.table(header, rows)


def _change(step_ns, base_ns):
    return f"{_seconds(step_ns)} (x {step_ns / base_ns:.2f})"


def _late(late):
    ranks = [f"{count:,} rank{'s' if count > 1 else ''}" for count in cases.LATE_RANKS]
    rows = [[name, *map(_seconds, lateness)] for name, lateness in late.items()]
    return tables.table(["late by", *ranks], rows)


def _summary(steps, late):
    """Returns the numbers of the section of results."""
    few, most = min(cases.DRIVES), max(cases.DRIVES)

    def of_ideal(layout, ranks, drives):
        step = steps[cases.equal(layout, ranks, drives).key]
        return _percent(step["ideal_ns"] / step["step_ns"])

    ddp, sharded, hybrid = layouts.LLAMA_8B_DDP, layouts.LLAMA_70B_FSDP, layouts.LLAMA_70B_HYBRID
    return {
        "most_drives": str(most),
        "ddp": of_ideal(ddp, 1024, most),
        "sharded_few": of_ideal(sharded, 8, few),
        "sharded_most": of_ideal(sharded, 8, most),
        "hybrid_large": of_ideal(hybrid, 1024, most),
        "hybrid_small": of_ideal(hybrid, 64, most),
        **_summary_of_faults(steps),
        **_summary_of_late_reads(steps, late),
        **_summary_of_networks(steps),
    }


def _summary_of_faults(steps):
    large = layouts.LLAMA_70B_HYBRID, 1024
    base_ns = steps[cases.equal(*large, node.RANKS).key]["step_ns"]

    def times(fault):
        return f"{steps[cases.faulty(fault, *large).key]['step_ns'] / base_ns:.2f}"

    return {
        "slow_gpu": times("slow-gpu"),
        "drive_slow": times("own-drive-slow"),
        "own_known": times("own-drive-known"),
        "shared_known": times("shared-drive-known"),
    }


def _summary_of_late_reads(steps, late):
    step_ns, longest = steps[cases.LATE.key]["step_ns"], late["1 s"]
    return {
        "late_step": _seconds(step_ns),
        "late_medium": _seconds(late["100 ms"][-1]),
        "late_long": _seconds(longest[-1]),
        "late_long_share": _percent(longest[-1] / step_ns),
        "late_long_alone": _seconds(longest[0]),
    }


def _summary_of_networks(steps):
    def of_compute(drives, gigabits):
        step = steps[cases.networked(layouts.LLAMA_70B_HYBRID, drives, gigabits).key]
        return _percent(step["compute_ns"] / step["step_ns"])

    slowest, fastest = min(cases.NETWORKS_GIGABITS), max(cases.NETWORKS_GIGABITS)
    return {
        "slowest_network": f"{slowest:,}",
        "fastest_network": f"{fastest:,}",
        "slow_network_most": of_compute(8, slowest),
        "slow_network_few": of_compute(2, slowest),
        "fast_network_most": of_compute(8, fastest),
        "fast_network_few": of_compute(2, fastest),
    }


def _machine():
    drive = node.DRIVE
    device = accelerator.load(node.DEVICE)
    return {
        "device": device.name.removeprefix("NVIDIA "),
        "usable_device": _percent(node.USABLE_DEVICE_SHARE),
        "ranks_per_node": str(node.RANKS),
        "host_memory": f"{node.HOST_BYTES / 1e9:,.0f} GB",
        "link": _rate(node.LINK_BYTES_PER_SECOND),
        "drive_size": f"{drive['capacity_bytes'] / 1e12:.2f} TB",
        "drive_read": _rate(drive["read_bytes_per_second"]),
        "drive_write": _rate(drive["write_bytes_per_second"]),
        "gpu_link": _rate(case.gpu_link_rate()),
        "network": f"{case.FAST_NETWORK / case.GIGABITS / node.RANKS:,.0f} Gb/s",
        "one_in": f"{next(iter(cases.DELAYS.values())).one_in:,.0f}",
        "late_job": f"{cases.LATE.layout.model} on {cases.LATE.ranks:,} GPUs",
        "late_steps": str(late_reads.STEPS),
    }


def _step():
    return {
        "tokens": f"{layouts.TOKENS_PER_RANK:,}",
        "sequences": f"{layouts.MICRO_BATCH} sequences of {layouts.SEQUENCE_LENGTH:,} tokens",
        "network_ranks": str(cases.NETWORK_RANKS),
    }


def _rate(bytes_per_second):
    return f"{bytes_per_second / 1e9:,.3g} GB/s"


def _seconds(time_ns):
    if time_ns < 1e9:
        return f"{time_ns / 1e6:,.2g} ms" if time_ns < 1e8 else f"{time_ns / 1e6:,.0f} ms"
    return f"{time_ns / 1e9:.3g} s"


def _percent(share):
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"
