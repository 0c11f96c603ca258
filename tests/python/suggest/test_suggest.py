"""`teraio suggest`: limits that suffice, a line that runs, and no TERAIO where none is needed."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from teraio.directories import cache_directory
from teraio.errors import Error
from teraio.stand_in import __main__ as stand_in
from teraio.suggest.alternatives import alternatives
from teraio.suggest.device import name_of_gpu
from teraio.suggest.drives import choose_directories, share_of

HARDWARE = Path(__file__).parents[3] / "examples" / "hardware" / "h100_nvl.json"

# 277 MB at the peak.
TRAIN = """\
import sys
import torch
blocks = [torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.GELU()) for _ in range(8)]
model = torch.nn.Sequential(*blocks)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    loss = model(torch.randn(2048, 1024)).square().mean()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def suggest(warm_python, tmp_path):
    """Runs `python -m teraio suggest ARGUMENTS... train.py 6` with a cache of its own."""
    (tmp_path / "train.py").write_text(TRAIN)

    def suggest(*arguments):
        environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
        command = ("-m", "teraio", "suggest", *arguments, "train.py", "6")
        return warm_python(*command, env=environment)

    return suggest


@pytest.fixture
def suggestion(suggest):
    """What it prints with --json, on an accelerator and drives that are not here."""

    def suggestion(*arguments):
        outcome = suggest(
            *("--json", "--accelerator", "h100-nvl", "--hardware", HARDWARE, *arguments)
        )
        assert outcome.code == 0, outcome
        return json.loads(outcome.out)

    return suggestion


@pytest.mark.full
def test_what_fits_needs_no_teraio(suggestion, suggest, tmp_path):
    found = suggestion()
    assert found["fits"] and found["command"][-2:] == ["train.py", "6"]
    assert "teraio" not in " ".join(found["command"])
    assert 270e6 < found["peak_bytes"] < 285e6
    assert not (tmp_path / "cache").exists()  # no drive has been looked at
    assert "it needs no TERAIO" in suggest("--accelerator", "h100-nvl").out


def test_a_script_that_fails_is_not_measured_for(suggest, tmp_path):
    (tmp_path / "train.py").write_text("import torch\ntorch.ones(3)\n1 / 0\n")
    outcome = suggest("--device", "cpu")
    assert outcome.code == 1 and "ZeroDivisionError" in outcome.err
    assert "measuring" not in outcome.out and not [*(tmp_path / "cache").glob("**/*.json")]


def test_limits_and_step_of_a_plan(suggestion):
    found = suggestion("--device-budget", "120MB", "--host-limit", "0")
    assert not found["fits"] and found["device_budget_bytes"] == 120_000_000
    assert found["command"][1:] == (
        ["run", "--device", "cuda", "--device-budget", "120MB"]
        + [word for drive in "1234" for word in ("--ssd", f"DIR{drive}")]
        + ["train.py", "6"]
    )
    assert found["step_ns"] > found["ideal_ns"] > 0
    assert found["fraction_of_ideal"] == pytest.approx(found["ideal_ns"] / found["step_ns"])
    per_day = found["ssd_bytes_written"] / found["step_ns"] * 1e9 * 86400
    assert found["ssd_bytes_written_per_day"] == pytest.approx(per_day, rel=1e-6)
    rated = sum(drive["rated_bytes_written"] for drive in found["drives"])
    assert found["drive_life_days"] == pytest.approx(rated / per_day)
    times = [change["step_ns"] for change in found["changes"]]
    assert times and times == sorted(times) and times[-1] < found["step_ns"]


def test_host_memory_is_what_the_plan_uses(suggestion):
    found = suggestion("--device-budget", "120MB")
    peak = found["host_peak_bytes"]
    assert peak > 0
    # The pool, and four rings of 16 MiB between drives and GPU.
    assert peak < found["host_limit_bytes"] - (64 << 20) < 1.2 * peak
    assert found["command"][6:8] == ["--host-limit", str(found["host_limit_bytes"])]


@pytest.mark.full
def test_processes_share_the_machine(suggestion):
    alone = suggestion("--device-budget", "120MB", "--host-limit", "0")
    shared = suggestion("--device-budget", "120MB", "--host-limit", "0", "--world-size", "2")
    assert shared["step_ns"] > alone["step_ns"]
    assert shared["command"][:6] == ["torchrun", "--nproc-per-node", "2", "-m", "teraio", "run"]


