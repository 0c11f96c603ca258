"""characterize and what-if: what they print, write, draw and refuse."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TRACES = ROOT / "tests" / "data" / "traces"
PAPER_PRICES = ROOT / "examples" / "prices" / "h100_nvl.json"
VIT = TRACES / "VIT-1280.json.gz"


def tables(folder, name):
    return json.loads((folder / f"{name}.json").read_text())


def drawn(folder):
    """The names of the figures in a folder; each must be there as SVG and as PNG."""
    names = {path.stem for path in folder.glob("*.svg")}
    assert {path.stem for path in folder.glob("*.png")} == names
    for name in names:
        assert (folder / f"{name}.svg").read_text().rstrip().endswith("</svg>")
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    return names


@pytest.fixture
def python_without_matplotlib(tmp_path):
    """The environment in which the command finds an interpreter that has no packages."""
    script = tmp_path / "bare_python"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    script.chmod(0o755)
    return os.environ | {"TERAIO_PYTHON": str(script)}


@pytest.fixture
def tables_only(teraio, python_without_matplotlib):
    """Runs the command without drawing figures, which takes a second each time."""
    return lambda *arguments: teraio(*arguments, env=python_without_matplotlib)


@pytest.fixture
def prices(tmp_path):
    """A price file for one device, written off over a year; gives its path."""
    path = tmp_path / "prices.json"
    fields = {
        "format": "teraio-prices/1",
        "name": "a server",
        "source": "a test",
        "currency": "EUR",
        "devices": 1,
        "server": 1000,
        "server_memory_bytes": 0,
        "host_memory_per_gib": 10,
        "drive": 100,
        "service_years": 1,
    }
    path.write_text(json.dumps(fields))
    return path


def test_characterize_tells_what_is_known_of_a_small_step(teraio, small, tmp_path):
    teraio("characterize", small[1], "--hardware", small[3], "--out", tmp_path / "out")
    (trace,) = tables(tmp_path / "out", "characterization")["traces"]
    assert trace["per_op"]["all_bytes"] == [600, 1100, 1600, 1100, 600]
    assert trace["per_op"]["active_bytes"] == [600, 500, 500, 500, 600]
    assert trace["capacity_bytes"] == 1100
    weight, activation = trace["longest_idle"]
    assert (weight["id"], weight["longest_idle_ns"], weight["uses"]) == (7, 3000, 2)
    assert (activation["label"], activation["longest_idle_ns"]) == (
        "tensor 8, first in op 1 (an_op)",
        1000,
    )
    assert drawn(tmp_path / "out") == {"memory", "idle-periods", "roofline"}


def test_characterize_prints_a_table_for_each_question(teraio):
    said = teraio("characterize", VIT, "--device-memory", "40GB", "--top", "3")
    for words in (
        r"memory, of the device's capacity \(40.0 GB\)",
        r"phase +ops +time",
        r"whole step +1489 ",
        r"kind +tensors",
        r"all +1\d\d\d ",
        r"migration bandwidth, each way +at most, of ideal",
        r"32.0 GB/s +\d+\.\d %",
        r"largest +kind",
        r"longest idle +kind",
    ):
        assert re.search(f"^{words}", said, re.MULTILINE), said


def test_characterize_without_a_capacity_says_what_is_missing(teraio, small):
    said = teraio("characterize", small[1])
    assert "memory, of the trace's own peak (1.60 kB)" in said
    assert "no roofline: it needs a capacity, --hardware or --device-memory" in said


def test_characterize_refuses_what_it_cannot_use(teraio, small, tmp_path):
    assert "missing.json: cannot open" in teraio("characterize", "missing.json", fails=True)
    said = teraio("characterize", small[1], "--device-memory", "plenty", fails=True)
    assert '--device-memory: "plenty" is not a size' in said
    said = teraio("characterize", small[1], "--device-memory", "0", fails=True)
    assert "--device-memory: expected more than 0 bytes" in said
    said = teraio("characterize", small[1], "--out", small[1], fails=True)
    assert f"{small[1]}: cannot make this folder" in said


def test_figures_of_what_is_no_file_of_tables(python, tmp_path):
    (tmp_path / "text.json").write_text("no tables")
    (tmp_path / "other.json").write_text("{}")
    for words, complaint in (
        ([], "the following arguments are required: TABLES.json"),
        (["nope.json"], "teraio: nope.json does not exist"),
        (["text.json"], "teraio: text.json cannot be read"),
        (["other.json"], 'teraio: other.json: field "format": expected teraio-characterization/1'),
    ):
        outcome = python("-m", "teraio_figures", *words)
        assert outcome.code == 2 and complaint in outcome.err, outcome
        assert "Traceback" not in outcome.err


def test_without_matplotlib_the_tables_are_there_and_one_line_says_why_figures_are_not(
    execute, small, tmp_path, python_without_matplotlib
):
    command = [ROOT / "build" / "bin" / "teraio", "characterize", small[1], "--out", "out"]
    done = execute(*command, env=python_without_matplotlib)
    assert done.code == 0, done
    assert re.fullmatch(r"teraio: no figures: .* has no matplotlib: .*\n", done.err), done
    assert tables(tmp_path / "out", "characterization")["traces"]
    assert drawn(tmp_path / "out") == set()
    done = execute(*command, env=os.environ | {"TERAIO_PYTHON": "/nowhere/python"})
    assert done.code == 0, done
    assert done.err.startswith('teraio: no figures: the Python interpreter "/nowhere/python"')


@pytest.mark.full
def test_what_if_sweeps_everything_by_default(teraio, small, tmp_path):
    said = teraio("what-if", *small, "--out", tmp_path / "out")
    for header in ("drives ", "host memory", "drives read", "device memory", "write budget"):
        assert re.search(f"^{header}.*step +of ideal", said, re.MULTILINE), said
    sweeps = tables(tmp_path / "out", "what-if")["sweeps"]
    assert [s["quantities"] for s in sweeps] == [
        ["drives"],
        ["host"],
        ["bandwidth"],
        ["device"],
        ["writes"],
    ]
    for sweep in sweeps:
        assert sum(s.get("cheapest_within_5_percent", False) for s in sweep["settings"]) == 1
    assert [s["setting"]["drives"] for s in sweeps[0]["settings"]] == list(range(1, 9))
    assert [s["as_given"] for s in sweeps[0]["settings"]] == [True] + 7 * [False]
    names = {"drives", "host", "bandwidth", "device", "writes"}
    assert drawn(tmp_path / "out") == {f"what-if-{name}" for name in names}


def test_what_if_keeps_what_is_not_possible_with_the_reason(tables_only, small, tmp_path):
    device = ["--device-memory", "599,1100,1600"]
    said = tables_only("what-if", *small, *device, "--out", tmp_path / "out")
    assert re.search(r"^599 B +not possible$", said, re.MULTILINE)
    assert re.search(r"^599 B: not possible: op 0 \(an_op\) needs 600 bytes", said, re.MULTILINE)
    (sweep,) = tables(tmp_path / "out", "what-if")["sweeps"]
    no, _, all_fits = sweep["settings"]
    assert no["fits"] is False and "needs 600 bytes at once" in no["reason"]
    assert all_fits["fraction_of_ideal"] == 1.0 and all_fits["step_ns"] == 5000


def test_what_if_costs_come_from_the_price_file_alone(tables_only, small, prices, tmp_path):
    ask = ["what-if", *small, "--drives", "1,2", "--out", tmp_path / "out", "--prices", prices]
    said = tables_only(*ask)
    assert "no cost per token: the trace does not tell the tokens of a step" in said
    said = tables_only(*ask, "--tokens-per-step", "100")
    assert re.search(r"tokens/s +EUR per M tokens", said)
    given = tables(tmp_path / "out", "what-if")
    assert given["prices"]["source"] == "a test" and given["tokens_per_step"] == 100
    one, two = given["sweeps"][0]["settings"]
    assert (one["price"], two["price"]) == (1100, 1200)
    assert one["tokens_per_second"] == pytest.approx(100 / (one["step_ns"] / 1e9))
    # Its drives wear out after weeks: what they cost is in the tokens.
    year_s = 365.25 * 24 * 3600
    per_second = (1000 + 100 / one["drive_life_years"]) / year_s
    assert one["drive_life_years"] < 1
    assert one["cost_per_million_tokens"] == pytest.approx(
        per_second / one["tokens_per_second"] * 1e6
    )


def test_what_if_invents_no_prices(tables_only, small, tmp_path):
    ask = ["what-if", *small, "--prices", PAPER_PRICES, "--tokens-per-step", "100"]
    said = tables_only(*ask, "--bandwidth", "1GB,2GB")
    assert "no cost per token: the price file has no service_years" in said
    assert len(re.findall(r" no price", said)) == 2
    tables_only(*ask, "--drives", "4", "--service-years", "4", "--out", tmp_path / "out")
    (setting,) = tables(tmp_path / "out", "what-if")["sweeps"][0]["settings"]
    assert setting["price"] == pytest.approx(84139.9 + 8 * 170)
    assert setting["cost_per_million_tokens"] > 0


def test_what_if_varies_quantities_together(teraio, small, prices, tmp_path):
    ask = ["what-if", *small, "--drives", "1-2", "--host-memory", "0,1kB", "--grid"]
    said = teraio(*ask, "--out", tmp_path / "out")
    assert re.search(r"^drives, host memory +step", said, re.MULTILINE)
    assert "cheapest" not in said  # of combinations, only prices tell
    (sweep,) = tables(tmp_path / "out", "what-if")["sweeps"]
    assert [s["setting"] for s in sweep["settings"]] == [
        {"drives": drives, "host": host} for drives in (1, 2) for host in (0, 1000)
    ]
    assert drawn(tmp_path / "out") == {"what-if-drives-host"}
    assert "cheapest near the best" in teraio(*ask, "--prices", prices)


def test_what_if_refuses_what_it_cannot_use(teraio, small, prices, tmp_path):
    ask = ["what-if", *small]
    for text in ("0-", "8-1", "many", "1000"):
        said = teraio(*ask, "--drives", text, fails=True)
        assert (
            f'--drives: expected numbers of 0 to 100 such as 1-8 or 1,2,4, found "{text}"' in said
        )
    assert "--host-memory: " in teraio(*ask, "--host-memory", "big", fails=True)
    assert "expected --prices with it" in teraio(*ask, "--service-years", "3", fails=True)
    broken = json.loads(prices.read_text()) | {"drive": "cheap"}
    prices.write_text(json.dumps(broken))
    said = teraio(*ask, "--prices", prices, fails=True)
    assert f'{prices}: drive: expected a number, found "cheap"' in said
