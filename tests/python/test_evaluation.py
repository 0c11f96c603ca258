"""make paper: what a second run redoes, how the document is filled, what its figures show."""

import functools
import gzip
import json
import multiprocessing
import signal
import sys

import pytest
import torch
from evaluation import __main__ as driver
from evaluation import (
    analyses,
    cases,
    command,
    document,
    figures,
    retime,
    sweep,
    tables,
    tasks,
    traces,
    wear,
)
from evaluation.kernels import only_kernels
from evaluation.workloads import transformer

from teraio.dry_run import accelerator


def test_a_name_without_a_value_and_a_value_without_a_name_are_errors():
    assert document.filled("a {{b}} c", {"b": "B"}) == "a B c"
    with pytest.raises(KeyError, match="forgotten"):
        document.filled("{{b}} {{forgotten}}", {"b": ""})
    with pytest.raises(KeyError, match="unused"):
        document.filled("{{b}}", {"b": "", "unused": ""})


def run(step_s):
    return {
        "ideal_ns": 10**10,
        "step_ns": step_s * 10**9,
        "stall_ns": (step_s - 10) * 10**9,
        "fraction_of_ideal": 10 / step_s,
        "overlapped_s": 4.0,
        "bound_s": 12.5,
        "replay_bound_s": None,
        "ssd_bytes_written": 10**12,
        "planning_s": 0.5,
        "machine": "2 cores, a test",
        "load": 0.3,
        "ssd_read_rates": [0.0] * 19 + [5e9],
        "ssd_write_rates": [0.0] * 20,
    }


def phase(name):
    return {
        "name": name,
        "ops": 3,
        "all_bytes_max": 141 * 10**9,
        "active_bytes_max": 94 * 10**8,
        "active_bytes_mean": 188e7,
    }


TRACE = {
    "capacity_bytes": 94 * 10**9,
    "step_ns": 10**10,
    "phases": [phase(name) for name in ("forward", "backward", "update", "whole step")],
    "per_op": {
        "duration_ns": [1, 2, 3],
        "all_bytes": [100, 150, 0],
        "active_bytes": [10, 5, 0],
    },
    "period_cells": [
        {"kind": "parameter", "bytes_from": 1e8, "idle_ns_from": 1e7, "periods": 3},
        {"kind": "activation", "bytes_from": 1e7, "idle_ns_from": 1e6, "periods": 7},
    ],
    "kinds": [
        {
            "tensors": 4,
            "tensors_10MB_to_1GB": 2,
            "tensors_100MB_and_more": 1,
            "tensors_10MB_to_1GB_idle_above_10ms": 1,
            "periods": 10,
            "periods_above_10ms": 3,
            "median_idle_ns": 5_000_000,
        }
    ],
    "roofline": [
        {"bytes_per_second": rate * 10**9, "fraction_of_ideal": 0.9}
        for rate in tables.BANDWIDTHS_GB
    ],
}


def what_if(settings):
    return {"sweeps": [{"settings": [{"setting": s, **outcome} for s, outcome in settings]}]}


@pytest.fixture
def results():
    """What the stages give, with a system of each model that does not fit."""
    fits = {"fits": True, "fraction_of_ideal": 0.8, "step_ns": 2 * 10**9}
    halved = {"fits": True, "fraction_of_ideal": 0.4, "step_ns": 4 * 10**9}
    systems = {system.key: run(20) for system in cases.SYSTEMS}
    systems |= {"ours-mixed": run(16), "zero-offload": {"refused": "host memory is too small"}}
    systems |= {system.key: run(20) for system in cases.FRUGAL_SYSTEMS}
    systems |= {"ours-replay-ssd": run(16) | {"replay_bound_s": 10.0}}
    systems |= {f"{s.key}-{d}": run(40) for s in cases.SYSTEMS_OF_DRIVES for d in cases.DRIVES}
    of_case = {
        "characterization": {"traces": [TRACE]},
        "replayable": {"bytes": 100, "replayable_bytes": 60},
        "systems": systems,
        "bandwidth": what_if([({"bandwidth": r * 10**9}, fits) for r in tables.BANDWIDTHS_GB]),
        "grid": what_if(
            [
                ({"drives": 2, "host": 256 * 10**9}, halved),
                ({"drives": 4, "host": 256 * 10**9}, {"fits": False, "reason": "no"}),
                ({"drives": 4, "host": 512 * 10**9}, fits),
            ]
        ),
    }
    found = [*cases.CASES[:3], *cases.settings(), *cases.STAGES, *cases.SWEEP.values()]
    return {case.key: of_case | {"origin": "a test"} for case in found}


