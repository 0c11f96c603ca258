"""What quantizes numbers trains with equal bits in a half or a quarter of the peak: adapters of a
quantized base, and a UNet with 8-bit Adam, which `accelerate launch` starts within the budget."""

import importlib.util

import drawn
import pytest
from front_end_trainings import (
    ENVIRONMENT,
    FOLLOWED,
    SHARES,
    Training,
    alone,
    check_equal_bits,
    example,
    launched,
)
from warm_python import WarmPython

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

TRAINER = (
    "finetune_trainer.py --model {small}/llama-512 --data {small}/texts/data.json --length 64 "
)
TRAINER += "--output_dir checkpoints --max_steps 8 --per_device_train_batch_size 8 --use_cpu "
TRAINER += "--save_strategy no --lora_rank 8 --quantization "
UNET = "finetune_diffusion.py --model {small}/stable-diffusion --images {small}/images --size 32 "
UNET += "--steps 12 --optimizer bitsandbytes.optim.AdamW8bit"
# By what is quantized: the package that has the kernels, the way to train, and the iteration from
# which a plan is in force.
WAYS = {
    "nf4": ("bitsandbytes", TRAINER + "nf4", FOLLOWED),
    "int8": ("bitsandbytes", TRAINER + "int8", FOLLOWED),
    "torchao": ("torchao", TRAINER + "torchao", FOLLOWED),
    "Adam": ("bitsandbytes", UNET, 9),
}
ACCELERATE = ("-m", "accelerate.commands.launch", "--num_processes", "1", "--num_machines", "1")
ACCELERATE += ("--mixed_precision", "no", "--dynamo_backend", "no")


@pytest.fixture(scope="module")
def warm_packages():
    names = ("transformers", "peft", "diffusers", "bitsandbytes", "torchao")
    server = WarmPython([name for name in names if importlib.util.find_spec(name)], ENVIRONMENT)
    yield server
    server.close()


@pytest.mark.parametrize("way", drawn.in_turn(WAYS))
def test_equal_bits(warm_packages, small_models, tmp_path, way):
    package, line, followed = WAYS[way]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"missing: the package {package}")
    training = Training(alone(warm_packages), tmp_path, example(line, small_models))
    launch = launched(*ACCELERATE) if way == "Adam" else None
    check_equal_bits(training, drawn.one_of(SHARES, way), followed=followed, launch=launch)