# Two blocks of 100 kB of parameters each, in which `a` is read by the backward pass only.
KINDS = {"w": "parameter", "s": "optimizer_state", "g": "gradient"}
SIZES = dict(zip("wsgahdt", (100, 200, 100, 50, 10, 10, 40), strict=True))  # kB
OPS = ["a0t0<w0", "h0<a0t0", "a1<w1h0", "h1<a1", "g1d1<a1h1w1", "g0d0<a0w0d1", "w0s0w1s1<g0g1"]


def trace_of_two_blocks():
    tensors = [kind + block for kind in SIZES for block in "01"]
    split = re.compile("[a-z][01]").findall
    return {
        "tensors": [
            {
                "id": name,
                "bytes": 1000 * SIZES[name[0]],
                "persistent": name[0] in "ws",
                "kind": KINDS.get(name[0], "activation"),
                "name": f"layers.{name[1]}" + (" backward" if name[0] == "d" else " (train.py:1)"),
            }
            for name in tensors
        ],
        "ops": [
            {
                "writes": split(made),
                "reads": split(read),
                "workspace_bytes": 100_000 if made == "g1d1" else 0,
            }
            for made, read in (op.split("<") for op in OPS)
        ],
    }


def test_what_would_fit_without(tmp_path):
    (tmp_path / "trace.json").write_text(json.dumps(trace_of_two_blocks()))
    trained = [((2, 3), [(50_000, 4), (1, 4)])] * 2

    def fitting(budget):
        found = alternatives([tmp_path / "trace.json"], trained, budget)
        return {each.what: each.peak_bytes for each in found}

    lora, states, blocks = whats = [*fitting(900_000)]
    # Of 920 kB in the fifth op: without gradients and states, and with adapters of 5 x 16 elements;
    # without three quarters of the states; with `h0` kept until `a1` is made again.
    sizes = (420_000 + 2 * 80 * 16, 920_000 - 2 * 149_218, 880_000)
    assert fitting(900_000) == dict(zip(whats, sizes, strict=True))
    assert [*fitting(700_000)] == [lora, states] and [*fitting(500_000)] == [lora]
    # The fifth op without gradients, states and `a0`.
    assert fitting(400_000) == {f"{lora} and {blocks}": 380_000 + 2 * 80 * 16}
    assert fitting(300_000) == {}