def test_the_document_says_what_the_results_say(results):
    text = document.text_of(results, "images/here")
    assert "images/here/figure-10.png" in text
    over_infinity = "1.25 (maximum 1.25, 9 steps)"
    assert f"| TERAIO-Mixed, ours | 62.5 % | does not fit | {over_infinity} |" in text
    assert "| Llama3-70B | 16 | 2,048 | 8 | 1.5 | 50.0 % |" in text
    assert "| Llama3-8B, stage 2 of 2 | forward | 3 | 150.0 % | 10 % | 2 % |" in text
    assert "Llama3-70B is predicted to reach 50.0 % of its throughput with 4 drives" in text
    assert "Llama3-8B is predicted to reach" not in text  # that setting is not among the results
    assert "| Llama3-8B | forward | 3 | 150.0 % | 10 % | 2 % |" in text
    assert "Granite-8B, ZeRO-Offload: does not fit: host memory is too small." in text
    assert "| Llama3-70B | 512 GB | 80.0 % |" in text
    assert "1.25 times that of ZeRO-Infinity (3 models)" in text


def test_each_bound_is_of_the_tiers_and_of_the_kind_of_plan(results):
    header, _, row, *_ = tables.summary(results, cases.SSD_SYSTEMS).splitlines()
    columns = [cell.strip() for cell in header.split("|")]
    cells = dict(zip(columns, (cell.strip() for cell in row.split("|")), strict=True))
    assert cells["TERAIO-SSD, ours"] == "50.0 %"
    assert cells["no plan that only moves exceeds"] == "80.0 %"
    assert cells["TERAIO-SSD, ours with recompute"] == "62.5 %"
    assert cells["no plan exceeds"] == "100.0 %"
    assert "ZeRO-Infinity" not in columns and "ZeRO-Infinity on drives alone" in columns


def test_bounds_are_read_from_what_the_planner_prints():
    moves = "no plan is faster than 42.50 s: at most 4.4 % from the best possible\n"
    replays = "no plan is faster than 900.0 ms, none without replays than 42.50 s\n"
    planned = "3 migrations, planned in 5.49 s\n"
    facts = analyses.of_planning(moves + planned)
    assert (facts["bound_s"], facts["replay_bound_s"], facts["planning_s"]) == (42.5, None, 5.49)
    facts = analyses.of_planning(replays + planned)
    assert (facts["bound_s"], facts["replay_bound_s"]) == (42.5, 0.9)


def test_each_system_of_the_sweep_has_its_own_best_step(results):
    steps = {key: results[case.key] for key, case in cases.SWEEP.items()}
    for (precision, *_), of_case in steps.items():
        of_case["systems"] = of_case["systems"] | {"zero-infinity": run(30)}
        if precision == "bf16":
            of_case["systems"]["ours-ssd"] = {"refused": "no"}
    steps["bf16", 2, "selective"]["systems"]["zero-infinity"] = run(16)
    said = dict(line.strip("| ").split(" | ", 1) for line in sweep.best(results).splitlines())
    assert said["TERAIO-SSD, ours"].endswith("| does not fit")
    tokens_per_s = f"{16_384 / 16:,.0f}"
    assert said["ZeRO-Infinity"].endswith(f"| {tokens_per_s} (micro-batch 2, selective)")
    over = sweep.ratios(results, "ours-mixed", ("zero-offload", "zero-infinity"))
    assert over == "1.88 times (fp32), 1.88 times (TF32), 1.00 times (bf16 autocast)"
    assert sweep.ratios(results, "ours-ssd", ("zero-infinity",)).count("times") == 2


def test_drives_wear_out_and_are_bought_again():
    days = 4 * 1200 * 20 / 86_400  # four drives of 1,200 TB, 1 TB in each step of 20 s
    assert wear.life_days(run(20)) == pytest.approx(days)
    assert wear.life_days(run(20) | {"ssd_bytes_written": 0}) == float("inf")
    life, drives_a_year, tokens = wear.costs(L8, run(20), price=3000, price_of_drives=300)
    assert life == "1.1 days"
    assert drives_a_year == f"${300 / (days / 365.25):,.0f}"
    per_year = 2700 / 3 + 300 / (days / 365.25)
    tokens_a_year = L8.tokens_per_step / 20 * 86_400 * 365.25
    assert tokens == f"${per_year / tokens_a_year * 1e9:,.0f}"


