"""Front ends that people train with give equal bits in a quarter or a half of their memory.

They take turns, and the day draws the share.
"""

import importlib.util
import json
import os
import subprocess
import sys

import drawn
import pytest
from front_end_trainings import (
    ENVIRONMENT,
    LEAST_SHARE,
    PROGRAMS,
    SHARES,
    Training,
    alone,
    by_ranks,
    check_equal_bits,
)
from warm_python import WarmPython

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

# Importing these takes longer than training. What stands for a GPU when TorchTitan is imported must
# not do so for the others.
PARALLELISMS = ("fsdp", "pipelining", "tensor.parallel")
PACKAGES = (
    *(f"torch.distributed.{name}" for name in PARALLELISMS),
    "transformers.trainer",
    "datasets",
    "peft",
    "trl",
    "diffusers",
    "lightning.pytorch",
)
TITAN = ("titan_on_cpus",) if importlib.util.find_spec("torchtitan") else ()
# DDP's buckets hold all gradients, and a reduction uses a bucket as a whole.
SHARES_OF_DDP = (50, 35)

# The packages whose peak a dry run tells.
PREDICTED = ("transformers", "lightning", "trl", "peft", "diffusers", "torchtitan")

# The iteration from which a plan is in force: its many ops take as long to plan as some steps.
FOLLOWED = {"diffusers": 9}

# The folders that front ends write checkpoints to.
CHECKPOINTS = {"transformers": "checkpoints", "lightning": ".", "torchtitan": "rank0/dump"}

# By what each of them shows: the package that it needs, its program, and the ways to train with it,
# each in a process of its own and the same folder.
ALONE = {
    "Trainer": ("transformers", "hf_trainer.py", "fp32"),
    "Trainer in bf16 with accumulation": ("transformers", "hf_trainer.py", "bf16, accumulating"),
    "Trainer with checkpointing": ("transformers", "hf_trainer.py", "checkpointing"),
    "Trainer with torch_compile": ("transformers", "hf_trainer.py", "compiled"),
    "Trainer that resumes": ("transformers", "hf_trainer.py", "saved", "resumed"),
    "PEFT's LoRA": ("peft", "lora.py", "fp32"),
    "TRL's SFTTrainer": ("trl", "sft.py", "packed"),
    "Lightning": ("lightning", "lightning_fit.py", "fp32"),
    "Lightning in bf16-mixed": ("lightning", "lightning_fit.py", "bf16-mixed"),
    "Lightning that resumes": ("lightning", "lightning_fit.py", "saved", "resumed"),
    "diffusers, a UNet": ("diffusers", "diffusion.py", "UNet, EMA"),
    "diffusers, a UNet's LoRA": ("diffusers", "diffusion.py", "UNet, LoRA"),
    "diffusers, Flux": ("diffusers", "diffusion.py", "Flux"),
    "diffusers, Flux's LoRA in bf16": ("diffusers", "diffusion.py", "Flux, LoRA, bf16"),
    "diffusers, Wan with checkpointing": ("diffusers", "diffusion.py", "Wan, checkpointing"),
    "diffusers, Wan's LoRA": ("diffusers", "diffusion.py", "Wan, LoRA"),
    "TorchTitan": ("torchtitan", "titan.py", "one process"),
    "TorchTitan with full checkpointing": ("torchtitan", "titan.py", "full checkpointing"),
    "TorchTitan with selective checkpointing": (
        "torchtitan",
        "titan.py",
        "selective checkpointing",
    ),
    "TorchTitan with accumulation": ("torchtitan", "titan.py", "accumulating"),
    "TorchTitan that resumes": ("torchtitan", "titan.py", "saved", "resumed"),
}
# What writes a checkpoint after 6 iterations, and after 12.
AFTER_CHECKPOINT = 7
WRITERS = (
    "torch.save",
    "safetensors",
    "distributed checkpoint",
    "asynchronous distributed checkpoint",
)
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
ACCELERATE = ("-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2")
ACCELERATE += ("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no")
# Two processes on one machine, by the launcher that starts them.
RANKS = {
    "Trainer by accelerate launch": (ACCELERATE, "transformers", "hf_trainer.py", "DDP"),
    "Lightning's DDP": (TORCHRUN, "lightning", "lightning_fit.py", "DDP"),
}
# Two processes of TorchTitan without a launcher: how each of them is parallel.
PARALLEL = ("FSDP2", "tensor parallel", "pipeline")
# The same with PyTorch alone, and the number of processes.
PARALLEL_PYTORCH = {
    "interleaved 1F1B": 2,
    "FSDP2 and tensor parallel": 4,
    "FSDP2 and pipeline": 4,
    "tensor parallel and pipeline": 4,
}


@pytest.fixture(scope="module")
def warm_packages():
    installed = [name for name in PACKAGES if importlib.util.find_spec(name.partition(".")[0])]
    server = WarmPython(installed, ENVIRONMENT)
    yield server
    server.close()


