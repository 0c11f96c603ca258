"""make what-to-buy: how the page and the table for browsers describe predicted steps."""

import json
import sys

import pytest
import torch
from evaluation import cases
from evaluation.what_to_buy import fit_table, grid, page, steps

sys.path.insert(0, str(cases.LLAMA.parent))
import pretrain_llama
from llama.model import Llama

ZERO = (steps.ZERO_OFFLOAD, steps.ZERO_INFINITY)
QUESTIONS = [
    *grid.Part("8b", ("full-fp32",), 2, ("rtx-4090", "gh200"), (128,), (0, 2)).questions(),
    *grid.Part("8b", ("full-fp32",), 2, ("rtx-4090",), (128,), (0, 2), ZERO).questions(),
]
NO_HOST = {"refused": "no tier has room for 9 bytes that leave at op 1: host holds 9, SSD 0"}
NO_ROOM = {
    "refused": "op 3 (x) needs 9 bytes more than the device budget of 8: the tiers have no room"
}
NO_DEVICE = {"refused": "op 3 (x) needs 9 bytes, the device budget is 8"}


def run(step_s=10.0, written=10**12, stall_s=5.0):
    return {
        "tokens": 16_384,
        "step_ns": step_s * 1e9,
        "stall_ns": stall_s * 1e9,
        "ideal_ns": (step_s - stall_s) * 1e9,
        "natural_peak_bytes": 10**11,
        "host_peak_bytes": 10**10,
        "ssd_bytes_written": written,
        "ssd_bytes_read": written,
        "stall_by_cause": {"memory": stall_s * 1e9, "read": 0, "write": 0},
    }


def outcomes(**of_systems):
    """Pairs each question with a run, or with what `of_systems` has for the system's key."""
    chosen = {system.replace("_", "-"): outcome for system, outcome in of_systems.items()}
    return [
        (
            question,
            run(written=question.machine.drives * 10**12) | chosen.get(question.system.key, {}),
        )
        for question in QUESTIONS
    ]


@pytest.mark.parametrize(
    ("outcome", "words"),
    [(NO_HOST, "no: host memory is full"), (NO_DEVICE, "no: the device is full")],
)
def test_page_names_what_does_not_fit(outcome, words):
    text = page.text_of(outcomes(zero_offload=outcome, zero_infinity=run(step_s=20.0)))
    assert text.count(f"| {words} |") == 1
    assert f"| {16_384 / 20:,.0f} (75 %) |" in text
    assert f"| {16_384 / 10:,.0f} (50 %) |" in text


def test_row_has_the_machine_with_the_least_price_per_token():
    text = page.text_of(outcomes())
    assert "| GeForce RTX 4090 | 128 GB | 0 |" in text  # drives wear out and are no faster
    faster = run(step_s=0.1, stall_s=0.05, written=10**9)
    text = page.text_of(outcomes()[:1] + [(QUESTIONS[1], faster)] + outcomes()[2:])
    assert "| GeForce RTX 4090 | 128 GB | 2 |" in text


def test_measured_rows_have_ours_at_the_same_tokens():
    large = grid.Part("8b", ("full-bf16",), 16, ("rtx-4090",), (128,), (0,))
    small = grid.Part("8b", ("full-bf16",), 2, ("rtx-4090",), (128,), (0,))
    plans = [(next(small.questions()), run(step_s=10.0))]
    plans.append((next(large.questions()), run(step_s=52.0) | {"tokens": 131_072}))
    text = page.text_of(outcomes() + plans)
    # 62 micro-batches of 3 s after the first two.
    assert f"{524_288 / (10 + 62 * 3):,.0f} (524k tokens, 128 GB of host memory)" in text
    assert f"{16_384 / 10:,.0f} (16k tokens, 128 GB of host memory)" in text  # of 4,096


def test_table_for_browsers_has_a_row_for_each_of_our_plans():
    text = fit_table.text_of(outcomes(teraio=NO_ROOM)[:1] + outcomes()[1:])
    table = json.loads(text.removeprefix("window.TERAIO_FIT = ").removesuffix(";\n"))
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    assert [(row["device"], row["host_memory_gb"], row["drives"]) for row in rows] == [
        ("rtx-4090", 128, 0),
        ("rtx-4090", 128, 2),
        ("gh200", 480, 0),  # comes with its host memory
        ("gh200", 480, 2),
    ]
    assert (rows[0]["step_seconds"], rows[0]["waits_for"]) == (None, "no: host memory is full")
    assert (rows[1]["step_seconds"], rows[1]["memory_needed_bytes"]) == (10.0, 10**11)
    assert {row["model"] for row in rows} <= {model["key"] for model in table["models"]}
    assert [each["key"] for each in table["devices"] if each["is_arm"]] == ["gh200"]


def test_memory_without_offloading_is_what_lives_at_once():
    trace = {
        "tensors": [
            {"id": 0, "bytes": 8, "persistent": True},
            {"id": 1, "bytes": 4, "persistent": False},
            {"id": 2, "bytes": 2, "persistent": False},
        ],
        "ops": [
            {"reads": [0], "writes": [1], "frees": [], "duration_ns": 3, "workspace_bytes": 1},
            {"reads": [1], "writes": [2], "frees": [1], "duration_ns": 4},
            {"reads": [2], "writes": [0], "frees": [2], "duration_ns": 5},
        ],
    }
    assert steps.without_offloading(trace) == {"ideal_ns": 12, "natural_peak_bytes": 14}


@pytest.mark.parametrize("model", steps.MODELS.values(), ids=steps.MODELS)
def test_parameters_are_those_of_the_script(model):
    config = pretrain_llama.config_of(pretrain_llama.parse_arguments(map(str, model.options)))
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in Llama(config).parameters())
    assert count == model.parameters