def test_products_of_a_faster_precision_take_at_least_the_time_of_their_bytes():
    device = accelerator.load("h100-nvl")
    given = retime.Rates.of(device, products="float32", attention="float32")
    wanted = retime.Rates.of(device, products="tensorfloat32", attention="float32")
    sizes = {1: 3_315_000, 2: 3_315_000_000}  # a microsecond and a millisecond of memory
    tensors = [{"id": number, "bytes": size} for number, size in sizes.items()]

    def duration_ns(name, tensor, given_ns):
        op = {"name": name, "duration_ns": given_ns, "reads": [tensor], "writes": []}
        trace = retime.retimed({"ops": [op], "tensors": tensors}, given, wanted)
        return trace["ops"][0]["duration_ns"]

    assert duration_ns("aten::mm", 1, 5_000_000) == round(5_000_000 * 60 / 417.5)
    assert duration_ns("aten::mm", 2, 5_000_000) == 1_000_000
    assert duration_ns("aten::mm", 2, 800_000) == 800_000  # it reads a part of the tensor
    assert duration_ns("aten::mm", 1, 9_000) == 3_000  # a kernel takes that long
    assert duration_ns("aten::_scaled_dot_product_x", 1, 5_000_000) == 5_000_000
    assert duration_ns("aten::mul", 1, 5_000_000) == 5_000_000


@pytest.mark.full
def test_a_figure_is_drawn_for_each_of_the_papers(results, tmp_path):
    for name in figures.FIGURES:
        figures.draw(name, results, tmp_path)
    numbers = (1, 2, 3, 7, "7-steps", 8, 9, 10)
    for suffix in ("svg", "png"):
        assert {path.name for path in tmp_path.glob(f"*.{suffix}")} == {
            f"figure-{number}.{suffix}" for number in numbers
        }
    assert "does not fit" in (tmp_path / "figure-7.svg").read_text()


def test_cost_is_price_by_throughput(results):
    prices = tables.server_prices()
    assert prices["ssd"] == pytest.approx(84139.9 + 1360)
    assert prices["mixed"] == pytest.approx(91047.9 + 1360, abs=1)
    tokens_per_s = L8.tokens_per_step / 16
    assert f"${prices['mixed'] / tokens_per_s:,.2f}" in tables.table_3(results, prices)


L8, GPT2 = cases.CASES[0], cases.CASES[3]
STEP, STAGE = cases.settings()[0], cases.STAGES[1]
WANTED = [L8, GPT2, STEP, STAGE]

# Stands in for `teraio`: its dry runs write a trace; all else is done by the command of the build.
STAND_IN = """#!{python}
import gzip, json, os, pathlib, signal, sys
words, folder = sys.argv[1:], pathlib.Path({folder!r})
if words[0] != "dry-run":
    os.execv({command!r}, [{command!r}, *words])
if any(line in " ".join(words) for line in (folder / "fail").read_text().splitlines()):
    sys.exit("teraio dry-run: No module named 'tokenizers'")
if any(line in " ".join(words) for line in (folder / "kill").read_text().splitlines()):
    os.kill(os.getppid(), signal.SIGKILL)
trace = json.loads((folder / "trace.json").read_text()) | {{"source": " ".join(words)}}
with gzip.open(words[words.index("--save-trace") + 1], "wt") as file:
    json.dump(trace, file)
"""


class Evaluation:
    """An evaluation of WANTED in a folder of its own, with the stand-in for `teraio`."""

    def __init__(self, folder, capsys):
        self.folder, self.capsys = folder, capsys
        self.folders = tasks.Folders(folder / "build", folder / "evaluation.md", folder / "images")
        self.dry_runs("fail")
        self.dry_runs("kill")

    def dry_runs(self, outcome, having=""):
        """Lets the dry runs whose command has the words fail, or kill who starts them."""
        (self.folder / outcome).write_text(having)

    def run(self, *wanted, workers=2):
        """The exit code, what it said of each task, and its complaints."""
        code = tasks.run(wanted or WANTED, self.folders, workers)
        said = self.capsys.readouterr()
        lines = [line.split("  ") for line in said.out.splitlines()]
        return code, {(place.split()[0], doc): outcome for place, doc, outcome in lines}, said.err

    def dry_run(self, case):
        traces.dry_run(case, self.folders.trace(case))
        return json.loads(gzip.decompress(self.folders.trace(case).read_bytes()))


