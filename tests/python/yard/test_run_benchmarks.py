"""tools/run_benchmarks.py: what programs and scripts measure becomes one table."""

from pathlib import Path

import pytest

RUNNER = Path(__file__).parents[3] / "tools" / "run_benchmarks.py"

# A stand-in for a Google Benchmark program: it writes the report that it is told to write.
PROGRAM = """#!/bin/sh
echo '{"benchmarks": [{"name": "copy/64", "real_time": 12.5, "time_unit": "ns"}]}' >"${1#*=}"
"""

SCRIPT = """
import json, os, pathlib
entries = [{"name": "planned / ideal", "value": 0.96, "reference": 0.95, "ratio": 1.0105}]
path = pathlib.Path(os.environ["TERAIO_BENCH_DIR"]) / "step_time.json"
path.write_text(json.dumps(entries))
"""


@pytest.fixture
def bench(python, tmp_path):
    scripts, programs = tmp_path / "scripts", tmp_path / "build" / "bin"
    scripts.mkdir()
    programs.mkdir(parents=True)
    (scripts / "step_time.py").write_text(SCRIPT)
    program = programs / "memory_benchmark"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    return lambda: python(RUNNER, tmp_path / "build", scripts)


def test_results_become_one_table_and_one_that_fails_is_named(bench, tmp_path):
    (tmp_path / "scripts" / "a_broken.py").write_text("raise SystemExit(3)")
    outcome = bench()
    assert outcome.code == 1 and "a_broken.py ended with 3" in outcome.err
    table = [line.split() for line in outcome.out.splitlines() if not line.startswith("==")]
    assert table[0] == ["measure", "value", "unit", "reference", "ratio"]
    assert table[2] == ["copy/64", "12.5", "ns"]
    assert table[3] == ["planned", "/", "ideal", "0.96", "0.95", "1.01"]
