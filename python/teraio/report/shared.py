"""The results file of a run that others may read, as benchmarks/results/ has them.

What it tells is listed here. All else of run.json stays: it names paths, the host and the program.
"""

import re

from teraio.report import summary, wear
from teraio.report.page import setting_name, setting_text

_MACHINE = ("processor", "cores", "memory_bytes", "gpu", "drives")
_SETTINGS = ("device", "host_limit_bytes", "policy", "recompute", "effort", "checksum")


def results_of(directory):
    """Returns the results of a RunDirectory as Markdown, without paths, host and user names."""
    run = directory.run
    rows = [
        *_rows(run["machine"], _MACHINE),
        *_versions(run["versions"]),
        ("ranks on the machine", run["share"]["local_world_size"]),
        *_rows(run["settings"], _SETTINGS),
        ("steps", len(run["steps"])),
        *(
            (fact.name, _noted(fact))
            for fact in summary.facts(directory, wear.drive_uses(directory))
        ),
        (
            "losses, parameters, optimizer states",
            run.get("bits", "not shown to be equal (`--verify`)"),
        ),
    ]
    return "\n".join(
        [
            "# (what was trained, on what data)",
            "",
            f"Written by `teraio report --share`; the run was on {run['started_at'][:10]}.",
            "",
            "| | |",
            "| --- | --- |",
            *(f"| {name} | {value} |" for name, value in rows),
            "",
        ]
    )


def _rows(values, names):
    for name in names:
        if values.get(name) is not None:
            yield setting_name(name), setting_text(values[name], name)


def _versions(versions):
    for name, version in versions.items():
        # A kernel that its user has built may be called after the user or the host.
        yield name, re.match(r"\w+ [\d.]+\d|", version)[0] if name == "kernel" else version


def _noted(fact):
    return f"{fact.value} ({fact.note})" if fact.note else fact.value