def extension_of(package):
    return package / "torch_2_11" / "_C.so"


@pytest.fixture
def evaluation(monkeypatch, tmp_path, capsys, small):
    stand_in = tmp_path / "teraio"
    stand_in.write_text(
        STAND_IN.format(python=sys.executable, command=str(command.TERAIO), folder=str(tmp_path))
    )
    stand_in.chmod(0o755)
    extension = extension_of(tmp_path)
    extension.parent.mkdir()
    extension.write_text("one")
    monkeypatch.setattr(command, "TERAIO", stand_in)
    monkeypatch.setattr(traces, "BUILT_PACKAGE", tmp_path)
    few = cases.SYSTEMS_OF_FIGURES
    monkeypatch.setattr(cases, "SYSTEMS", few)
    monkeypatch.setattr(cases, "SSD_SYSTEMS", [system for system in few if not system.host])
    monkeypatch.setattr(cases, "HOST_SYSTEMS", [system for system in few if system.host])
    monkeypatch.setattr(cases, "DRIVES", {})
    monkeypatch.setattr(cases, "FRUGAL_SYSTEMS", [])
    monkeypatch.setattr(figures, "FIGURES", {"figure-3": figures.FIGURES["figure-3"]})
    return Evaluation(tmp_path, capsys)


def redone(told):
    return {name for name, outcome in told.items() if outcome != "kept"}


def test_a_run_writes_the_document_and_a_second_one_redoes_nothing_else(evaluation):
    code, told, err = evaluation.run()
    assert (code, err) == (0, "")
    assert "kept" not in told.values()
    assert [sum(kind == wanted for kind, _ in told) for wanted in ("trace", "analysis")] == [4, 36]
    text = (evaluation.folder / "evaluation.md").read_text()
    assert "| GPT-2 40B | 4 x 4 sequences of 1024 tokens | 5 |" in text
    assert "](images/figure-3.png)" in text
    assert (evaluation.folder / "images" / "figure-3.png").stat().st_size > 1000

    (evaluation.folder / "evaluation.md").write_text("edited by hand")
    code, told, err = evaluation.run()
    assert (code, err) == (0, "")
    assert redone(told) == {("document", "evaluation.md and 1 figures")}
    assert (evaluation.folder / "evaluation.md").read_text() == text


@pytest.mark.full
def test_what_depends_on_a_changed_trace_is_redone(evaluation):
    evaluation.run()
    evaluation.folders.trace(GPT2).unlink()
    code, told, _ = evaluation.run()
    assert code == 0
    assert redone(told) == {("trace", GPT2.title), ("document", "evaluation.md and 1 figures")}

    evaluation.folders.trace(GPT2).unlink()
    trace = json.loads((evaluation.folder / "trace.json").read_text())
    trace["ops"][0]["duration_ns"] = 2000
    (evaluation.folder / "trace.json").write_text(json.dumps(trace))
    code, told, _ = evaluation.run()
    assert code == 0
    analyses = {name for kind, name in redone(told) if kind == "analysis"}
    assert len(analyses) == 12 and all(name.startswith(GPT2.title) for name in analyses)
    assert ("figure", "figure-3") in redone(told)


def test_a_dry_run_is_kept_until_what_it_is_made_with_changes(evaluation):
    evaluation.run(L8)
    assert ("trace", L8.title) not in redone(evaluation.run(L8)[1])
    extension_of(traces.BUILT_PACKAGE).write_text("two")
    assert ("trace", L8.title) in redone(evaluation.run(L8)[1])


def test_a_dry_run_that_fails_is_named_and_ends_the_run_after_the_others(evaluation):
    evaluation.dry_runs("fail", having="gpt2-40b")
    code, told, err = evaluation.run()
    assert code != 0
    assert told.pop(("trace", GPT2.title)) == "failed: No module named 'tokenizers'"
    assert set(told) == {("trace", case.title) for case in (L8, STEP, STAGE)}
    assert err == f"make paper: 1 of 4 dry runs failed: {GPT2.title}; what was made is kept\n"
    assert not list(evaluation.folders.trace(GPT2).parent.glob("*gpt2*"))

    evaluation.dry_runs("fail")
    code, told, err = evaluation.run()
    assert (code, err) == (0, "")
    assert {name for name, outcome in told.items() if outcome == "kept"} == {
        ("trace", case.title) for case in (L8, STEP, STAGE)
    }


