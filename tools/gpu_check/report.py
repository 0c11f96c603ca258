"""Renders the report of gpu-check, report.md and report.json, from the report logs of pytest.

pytest-reportlog appends a line of JSON to a log as each phase of a test ends. What a test has
measured stands there as its properties: `arm` and `peer` are records of trainings, `link` is the
record of the link and the drive, `note` qualifies a test that has passed.
"""

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import traceback
from pathlib import Path

from targets import Arms, bits_rows, link_rows, memory_rows, peer_rows, training_rows

# How many of the last characters of a test's output the reports contain.
SHOWN_CHARACTERS = 4_000  # in report.md, of a failed test
PASSED_CHARACTERS, FAILED_CHARACTERS = 4_000, 200_000  # in report.json
VERDICTS = {True: "met", False: "MISSED", None: ""}


def machine_facts() -> dict:
    """Describes this machine; a fact is empty where its program is missing."""
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


def version_of(package: str) -> str:
    """Returns the version of a package without importing it; empty when it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def output_of(*command) -> str:
    """Returns the output of a command; empty when the program is missing or fails."""
    if shutil.which(command[0]) is None:
        return ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def read_results(log: Path) -> list[dict]:
    """Returns the results in a report log, one for each test that has begun.

    `outcome` is passed, failed, skipped or, when the log does not have the end of the test,
    unfinished. An incomplete last line is ignored.
    """
    results = {}
    for entry in read_lines(log):
        if entry.get("$report_type") == "TestReport":
            merge(results.setdefault(entry["nodeid"], new_result(entry["nodeid"])), entry)
        elif entry.get("$report_type") == "CollectReport" and entry["outcome"] == "failed":
            result = results[entry["nodeid"]] = new_result(entry["nodeid"])
            result |= {"outcome": "failed", "error": text_of(entry["longrepr"])}
    return list(results.values())


def read_lines(log: Path):
    """Yields the entries of a log; none when there is no log."""
    for line in log.read_text().splitlines() if log.exists() else ():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return


def new_result(name: str) -> dict:
    empty = {"reason": "", "error": "", "output": "", "properties": {}}
    return {"name": name, "outcome": "unfinished", "seconds": 0.0, **empty}


def merge(result: dict, entry: dict) -> None:
    """Adds a phase (setup, call or teardown) of a test to its result."""
    result["seconds"] = round(result["seconds"] + entry.get("duration", 0), 1)
    result["properties"] = dict(entry["user_properties"])
    if entry["outcome"] == "failed":
        result["outcome"] = "failed"
        result["error"] += text_of(entry["longrepr"]) + "\n"
    elif entry["outcome"] == "skipped":
        result["outcome"] = "skipped"
        result["reason"] = entry["longrepr"][2].removeprefix("Skipped: ")
    elif entry["when"] == "teardown" and result["outcome"] == "unfinished":
        result["outcome"] = "passed"
    kept = FAILED_CHARACTERS if result["outcome"] == "failed" else PASSED_CHARACTERS
    result["output"] = "".join(text for _, text in entry["sections"])[-kept:]


def text_of(longrepr) -> str:
    """Returns the message of a failure from its entry in the log."""
    if not isinstance(longrepr, dict):
        return str(longrepr)
    crash = longrepr["reprcrash"]
    return f"{crash['path']}:{crash['lineno']}: {crash['message']}"


def measured(results: list[dict]) -> dict:
    """Collects the records that tests wrote; those of arms and peers by the title of the job."""
    found = {"arms": {}, "peers": {}, "link": None}
    for properties in (result["properties"] for result in results):
        for kind in ("arm", "peer"):
            if kind in properties:
                record = properties[kind]
                found[kind + "s"].setdefault(record["title"], []).append(record)
        found["link"] = properties.get("link", found["link"])
    return found


def rows_of(found: dict) -> list[dict]:
    """Returns the figures of the records beside their targets: see targets.py."""
    rows = []
    for title, records in found["arms"].items():
        arms = Arms(title, records)
        rows += training_rows(arms) + bits_rows(arms) + memory_rows(arms)
        rows += peer_rows(arms, found["peers"].get(title, []))
    return rows + (link_rows(found["link"]) if found["link"] else [])


def markdown(state: str, machine: dict, results: list[dict], found: dict, rows: list[dict]) -> str:
    lines = ["# gpu-check", "", state, ""]
    lines += [f"- {name}: {value}" for name, value in machine.items() if value]
    lines += ["", "| outcome | seconds | check | |", "| --- | --- | --- | --- |"]
    lines += [result_line(result) for result in results]
    if rows:
        lines += ["", "| | value | target | figure | |", "| --- | --- | --- | --- | --- |"]
        lines += [row_line(row) for row in rows]
    if found["link"] and found["link"]["no_fio"]:
        lines += ["", f"The drive was not compared with fio: {found['link']['no_fio']}"]
    for result in results:
        if result["outcome"] == "failed":
            shown = result["output"][-SHOWN_CHARACTERS:] + result["error"]
            lines += ["", f"## {result['name']}", "", "```", shown.strip(), "```"]
    return "\n".join(lines) + "\n"


def result_line(result: dict) -> str:
    note = result["reason"] or result["properties"].get("note", "")
    return table_line(result["outcome"], f"{result['seconds']:.1f}", result["name"], note)


def row_line(row: dict) -> str:
    value = "" if row["value"] is None else f"{row['value']:.3f}"
    target = f"{row['reference']:.3f}"
    return table_line(VERDICTS[row["met"]], value, target, row["name"], row.get("note", ""))


def table_line(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def write(out: Path, state: str, machine: dict, logs: list[Path]) -> list[dict]:
    """Rewrites both files from the logs so far. Returns the results.

    A file is replaced as a whole, so that it is complete whenever the machine is lost.
    """
    results = [result for log in logs for result in read_results(log)]
    found = measured(results)
    try:
        rows = rows_of(found)
    except Exception:  # an unexpected record must not end the checks
        rows = []
        state += f" The figures cannot be made:\n\n```\n{traceback.format_exc()}```"
    out.mkdir(parents=True, exist_ok=True)
    content = {"state": state, "machine": machine, "rows": rows, "results": results}
    replace(out / "report.json", json.dumps(content | {"records": found}))
    replace(out / "report.md", markdown(state, machine, results, found, rows))
    return results


def replace(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    partial.replace(path)
