"""Runs every benchmark of a build and prints one table.

run_benchmarks.py BUILD [SCRIPTS]: the scripts SCRIPTS/*.py (default: benchmarks/). A script writes
BUILD/bench/<its name>.json, a list of objects with `name`, `value` and optionally `unit`,
`reference` and `ratio`; $TERAIO_BENCH_DIR names the folder.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run_script(script, results):
    environment = os.environ | {"TERAIO_BENCH_DIR": str(results)}
    subprocess.run([sys.executable, script], check=True, env=environment, cwd=ROOT)


def run_all(scripts, results):
    """Runs them one after the other; returns the names of those that failed."""
    failed = []
    for benchmark in sorted(scripts.glob("*.py")):
        print(f"== {benchmark.name}", flush=True)
        try:
            run_script(benchmark, results)
        except subprocess.CalledProcessError as error:
            print(
                f"{benchmark.name} ended with {error.returncode}: its figures are missing below",
                file=sys.stderr,
            )
            failed.append(benchmark.name)
    return failed


def rows(results):
    for path in sorted(results.glob("*.json")):
        content = json.loads(path.read_text())
        for entry in content if isinstance(content, list) else [content]:
            yield [
                str(entry["name"]),
                _number(entry["value"]),
                str(entry.get("unit", "")),
                _number(entry.get("reference")),
                _number(entry.get("ratio")),
            ]


def _number(value):
    return f"{value:.4g}" if isinstance(value, (int, float)) else str(value or "")


def print_table(lines):
    header = ["measure", "value", "unit", "reference", "ratio"]
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]
    for line in [header, ["-" * width for width in widths], *lines]:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        )


def main():
    build = Path(sys.argv[1]).resolve()
    scripts = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "benchmarks"
    results = build / "bench"
    results.mkdir(parents=True, exist_ok=True)
    for old in results.glob("*.json"):
        old.unlink()
    failed = run_all(scripts.resolve(), results)
    print_table(list(rows(results)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
