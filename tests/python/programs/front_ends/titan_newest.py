"""Trains TorchTitan 0.3's small Llama with its own Trainer: titan_newest.py WAY.

WAY is one of WAYS: what to change in the configuration.
"""

import sys

import titan_on_cpus  # noqa: F401  first: it stands for a GPU when TorchTitan is imported
from titan_training import STEPS, make_folder, train
from torchtitan.models.common.attention import ScaledDotProductAttention
from torchtitan.models.llama3.config_registry import llama3_debugmodel

LAYERS = 3
SAVED_STEPS = 4


def one_process(config):
    config.activation_checkpoint = None


def compiled(config):
    config.compile.enable = True


def saved(config):
    """The checkpoint after the second step is written while the next ones train."""
    config.activation_checkpoint = None
    config.checkpoint.enable, config.checkpoint.interval = True, 2
    config.checkpoint.async_mode = "async"
    config.training.steps = SAVED_STEPS


def resumed(config):
    saved(config)
    config.checkpoint.interval, config.training.steps = 100, SAVED_STEPS + STEPS


def sharded(config):
    config.activation_checkpoint = None
    config.parallelism.data_parallel_shard_degree = 2


def tensor_parallel(config):
    config.activation_checkpoint = None
    config.parallelism.tensor_parallel_degree = 2


def pipeline(config):
    config.activation_checkpoint = None
    config.parallelism.pipeline_parallel_degree = 2
    config.parallelism.pipeline_parallel_schedule = "1F1B"


WAYS = {
    "one process": one_process,
    "compiled": compiled,
    "saved": saved,
    "resumed": resumed,
    "FSDP2": sharded,
    "tensor parallel": tensor_parallel,
    "pipeline": pipeline,
}


def configuration(way, folder):
    config = llama3_debugmodel()
    del config.model_spec.model.layers[LAYERS:]
    for layer in config.model_spec.model.layers:  # the others have no backward pass on the CPU
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    config.hf_assets_path = str(folder / "tokenizer")
    config.dump_folder = str(folder / "dump")
    config.dataloader.dataset_path = str(folder / "texts")
    config.training.local_batch_size, config.training.seq_len = 2, 128
    config.training.steps = STEPS
    config.training.disable_cuda_graphs = True
    config.debug.seed = 0
    WAYS[way](config)
    return config


if __name__ == "__main__":
    train(configuration(sys.argv[1], make_folder()).build())
