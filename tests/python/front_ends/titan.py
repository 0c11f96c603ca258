"""Trains TorchTitan's small Llama with its own Trainer: titan.py WAY OUTCOME.

WAY is one of WAYS: the options beyond the common ones. A rank is a process that `torchrun` starts;
without it the program is the only rank.
"""

import json
import os
import sys
from pathlib import Path

import torch
from outcome import states_of, write_outcome
from titan_on_cpus import ConfigManager, Trainer

STEPS = 8
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


def make_tokenizer(folder):
    import tokenizers

    words = ["<pad>", "<s>", "</s>", *(f"word{number}" for number in range(400))]
    model = tokenizers.models.WordLevel(dict(zip(words, range(len(words)), strict=True)), "<pad>")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))


def make_texts(folder):
    """Texts in the form of C4."""
    folder.mkdir(exist_ok=True)
    texts = (
        " ".join(f"word{(7 * start + step) % 400}" for step in range(80)) for start in range(400)
    )
    (folder / "data.json").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))


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


def main(way):
    os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"} | os.environ
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": "0"} | os.environ
    folder = Path.cwd() / f"rank{os.environ['RANK']}"
    folder.mkdir(exist_ok=True)
    make_tokenizer(folder / "tokenizer")
    make_texts(folder / "texts")
    trainer = Trainer(ConfigManager().parse_args(options(way, folder)))
    losses = []
    log = trainer.metrics_processor.log
    trainer.metrics_processor.log = lambda step, loss, *rest, **named: (
        losses.append(loss),
        log(step, loss, *rest, **named),
    )
    trainer.train()
    parameters = {
        f"{part} {name}": parameter
        for part, module in enumerate(trainer.model_parts)
        for name, parameter in module.named_parameters()
    }
    states = [states_of(optimizer) for optimizer in trainer.optimizers]
    write_outcome(losses, parameters, *states)
    trainer.close()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
