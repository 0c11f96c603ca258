"""Trains TorchTitan 0.2's small Llama with its own Trainer: titan.py OPTION...

The options follow those of the example and those that make it small.
"""

import sys
from pathlib import Path

from titan_on_cpus import ConfigManager, Trainer
from titan_training import STEPS, make_folder, train

EXAMPLE = Path(__file__).parents[4] / "examples" / "torchtitan_llama3_8b.toml"


def small(folder):
    return [
        f"--job.config_file={EXAMPLE}",
        "--model.flavor=debugmodel",
        f"--model.hf_assets_path={folder / 'tokenizer'}",
        f"--job.dump_folder={folder / 'dump'}",
        "--training.dataset=c4_test",
        f"--training.dataset_path={folder / 'texts'}",
        "--training.local_batch_size=2",
        "--training.seq_len=128",
        f"--training.steps={STEPS}",
        "--debug.seed=0",
    ]


if __name__ == "__main__":
    train(Trainer(ConfigManager().parse_args([*small(make_folder()), *sys.argv[1:]])))
