"""make paper: what a second run redoes, how the document is filled, what its figures show."""

import functools
import gzip
import json
import multiprocessing
import signal
import sys

import pytest
import torch
from evaluation import (
    analyses,
    cases,
    command,
    document,
    figures,
    tables,
    tasks,
    traces,
)
from evaluation.kernels import only_kernels


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
    assert "| TERAIO-Mixed, ours | 62.5 % | does not fit | 1.25 (maximum 1.25, 9 steps) |" in text
    assert "Llama3-70B is predicted to reach 50.0 % of its throughput with 4 drives" in text
    assert "Llama3-8B is predicted to reach" not in text  # that setting is not among the results
    assert "| Llama3-8B, stage 2 of 2 | forward | 3 | 150.0 % | 10 % | 2 % |" in text
    assert "Granite-8B, ZeRO-Offload: does not fit: host memory is too small." in text


def test_bounds_are_read_from_what_the_planner_prints():
    moves = "no plan is faster than 42.50 s: at most 4.4 % from the best possible\n"
    replays = "no plan is faster than 900.0 ms, none without replays than 42.50 s\n"
    planned = "3 migrations, planned in 5.49 s\n"
    facts = analyses.of_planning(moves + planned)
    assert (facts["bound_s"], facts["replay_bound_s"], facts["planning_s"]) == (42.5, None, 5.49)
    facts = analyses.of_planning(replays + planned)
    assert (facts["bound_s"], facts["replay_bound_s"]) == (42.5, 0.9)


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
