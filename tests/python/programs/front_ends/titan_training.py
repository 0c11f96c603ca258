"""A training with TorchTitan's own Trainer: its files and its end."""

import json
import os
from pathlib import Path

import torch

STEPS = 8


def make_folder():
    """Returns a folder of this rank with a tokenizer and texts. A rank is a process that `torchrun`
    starts; without it the program is the only rank."""
    os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"} | os.environ
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": "0"} | os.environ
    folder = Path.cwd() / f"rank{os.environ['RANK']}"
    folder.mkdir(exist_ok=True)
    make_tokenizer(folder / "tokenizer")
    make_texts(folder / "texts")
    return folder


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


def train(trainer):
    """Trains and ends the trainer."""
    trainer.train()
    trainer.close()
    torch.distributed.destroy_process_group()
