"""Front ends that people train with give equal bits in a quarter or a half of their memory.

They take turns, and the day draws the share.
"""

import importlib.util
import json

import drawn
import pytest
from front_end_trainings import (
    ENVIRONMENT,
    FOLLOWED,
    LEAST_SHARE,
    PROGRAMS,
    SHARES,
    Training,
    alone,
    by_ranks,
    check_equal_bits,
    example,
    launched,
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

# The iteration from which a plan is in force where many ops take as long to plan as some steps.
FOLLOWED_OF_MANY_OPS = 9

# Examples, small. Of options that are given twice, the last one counts.
LIGHTNING = "--model {small}/llama --data {small}/texts/data.json --length 64 "
TRAINER = "finetune_trainer.py --per_device_train_batch_size 4 --use_cpu " + LIGHTNING
LIGHTNING = "finetune_lightning.py --steps 8 " + LIGHTNING
SAVING = "--output_dir checkpoints --max_steps 8 --save_strategy no "
TRAINER += SAVING
SFT = "finetune_sft.py --model_name_or_path {small}/llama-256 --dataset_name {small}/texts "
SFT += "--packing --max_length 64 --per_device_train_batch_size 2 --use_cpu --bf16 False " + SAVING
GRPO = "train_grpo.py --model_name_or_path {small}/llama-256 --dataset_name {small}/prompts "
GRPO += "--num_generations 4 --max_completion_length 16 --per_device_train_batch_size 4 "
GRPO += "--use_cpu --bf16 False " + SAVING
UNET = "finetune_diffusion.py --model {small}/stable-diffusion --images {small}/images --size 32 "
UNET += "--steps 12 "
STAND_IN = "../python/teraio/stand_in/__main__.py --batch 2 --sequence 8 --steps 12 "
DIT = STAND_IN + "{small}/DiTTransformer2DModel.json --pixels 128 "
FLUX = STAND_IN + "{small}/FluxTransformer2DModel.json --pixels 128 "
WAN = STAND_IN + "{small}/WanTransformer3DModel.json --pixels 96 --frames 9 --precision fp32 "
# A dry run does not apply torch.compile, and ends where accelerate loads a pipeline of diffusers.
NOT_PREDICTED = ("--torch_compile", "finetune_diffusion.py")
# By what each of them shows: the ways to train, each in a process of its own and the same folder.
ALONE = {
    "Trainer": [TRAINER],
    "Trainer in bf16 with accumulation": [TRAINER + "--bf16 --gradient_accumulation_steps 2"],
    "Trainer with checkpointing": [TRAINER + "--gradient_checkpointing"],
    "Trainer with torch_compile": [TRAINER + "--torch_compile"],
    "Trainer that resumes": [
        TRAINER + "--save_strategy steps --save_steps 2 --max_steps 2",
        TRAINER + "--resume_from_checkpoint checkpoints/checkpoint-2",
    ],
    "PEFT's LoRA": [TRAINER + "--lora_rank 8"],
    "TRL's SFTTrainer": [SFT],
    "TRL's GRPOTrainer": [GRPO],
    "Lightning": [LIGHTNING],
    "Lightning in bf16-mixed": [LIGHTNING + "--precision bf16-mixed"],
    "Lightning that resumes": [LIGHTNING + "--steps 2", LIGHTNING + "--resume last.ckpt"],
    "diffusers, a UNet": [UNET],
    "diffusers, a UNet's LoRA": [UNET + "--lora-rank 8"],
    "diffusers, DiT": [DIT],
    "diffusers, Flux": [FLUX + "--precision fp32"],
    "diffusers, Flux's LoRA": [FLUX + "--lora 8 --pixels 192"],
    "diffusers, Wan with checkpointing": [WAN + "--checkpointing"],
    "diffusers, Wan's LoRA": [WAN + "--lora 8"],
}
CHECKPOINT = "--checkpoint.enable --checkpoint.interval="
TITAN_ALONE = {
    "TorchTitan": [""],
    "TorchTitan with full checkpointing": ["--activation_checkpoint.mode=full"],
    "TorchTitan with selective checkpointing": ["--activation_checkpoint.mode=selective"],
    "TorchTitan with accumulation": ["--training.global_batch_size=8"],
    "TorchTitan that resumes": [CHECKPOINT + "2 --training.steps=2", CHECKPOINT + "100"],
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
    "Trainer by accelerate launch": (ACCELERATE, TRAINER + "--ddp_backend gloo"),
    "Lightning's DDP": (TORCHRUN, LIGHTNING),
}
# Two processes of TorchTitan without a launcher: how each of them is parallel.
DEGREE = "--parallelism.{}_parallel_degree=2"
PARALLEL = {
    "FSDP2": ["--parallelism.data_parallel_shard_degree=2"],
    "tensor parallel": [DEGREE.format("tensor")],
    "pipeline": [DEGREE.format("pipeline"), "--parallelism.pipeline_parallel_schedule=1F1B"],
}
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
def test_one_process(warm_packages, small_models, tmp_path, name):
    lines = ALONE[name]
    training = Training(
        alone(warm_packages), tmp_path, *(example(line, small_models) for line in lines)
    )
    folder = "." if len(lines) > 1 or lines[0].startswith(UNET) else None
    followed = FOLLOWED_OF_MANY_OPS if name.startswith("diffusers") else FOLLOWED
    peak_bytes = check_equal_bits(training, drawn.one_of(SHARES, name), folder, followed)
    if len(lines) == 1 and not any(word in lines[0] for word in NOT_PREDICTED):
        assert training.predicted_peak_bytes() == pytest.approx(peak_bytes, rel=0.02)


@pytest.mark.parametrize("name", drawn.in_turn(TITAN_ALONE))
def test_one_process_of_torchtitan(warm_titan, tmp_path, name):
    pytest.importorskip("torchtitan")
    ways = [[PROGRAMS / "titan.py", *options.split()] for options in TITAN_ALONE[name]]
    training = Training(alone(warm_titan), tmp_path, *ways)
    folder = "rank0/dump" if len(ways) > 1 else None
    peak_bytes = check_equal_bits(training, drawn.one_of(SHARES, name), folder)
    if len(ways) == 1:
        assert training.predicted_peak_bytes() == pytest.approx(peak_bytes, rel=0.02)


DISCARDING = """
import runpy, sys
import teraio.core
teraio.core.set_options_for_tests(discard_after_every_op=True)
with teraio.offload("4GB", ssd=sys.argv[1]) as session:
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")
assert session.counters()["on_demand_replays"] > 500
"""


def test_equal_bits_when_all_that_can_be_is_discarded_after_every_op(
    warm_packages, small_models, tmp_path
):
    (tmp_path / "discarding.py").write_text(DISCARDING)
    training = example(TRAINER + "--max_steps 1", small_models)
    training = [PROGRAMS / "outcome.py", *training]
    stock, actual = tmp_path / "stock.json", tmp_path / "actual.json"
    for arguments in (
        [*training, stock],
        [tmp_path / "discarding.py", tmp_path, *training, actual],
    ):
        done = alone(warm_packages)(arguments, tmp_path)
        assert done.returncode == 0, (done.stdout, done.stderr)
    assert json.loads(actual.read_text()) == json.loads(stock.read_text())


def test_adapters_of_a_unet_are_saved_alone(warm_packages, small_models, tmp_path):
    safetensors = pytest.importorskip("safetensors")
    adapters = example(UNET + "--steps 1 --lora-rank 8", small_models)
    done = alone(warm_packages)(adapters, tmp_path)
    assert done.returncode == 0, (done.stdout, done.stderr)
    (path,) = (tmp_path / "unet").iterdir()
    with safetensors.safe_open(path, "pt") as saved:
        assert {name.split(".")[-2] for name in saved.keys()} == {"lora_A", "lora_B"}


SAVES = """
import sys
import accelerate.utils.other, peft, transformers  # before the session
import teraio
config = transformers.AutoConfig.from_pretrained(sys.argv[2])
with teraio.offload("1GB", ssd=sys.argv[1]) as session:
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.save_pretrained("model")
    accelerate.utils.other.save(model.state_dict(), "states", safe_serialization=True)
    config = peft.LoraConfig(target_modules=["q_proj"])
    peft.get_peft_model(model, config).save_pretrained("adapter")
    assert session.counters()["held_for_good_bytes"] == 0
"""


def test_saving_pins_nothing_where_libraries_were_imported_before(
    warm_packages, small_models, tmp_path
):
    (tmp_path / "saving.py").write_text(SAVES)
    arguments = [tmp_path / "saving.py", tmp_path, small_models / "llama"]
    done = alone(warm_packages)(arguments, tmp_path)
    assert done.returncode == 0, (done.stdout, done.stderr)


@pytest.mark.parametrize("way", drawn.in_turn(WRITERS))
def test_checkpoints_have_equal_bytes(warm_packages, tmp_path, way):
    training = Training(alone(warm_packages), tmp_path, [PROGRAMS / "checkpoints.py", way])
    # The first iteration after a checkpoint begins with writing it, which no plan knows.
    check_equal_bits(training, LEAST_SHARE, folder="checkpoint", followed=AFTER_CHECKPOINT)


@pytest.mark.parametrize("name", drawn.in_turn(RANKS))
def test_two_ranks(warm_packages, small_models, tmp_path, name):
    launcher, line = RANKS[name]
    training = Training(by_ranks(warm_packages, 2), tmp_path, example(line, small_models))
    check_equal_bits(training, drawn.one_of(SHARES_OF_DDP, name), launch=launched(*launcher))


@pytest.mark.parametrize("way", drawn.in_turn(PARALLEL))
def test_two_ranks_of_torchtitan(warm_titan, tmp_path, way):
    pytest.importorskip("torchtitan")
    words = [PROGRAMS / "titan.py", *PARALLEL[way]]
    training = Training(by_ranks(warm_titan, 2), tmp_path, words)
    check_equal_bits(training, drawn.one_of(SHARES, way))


@pytest.mark.parametrize("way", drawn.in_turn(PARALLEL_PYTORCH))
def test_ranks_of_pytorch(warm_packages, tmp_path, way):
    run = by_ranks(warm_packages, PARALLEL_PYTORCH[way])
    training = Training(run, tmp_path, [PROGRAMS / "parallel.py", way])
    check_equal_bits(training, drawn.one_of(SHARES, way))
