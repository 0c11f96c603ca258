"""make paper: what is kept, what timelines tell, how the document is filled."""

import gzip
import json
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from evaluation import __main__ as driver
from evaluation import cases, document, figures, tables, traces
from evaluation.cached import Cache
from evaluation.command import Refused
from evaluation.kernels import only_kernels
from evaluation.timeline import Timeline
from evaluation.workloads import transformer


def event(row, start_s, length_s, size=0):
    return {
        "ph": "X",
        "tid": row,
        "ts": start_s * 1e6,
        "dur": length_s * 1e6,
        "args": {"bytes": size},
    }


def test_results_are_kept_until_what_they_are_made_from_changes(tmp_path):
    trace = tmp_path / "trace.json"
    trace.write_text("one")
    made = []

    def get(*ingredients):
        cache = Cache(tmp_path / "kept")  # a new one each time: another run
        return cache.get("name", [trace, *ingredients], lambda: made.append(1) or len(made))

    assert get("fast") == (1, False)
    assert get("fast") == (1, True)
    assert get("best") == (2, False)
    trace.write_text("two")
    assert get("fast") == (3, False)


def test_a_stage_that_fails_leaves_nothing_behind(tmp_path):
    cache = Cache(tmp_path)
    with pytest.raises(ZeroDivisionError):
        cache.get("name", [], lambda: 1 / 0)
    assert list(tmp_path.iterdir()) == []
    assert cache.get("name", [], lambda: "made") == ("made", False)


def test_transfers_beside_compute_count_once():
    # compute      0 1 2 3 . 5 6 7         a step of 8 s that stalls in second 4
    # SSD read         2 3 4 5             two channels at once in seconds 4 and 5
    # host write           4 5
    events = [event(1, 0, 4), event(1, 5, 3), event(3, 2, 4, 40), event(6, 4, 2, 20)]
    timeline = Timeline(events, 8)
    assert timeline.overlapped_s() == pytest.approx(3)


def test_what_passes_the_end_of_a_step_belongs_to_its_start():
    timeline = Timeline([event(1, 10, 4), event(5, 13, 2, 20)], 4)  # the step starts at 10 s
    assert timeline.rates(5, 4) == pytest.approx([10, 0, 0, 10])
    assert timeline.overlapped_s() == pytest.approx(2)


def test_rates_add_up_to_what_was_moved():
    timeline = Timeline([event(1, 0, 4), event(3, 0.3, 1.9, 19), event(3, 2.5, 0.1, 5)], 4)
    rates = timeline.rates(3, 7)
    assert sum(rates) * 4 / 7 == pytest.approx(24)


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
        "bound_s": 10.0,
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


def sweep(settings):
    return {"sweeps": [{"settings": [{"setting": s, **outcome} for s, outcome in settings]}]}


@pytest.fixture
def results():
    """What the stages give, with a system of each model that does not fit."""
    fits = {"fits": True, "fraction_of_ideal": 0.8, "step_ns": 2 * 10**9}
    halved = {"fits": True, "fraction_of_ideal": 0.4, "step_ns": 4 * 10**9}
    systems = {system.key: run(20) for system in cases.SYSTEMS}
    systems |= {"ours-mixed": run(16), "zero-offload": {"refused": "host memory is too small"}}
    of_case = {
        "characterization": {"traces": [TRACE]},
        "systems": systems,
        "bandwidth": sweep([({"bandwidth": r * 10**9}, fits) for r in tables.BANDWIDTHS_GB]),
        "grid": sweep(
            [
                ({"drives": 2, "host": 256 * 10**9}, halved),
                ({"drives": 4, "host": 256 * 10**9}, {"fits": False, "reason": "no"}),
                ({"drives": 4, "host": 512 * 10**9}, fits),
            ]
        ),
    }
    found = [*cases.CASES[:3], *cases.settings(), *cases.STAGES]
    return {case.key: of_case | {"rests_on": "a test"} for case in found}


def test_the_document_says_what_the_results_say(results):
    text = document.text_of(results, "images/here")
    assert "images/here/figure-10.png" in text
    over_infinity = "1.25 (1.25 at most, 15 steps)"
    assert f"| TERAIO-Mixed, ours | 62.5 % | does not fit | {over_infinity} |" in text
    assert "| Llama3-70B | 16 | 2,048 | 8 | 1.5 | 50.0 % |" in text
    assert "| Llama3-8B, stage 2 of 2 | forward | 3 | 150.0 % | 10 % | 2 % |" in text
    assert "256 GB per GPU: 50.0 % of its throughput with 4 drives" in text
    assert "Llama3-8B with 2 drives" not in text  # that setting is not among the results
    assert "| Llama3-8B | forward | 3 | 150.0 % | 10 % | 2 % |" in text
    assert "Granite-8B, ZeRO-Offload: does not fit: host memory is too small." in text
    assert "| Llama3-70B | 512 GB | 80.0 % |" in text
    assert "1.25x that of ZeRO-Infinity (3 models)" in text


def test_a_figure_is_drawn_for_each_of_the_papers(results, tmp_path):
    figures.draw_all(results, tmp_path)
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