def test_an_analysis_that_fails_is_named_and_there_is_no_document(evaluation, monkeypatch):
    monkeypatch.setattr(analyses, "BANDWIDTHS", "many")
    code, told, err = evaluation.run(L8)
    assert code != 0
    assert told[("analysis", f"{L8.title}: bandwidth")].startswith("failed: --bandwidth")
    assert told[("analysis", f"{L8.title}: grid")].endswith(" s")
    assert "1 of 14 analyses failed" in err
    assert not (evaluation.folder / "evaluation.md").exists()


def test_a_run_that_is_killed_continues_where_it_ended(evaluation):
    evaluation.dry_runs("kill", having="llama_pipeline")
    run = functools.partial(evaluation.run, L8, STAGE, workers=0)
    killed = multiprocessing.get_context("fork").Process(target=run)
    killed.start()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    evaluation.dry_runs("kill")
    code, told, _ = evaluation.run(L8, STAGE)
    assert code == 0
    assert {name for name, outcome in told.items() if outcome == "kept"} == {("trace", L8.title)}


def test_a_case_is_dry_run_as_a_rank_of_two(evaluation):
    trace = evaluation.dry_run(GPT2)
    assert "--world-size 2 --rank 0" in trace["source"]
    assert "transformer.py --shape gpt2-40b" in trace["source"]
    assert "--accumulation 4 --micro-batch 4 --sequence-length 1024" in trace["source"]
    assert trace["name"] == "GPT-2 40B, 4 x 4 sequences of 1024 tokens"
    assert trace["tokens_per_step"] == 4 * 4 * 1024
    assert traces.origin(GPT2).startswith(
        "a dry run of `evaluation/workloads/transformer.py --shape gpt2-40b` as rank 0 of 2"
    )
    words = evaluation.dry_run(STAGE)["source"]
    assert "--rank 1 " in words and "llama_pipeline.py" in words
    assert "tensor-parallel" not in words


def test_without_a_build_one_line_says_what_to_do(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(driver, "TERAIO", tmp_path / "teraio")
    assert driver.main([]) == 1
    assert "run `make build` first" in capsys.readouterr().err


def test_ops_without_a_kernel_are_left_out_and_their_releases_are_not():
    sizes = [(0, True), (1, False), (2, False), (3, False)]
    view = {"name": "aten::t", "duration_ns": 0, "reads": [0], "writes": [3], "frees": []}
    product = {"name": "aten::mm", "duration_ns": 5, "reads": [0], "writes": [1, 2], "frees": [1]}
    after = {"name": "aten::view", "duration_ns": 0, "reads": [2], "writes": [], "frees": [2, 3]}
    tensors = [{"id": number, "persistent": persistent} for number, persistent in sizes]
    trace = only_kernels({"name": "x", "ops": [view, product, after], "tensors": tensors})
    assert trace["ops"] == [product | {"frees": [1, 2]}]
    assert [tensor["id"] for tensor in trace["tensors"]] == [0, 1, 2]  # 3 has no kernel
    assert trace["name"] == "x"


@pytest.mark.full
@pytest.mark.skipif(
    not torch.__version__.startswith("2.11."),
    reason="not applicable: make paper runs under PyTorch 2.11",
)
def test_stages_of_a_pipeline_train(python):
    """Two processes of torchrun, to see that the script is an ordinary one."""
    script = cases.LLAMA_PIPELINE
    sizes = ["--micro-batch", "2", "--sequence-length", "8", "--accumulation", "3", "--steps", "2"]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = python(*torchrun, script, "--preset", "tiny", *sizes)
    assert done.code == 0, done
    assert done.out.count("step 2/2") == 2


@pytest.mark.parametrize("shape", ["tiny-gpt2", "tiny-t5", "tiny-bert"])
def test_scripts_for_dry_runs_train(warm_python, shape):
    script = cases.TRANSFORMER
    sizes = ["--micro-batch", "2", "--sequence-length", "8", "--accumulation", "2", "--steps", "2"]
    done = warm_python(script, "--shape", shape, *sizes)
    assert done.code == 0, done
    assert [line.split("  ")[0] for line in done.out.splitlines()] == ["step 1/2", "step 2/2"]


def test_shapes_have_the_parameters_of_their_names():
    for name, expected in [("gpt2-40b", 41e9), ("t5-11b", 11e9), ("bert-large", 0.36e9)]:
        with torch.device("meta"):
            model = transformer.Transformer(transformer.SHAPES[name], 512)
        count = sum(parameter.numel() for parameter in model.parameters())
        assert count == pytest.approx(expected, rel=0.05), name
