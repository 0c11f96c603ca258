"""gpu_check.json and gpu_check.txt: what was run, what was measured, which targets are met."""

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys

from targets import Arms, bits_rows, link_rows, peer_rows, training_rows

TEXT_CHARACTERS = 4_000  # of what a failed step has printed; the JSON file has more
VERDICTS = {True: "met", False: "MISSED", None: ""}


def machine_facts():
    """What this machine is, as far as it tells."""
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "kernel": platform.release(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "gpu": output_of(
            "nvidia-smi",
            "--query-gpu=name,driver_version,memory.total,pcie.link.gen.max,pcie.link.width.max",
            "--format=csv,noheader",
        ),
        "nvcc": output_of("nvcc", "--version").rpartition("\n")[2],
        "compiler": output_of("c++", "--version").partition("\n")[0],
        "cmake": output_of("cmake", "--version").partition("\n")[0],
        "torch": version_of("torch"),
    }


def version_of(package):
    """Empty where it is not installed. Without importing it, which takes seconds."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def output_of(*command):
    """Empty where the program is missing or fails."""
    if shutil.which(command[0]) is None:
        return ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def read_lines(path):
    """The last record of each arm in a file of JSON lines."""
    if not path.exists():
        return []
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return list({record["arm"]: record for record in records}.values())


def collect(work):
    """What the measuring steps have left in their folder so far."""
    found = {"trainings": {}, "peers": {}, "link": None}
    for path in sorted(work.glob("*.arms.jsonl")):
        title = path.name.removesuffix(".arms.jsonl").rpartition("-")[0]
        found["trainings"].setdefault(title, []).append(read_lines(path))
    for path in sorted(work.glob("*.peers.jsonl")):
        found["peers"][path.name.removesuffix(".peers.jsonl")] = read_lines(path)
    if (work / "link.json").exists():
        found["link"] = json.loads((work / "link.json").read_text())
    return found


def rows_of(found):
    rows = []
    for title, rounds in found["trainings"].items():
        arms = Arms(title, rounds)
        rows += training_rows(arms) + bits_rows(arms)
        rows += peer_rows(arms, found["peers"].get(title, []))
    if found["link"]:
        rows += link_rows(found["link"])
    return rows


def arms_that_failed(found):
    """(title, arm, outcome) of arms and peers without a result."""
    for title, rounds in found["trainings"].items():
        for records in rounds:
            yield from ((title, r["arm"], r["outcome"]) for r in records if r["outcome"] != "done")
    for title, records in found["peers"].items():
        yield from ((title, r["arm"], r["outcome"]) for r in records if r["outcome"] != "done")


def text_of(machine, results, found, rows):
    lines = [f"{name}: {value}" for name, value in machine.items() if value]
    lines += ["", *(step_line(result) for result in results)]
    if rows:
        lines += ["", f"{'':<7}{'value':>8} {'target':>8}"]
        lines += [line for entry in rows for line in row_lines(entry)]
    if found["link"] and found["link"]["no_fio"]:
        lines += ["", f"The drive was not compared with fio: {found['link']['no_fio']}"]
    lines += ["", *(f"{title} {arm}: {why}" for title, arm, why in arms_that_failed(found))]
    for result in results:
        if result["outcome"].startswith("failed"):
            lines += ["", f"--- {result['name']}", result["output"][-TEXT_CHARACTERS:]]
    return "\n".join(lines) + "\n"


def step_line(result):
    reason = f" ({result['output']})" if result["outcome"] == "skipped" else ""
    return f"{result['outcome']:<24} {result.get('seconds', 0):>7} s  {result['name']}{reason}"


def row_lines(entry):
    value = "" if entry["value"] is None else f"{entry['value']:.3f}"
    head = f"{VERDICTS[entry['met']]:<7}{value:>8} {entry['reference']:>8.3f}  {entry['name']}"
    return [head, *([" " * 26 + entry["note"]] if entry.get("note") else [])]


def write(out, work, machine, results):
    """Writes both files anew, from the steps so far; gives the rows."""
    found = collect(work)
    rows = rows_of(found)
    out.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine, "rows": rows, "steps": results, "records": found}
    (out / "gpu_check.json").write_text(json.dumps(content, indent=1))
    (out / "gpu_check.txt").write_text(text_of(machine, results, found, rows))
    return rows
