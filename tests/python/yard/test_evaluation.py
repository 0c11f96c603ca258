"""make paper: what a second run redoes, how the document is filled, what its figures show."""

import shutil
import sys

import pytest
import torch
from evaluation import cases, command, document, figures, tables, tasks, traces


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
    "per_op": {"duration_ns": [1, 2, 3], "all_bytes": [100, 150, 0], "active_bytes": [10, 5, 0]},
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
    text = document.text_of(results, tasks.Folders().document.read_text())
    assert "| TERAIO-Mixed, ours | 62.5 % | does not fit | 1.25 (maximum 1.25, 9 steps) |" in text
    assert "Llama3-70B is predicted to reach 50.0 % of its throughput with 4 drives" in text
    assert "Llama3-8B is predicted to reach" not in text  # that setting is not among the results
    assert "| Llama3-8B, stage 2 of 2 | 3 | 150.0 % | 10 % | 2 % |" in text
    assert "| Llama3-70B | TERAIO-Mixed, ours | 59.7 % | 62.5 % | 2,048 |" in text
    assert "| Llama3-8B | 50.0 % | 50.0 % | 37.5 % |" in text  # stalled, under the first systems
    assert "| Llama3-8B | 0.2, 5.0 GB/s; 95.0 % |" in text
    assert "| Granite-8B | ZeRO-Offload | 65.5 % | does not fit |  |" in text


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


WANTED = [cases.CASES[0], cases.CASES[3], cases.settings()[0], cases.STAGES[1]]

# Stands in for `teraio`: its dry runs write a trace; all else is done by the command of the build.
STAND_IN = """#!{python}
import gzip, json, os, pathlib, sys
words, folder = sys.argv[1:], pathlib.Path({folder!r})
if words[0] != "dry-run":
    os.execv({command!r}, [{command!r}, *words])
trace = json.loads((folder / "trace.json").read_text()) | {{"source": " ".join(words)}}
with gzip.open(words[words.index("--save-trace") + 1], "wt") as file:
    json.dump(trace, file)
"""


@pytest.fixture
def evaluate(monkeypatch, tmp_path, capsys, small):
    """Runs the evaluation of WANTED in a folder of its own. Gives doit's mark of each task."""
    stand_in = tmp_path / "teraio"
    stand_in.write_text(
        STAND_IN.format(python=sys.executable, command=str(command.TERAIO), folder=str(tmp_path))
    )
    stand_in.chmod(0o755)
    monkeypatch.setattr(command, "TERAIO", stand_in)
    monkeypatch.setattr(traces, "BUILT_PACKAGE", tmp_path)
    few = cases.SYSTEMS_OF_FIGURES
    monkeypatch.setattr(cases, "SYSTEMS", few)
    monkeypatch.setattr(cases, "SSD_SYSTEMS", [system for system in few if not system.host])
    monkeypatch.setattr(cases, "HOST_SYSTEMS", [system for system in few if system.host])
    monkeypatch.setattr(cases, "FRUGAL_SYSTEMS", [])
    monkeypatch.setattr(figures, "FIGURES", {"figure-3": figures.FIGURES["figure-3"]})
    folders = tasks.Folders(tmp_path / "build", tmp_path / "evaluation.md", tmp_path / "images")
    shutil.copy(tasks.Folders().document, folders.document)

    def evaluate():
        assert tasks.run(WANTED, folders, 2) == 0
        said = capsys.readouterr()
        assert said.err == ""
        return {name: mark for mark, name in map(str.split, said.out.splitlines())}

    return evaluate


def test_a_run_writes_the_document_and_a_second_one_redoes_nothing_else(evaluate, tmp_path):
    told = evaluate()
    assert set(told.values()) == {"."}
    assert [sum(name.startswith(kind) for name in told) for kind in ("trace", "analysis")] == [
        4,
        36,
    ]
    text = (tmp_path / "evaluation.md").read_text()
    assert "| GPT-2 40B | 4 x 4 sequences of 1024 tokens | 5 |" in text
    assert (tmp_path / "images" / "figure-3.png").stat().st_size > 1000

    (tmp_path / "evaluation.md").write_text(text.replace("| 5 |", "| edited by hand |"))
    assert {name for name, mark in evaluate().items() if mark != "--"} == {"document"}
    assert (tmp_path / "evaluation.md").read_text() == text


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
