"""tools/run_benchmarks.py: what scripts measure becomes one table."""

from pathlib import Path

import pytest

RUNNER = Path(__file__).parents[3] / "tools" / "run_benchmarks.py"

SCRIPT = """
import json, os, pathlib
entries = [{"name": "planned / ideal", "value": 0.96, "reference": 0.95, "ratio": 1.0105}]
path = pathlib.Path(os.environ["TERAIO_BENCH_DIR"]) / "step_time.json"
path.write_text(json.dumps(entries))
"""


@pytest.fixture
def bench(python, tmp_path):
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "step_time.py").write_text(SCRIPT)
    return lambda: python(RUNNER, tmp_path / "build", scripts)


def test_results_become_one_table_and_one_that_fails_is_named(bench, tmp_path):
    (tmp_path / "scripts" / "a_broken.py").write_text("raise SystemExit(3)")
    outcome = bench()
    assert outcome.code == 1 and "a_broken.py ended with 3" in outcome.err
    table = [line.split() for line in outcome.out.splitlines() if not line.startswith("==")]
    assert table[0] == ["measure", "value", "unit", "reference", "ratio"]
    assert table[2] == ["planned", "/", "ideal", "0.96", "0.95", "1.01"]