@pytest.fixture
def command(monkeypatch):
    """Stands in for `teraio`: its dry run writes a trace, or fails."""

    def use(refuses=""):
        def run(*words):
            assert words[:2] == ("dry-run", "--save-trace")
            if refuses:
                raise Refused(refuses)
            dry = {"name": "", "tensors": [], "ops": [], "command": " ".join(map(str, words[3:]))}
            words[2].write_bytes(gzip.compress(json.dumps(dry).encode()))
            return ""

        monkeypatch.setattr(traces, "teraio", run)

    return use


L8, GPT2 = cases.CASES[0], cases.CASES[3]


def command_of(source):
    return json.loads(gzip.decompress(source.path.read_bytes()))["command"]


@pytest.fixture
def extension(monkeypatch, tmp_path):
    """A file in the place of the extension, whose bytes dry runs are kept by."""
    path = tmp_path / "_C.so"
    path.write_text("one")
    monkeypatch.setattr(traces, "EXTENSION", path)
    return path


def test_a_case_is_dry_run_where_the_command_can(command, extension, tmp_path):
    command()
    source = traces.trace_of(GPT2, tmp_path / "made")
    words = command_of(source)
    assert "--world-size 2 --rank 0" in words and "transformer.py --shape gpt2-40b" in words
    assert "--accumulation 4 --micro-batch 4 --sequence-length 1024" in words
    assert source.rests_on.startswith(
        "a dry run of `evaluation/workloads/transformer.py --shape gpt2-40b`"
    )
    trace = json.loads(gzip.decompress(source.path.read_bytes()))
    assert trace["name"] == "GPT-2 40B, 4 x 4 sequences of 1024 tokens"
    assert trace["tokens_per_step"] == 4 * 4 * 1024
    assert [path.name for path in (tmp_path / "made").iterdir()] == [source.path.name]


def test_a_dry_run_is_kept_until_what_it_is_made_with_changes(command, extension, tmp_path):
    command()
    kept = traces.trace_of(GPT2, tmp_path / "made").path
    kept.write_text("kept")
    assert traces.trace_of(GPT2, tmp_path / "made").path.read_text() == "kept"
    extension.write_text("two")
    assert traces.trace_of(GPT2, tmp_path / "made").path != kept


def test_stages_of_a_pipeline_are_ranks(command, extension, tmp_path):
    command()
    words = [command_of(traces.trace_of(stage, tmp_path / "made")) for stage in cases.STAGES]
    assert ["--rank 0 " in words[0], "--rank 1 " in words[1]] == [True, True]
    assert "tensor-parallel" not in words[0] and "llama_pipeline.py" in words[0]


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


def test_a_dry_run_that_fails_leaves_nothing_behind(command, extension, tmp_path):
    command(refuses="the script reads a value")
    with pytest.raises(Refused, match="reads a value"):
        traces.trace_of(L8, tmp_path / "made")
    assert not list((tmp_path / "made").iterdir())


def test_a_dry_run_that_fails_is_told_after_all_others(monkeypatch, tmp_path, capsys):
    def trace_of(case, folder):
        if case is GPT2:
            raise Refused("No module named 'tokenizers'")
        return traces.Source(folder / case.key, "a dry run")

    monkeypatch.setattr(traces, "trace_of", trace_of)
    with ThreadPoolExecutor(1) as pool, pytest.raises(Refused, match="1 of 3 dry runs .*GPT-2 40B"):
        driver.traces_of([L8, GPT2, cases.STAGES[0]], tmp_path, pool)
    said = capsys.readouterr().out
    assert "GPT-2 40B, 4 x 4 sequences of 1024 tokens: failed: No module named 'tokenizers'" in said
    assert "trace 3/3  Llama3-8B, stage 1 of 2" in said


@pytest.mark.skipif(
    not torch.__version__.startswith("2.11."), reason="make paper runs under PyTorch 2.11"
)
def test_stages_of_a_pipeline_train(execute):
    """Two processes of torchrun, to see that the script is an ordinary one."""
    script = cases.LLAMA_PIPELINE
    sizes = ["--micro-batch", "2", "--sequence-length", "8", "--accumulation", "3", "--steps", "2"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = execute(*torchrun, script, "--preset", "tiny", *sizes)
    assert done.code == 0, done
    assert done.out.count("step 2/2") == 2


@pytest.mark.parametrize("shape", ["tiny-gpt2", "tiny-t5", "tiny-bert"])
def test_scripts_for_dry_runs_train(python, shape):
    script = cases.TRANSFORMER
    sizes = ["--micro-batch", "2", "--sequence-length", "8", "--accumulation", "2", "--steps", "2"]
    done = python(script, "--shape", shape, *sizes)
    assert done.code == 0, done
    assert [line.split("  ")[0] for line in done.out.splitlines()] == ["step 1/2", "step 2/2"]


def test_shapes_have_the_parameters_of_their_names():
    for name, expected in [("gpt2-40b", 41e9), ("t5-11b", 11e9), ("bert-large", 0.36e9)]:
        with torch.device("meta"):
            model = transformer.Transformer(transformer.SHAPES[name], 512)
        count = sum(parameter.numel() for parameter in model.parameters())
        assert count == pytest.approx(expected, rel=0.05), name