SHARDED = """\
import torch
from torch.distributed.fsdp import fully_shard
torch.distributed.init_process_group("gloo")
model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024, bias=False) for _ in range(8)))
for part in (*model, model):
    fully_shard(part)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(6):
    model(torch.randn(256, 1024)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.full
def test_states_in_8_bits_are_those_of_the_rank(suggestion, tmp_path):
    (tmp_path / "train.py").write_text(SHARDED)
    options = ("--world-size", "2", "--host-limit", "0", "--device-budget")
    found = suggestion(*options, "60MB")
    assert found["peak_bytes"] > 60e6
    (states,) = (each for each in found["alternatives"] if "8 bits" in each["what"])
    saved = 4 * 2**20 * 2 * (4 - 1 - 4 / 256)  # half of the parameters, two states each
    assert states["peak_bytes"] == pytest.approx(found["peak_bytes"] - saved, rel=1e-4)


def test_share_of_a_process():
    hardware = json.loads(HARDWARE.read_text())
    half = share_of(hardware, 2)
    for whole, part in zip(hardware["drives"], half["drives"], strict=True):
        assert part["read_bytes_per_second"] == whole["read_bytes_per_second"] // 2
        assert part["duplex"] == whole["duplex"]
    assert half["host"]["capacity_bytes"] == hardware["host"]["capacity_bytes"] // 2


def test_budget_that_no_plan_keeps(suggest):
    options = ["--accelerator", "h100-nvl", "--hardware", HARDWARE]
    outcome = suggest(*options, "--device-budget", "20MB")
    assert outcome.code == 1 and outcome.err.count("\n") == 1
    assert re.match(r"teraio suggest: the training needs .* on drives: no plan: op ", outcome.err)
    assert "the least budget that would do" in outcome.err


@pytest.mark.parametrize(
    "option, value",
    [
        ("--device-budget", "much"),
        ("--ssd", "absent"),
        ("--hardware", "absent.json"),
        ("--rated-writes", "many"),
        ("--steps", "1"),
        ("--accelerator", "abacus"),
    ],
)
def test_wrong_values_end_it_before_the_script_runs(suggest, option, value):
    outcome = suggest(option, value)
    assert (outcome.code, outcome.out) == (2, ""), outcome
    assert outcome.err.count("\n") == 1 and value in outcome.err


@pytest.mark.parametrize(
    "gpu, name",
    [
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb"),
        ("NVIDIA A100-PCIE-40GB", "a100-40gb"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 5060 Ti", "rtx-5060-ti"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000"),
        ("NVIDIA GH200 480GB", "gh200"),
    ],
)
def test_rates_of_a_gpu_by_its_name(gpu, name):
    assert name_of_gpu(gpu) == name


def test_gpu_that_is_not_known():
    with pytest.raises(Error, match="Tesla T4 are not known: give a similar device with --accel"):
        name_of_gpu("Tesla T4")


def test_the_default_directory_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert choose_directories(None)[0] == tmp_path.resolve() / "teraio" / "ssd"


@pytest.mark.full
def test_more_host_memory_is_no_help_where_it_is_the_devices(suggest, tmp_path):
    options = ["--json", "--device-budget", "120MB", "--hardware", HARDWARE, "--host-limit", "0"]
    helps = {}
    for device in ("cpu", "cuda"):
        given = ["--device", "cpu"] if device == "cpu" else []
        outcome = suggest(*options, *given, "--accelerator", "h100-nvl")
        found = json.loads(outcome.out)
        assert found["device"] == device
        helps[device] = {change["what"] for change in found["changes"]}
    assert "64 GB more host memory" in helps["cuda"]
    assert "64 GB more host memory" not in helps["cpu"]


@pytest.fixture
def known_drive(tmp_path):
    """A directory on a drive that has been measured before, as far as this machine knows it."""
    (tmp_path / "cache" / "teraio").mkdir(parents=True)
    for rates in cache_directory().glob("probe-*.json"):
        shutil.copy(rates, tmp_path / "cache" / "teraio")
    (tmp_path / "drive").mkdir()
    return tmp_path / "drive"


@pytest.mark.full
def test_the_suggested_line_keeps_its_promises(suggest, known_drive, execute, tmp_path):
    """The suggestion is for this CPU and this drive; the run tells what became of it."""
    outcome = suggest("--json", "--device-budget", "150MB", "--ssd", known_drive)
    assert outcome.code == 0, outcome
    assert "measuring this CPU once" in outcome.err
    found = json.loads(outcome.out)
    assert found["command"][-2:] == ["train.py", "6"]
    command = [*found["command"][:-1], "12"]
    command[2:2] = ["--report", "report"]
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = execute(*command, env=environment, timeout_s=600)
    assert done.code == 0, done
    run = json.loads((tmp_path / "report" / "run.json").read_text())
    assert run["natural_peak_bytes"] == pytest.approx(found["peak_bytes"], rel=0.02)
    assert run["device_peak_bytes"] <= 150_000_000
    measured = run["steps"][-1]["seconds"]
    print(f"measured {measured:.2f} s per step, predicted {found['step_ns'] / 1e9:.2f} s")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("UNet2DModel", "UNet2DModel is none of DiTTransformer2DModel, "),
        ("WanTransformer3DModel", "pip install what is missing of transformers diffusers"),
    ],
)
def test_a_stand_in_names_what_it_lacks(execute, tmp_path, kind, expected):
    (tmp_path / "config.json").write_text(json.dumps({"_class_name": kind}))
    without = "import sys; sys.modules['diffusers'] = None; from teraio.stand_in import __main__"
    outcome = execute(sys.executable, "-c", f"{without}; __main__.main()", "config.json")
    assert outcome.code == 2
    assert expected in outcome.err


def test_a_stand_in_computes_the_same_each_time(monkeypatch, tmp_path, capsys):
    pytest.importorskip("diffusers")
    kind = {"_class_name": "DiTTransformer2DModel", "num_layers": 1, "num_attention_heads": 2}
    (tmp_path / "config.json").write_text(json.dumps(kind | {"attention_head_dim": 16}))
    words = ["stand_in", str(tmp_path), "--batch", "1", "--pixels", "64", "--steps", "1"]
    monkeypatch.setattr(sys, "argv", words)
    stand_in.main()
    stand_in.main()
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
