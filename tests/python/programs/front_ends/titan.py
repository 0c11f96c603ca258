"""Trains TorchTitan 0.2's small Llama with its own Trainer: titan.py WAY OUTCOME.

WAY is one of WAYS: the options beyond the common ones.
"""

import sys

from titan_on_cpus import ConfigManager, Trainer
from titan_training import STEPS, make_folder, train

WAYS = {
    "one process": [],
    "full checkpointing": ["--activation_checkpoint.mode=full"],
    "selective checkpointing": ["--activation_checkpoint.mode=selective"],
    "accumulating": ["--training.global_batch_size=8"],
    "saved": ["--checkpoint.enable", "--checkpoint.interval=2", "--training.steps=2"],
    "resumed": ["--checkpoint.enable", "--checkpoint.interval=100"],
    "FSDP2": ["--parallelism.data_parallel_shard_degree=2"],
    "tensor parallel": ["--parallelism.tensor_parallel_degree=2"],
    "pipeline": [
        "--parallelism.pipeline_parallel_degree=2",
        "--parallelism.pipeline_parallel_schedule=1F1B",
    ],
}


def options(way, folder):
    return [
        "--model.name=llama3",
        "--model.flavor=debugmodel",
        f"--model.hf_assets_path={folder / 'tokenizer'}",
        f"--job.dump_folder={folder / 'dump'}",
        "--training.dataset=c4_test",
        f"--training.dataset_path={folder / 'texts'}",
        "--training.local_batch_size=2",
        "--training.seq_len=128",
        f"--training.steps={STEPS}",
        "--metrics.log_freq=1",
        "--debug.seed=0",
        "--checkpoint.no_last_save_model_only",
        "--activation_checkpoint.mode=none",
        *WAYS[way],
    ]


if __name__ == "__main__":
    train(Trainer(ConfigManager().parse_args(options(sys.argv[1], make_folder()))))