@pytest.fixture(scope="module")
def warm_titan():
    server = WarmPython(TITAN, ENVIRONMENT)
    yield server
    server.close()


@pytest.mark.parametrize("name", drawn.in_turn(ALONE))
def test_one_process(warm_packages, warm_titan, tmp_path, name):
    package, program, *ways = ALONE[name]
    pytest.importorskip(package)
    server = warm_titan if package == "torchtitan" else warm_packages

    training = Training(alone(server), tmp_path, program, *ways)
    folder = CHECKPOINTS[package] if "saved" in ways else None
    options = {"followed": FOLLOWED[package]} if package in FOLLOWED else {}
    peak_bytes = check_equal_bits(training, drawn.one_of(SHARES, name), folder, **options)
    # A dry run does not apply torch.compile, which changes the peak.
    if package in PREDICTED and len(ways) == 1 and ways != ["compiled"]:
        predicted_bytes = training.predicted_peak_bytes()
        assert predicted_bytes == pytest.approx(peak_bytes, rel=0.02)


DISCARDING = """
import runpy, sys
import teraio.core
teraio.core.set_options_for_tests(discard_after_every_op=True)
with teraio.offload("4GB", ssd=sys.argv[1]) as session:
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")
assert session.counters()["on_demand_replays"] > 500
"""


def test_equal_bits_when_all_that_can_be_is_discarded_after_every_op(warm_packages, tmp_path):
    pytest.importorskip("transformers")
    (tmp_path / "discarding.py").write_text(DISCARDING)
    training = [PROGRAMS / "hf_trainer.py", "one step"]
    stock, actual = tmp_path / "stock.json", tmp_path / "actual.json"
    for arguments in (
        [*training, stock],
        [tmp_path / "discarding.py", tmp_path, *training, actual],
    ):
        (done,) = warm_packages.run([(arguments, {})], tmp_path, os.environ | ENVIRONMENT)
        assert done.returncode == 0, (done.stdout, done.stderr)
    assert json.loads(actual.read_text()) == json.loads(stock.read_text())


SAVING = """
import sys
import accelerate.utils.other, peft, transformers  # before the session
import teraio
from small_llama import make_llama
with teraio.offload("1GB", ssd=sys.argv[1]) as session:
    model = make_llama()
    model.save_pretrained("model")
    accelerate.utils.other.save(model.state_dict(), "states", safe_serialization=True)
    config = peft.LoraConfig(target_modules=["q_proj"])
    peft.get_peft_model(model, config).save_pretrained("adapter")
    assert session.counters()["held_for_good_bytes"] == 0
"""


def test_saving_pins_nothing_where_libraries_were_imported_before(warm_packages, tmp_path):
    for package in ("transformers", "accelerate", "peft"):
        pytest.importorskip(package)
    (tmp_path / "saving.py").write_text(SAVING)
    done = alone(warm_packages)([tmp_path / "saving.py", tmp_path], tmp_path)
    assert done.returncode == 0, (done.stdout, done.stderr)


@pytest.mark.parametrize("way", drawn.in_turn(WRITERS))
def test_checkpoints_have_equal_bytes(warm_packages, tmp_path, way):
    training = Training(alone(warm_packages), tmp_path, "checkpoints.py", way)
    # The first iteration after a checkpoint begins with writing it, which no plan knows.
    check_equal_bits(training, LEAST_SHARE, folder="checkpoint", followed=AFTER_CHECKPOINT)


@pytest.mark.parametrize("name", drawn.in_turn(RANKS))
def test_two_ranks(warm_packages, tmp_path, name):
    launcher, package, program, way = RANKS[name]
    pytest.importorskip(package)

    def launch(arguments, folder):
        command = [sys.executable, *launcher, *map(str, arguments)]
        environment = os.environ | ENVIRONMENT
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
        )

    training = Training(by_ranks(warm_packages, 2), tmp_path, program, way)
    check_equal_bits(training, drawn.one_of(SHARES_OF_DDP, name), launch=launch)


@pytest.mark.parametrize("way", drawn.in_turn(PARALLEL))
def test_two_ranks_of_torchtitan(warm_titan, tmp_path, way):
    pytest.importorskip("torchtitan")
    training = Training(by_ranks(warm_titan, 2), tmp_path, "titan.py", way)
    check_equal_bits(training, drawn.one_of(SHARES, way))


@pytest.mark.parametrize("way", drawn.in_turn(PARALLEL_PYTORCH))
def test_ranks_of_pytorch(warm_packages, tmp_path, way):
    run = by_ranks(warm_packages, PARALLEL_PYTORCH[way])
    training = Training(run, tmp_path, "parallel.py", way)
    check_equal_bits(training, drawn.one_of(SHARES, way))
