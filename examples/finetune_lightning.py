"""Fine-tunes a language model with Lightning.

    teraio run --device-budget 20GB --ssd /mnt/nvme0 examples/finetune_lightning.py \
      --model meta-llama/Llama-3.1-8B --data texts.jsonl --precision bf16-mixed

Several GPUs: torchrun --nproc-per-node 2 -m teraio run OPTIONS examples/finetune_lightning.py ...
"""

import argparse
import json
import os
from pathlib import Path

import lightning
import torch
import transformers


class LanguageModel(lightning.LightningModule):
    def __init__(self, name, rate):
        super().__init__()
        self.model = transformers.AutoModelForCausalLM.from_pretrained(name, dtype="float32")
        self.model.train()
        self.rate = rate

    def training_step(self, batch, _):
        return self.model(input_ids=batch, labels=batch).loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.rate)


parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True, help="a folder, or a name on the Hugging Face Hub")
parser.add_argument("--data", required=True, type=Path, help='lines such as {"text": "..."}')
parser.add_argument("--length", type=int, default=2048, help="tokens of a sequence")
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--rate", type=float, default=1e-5)
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--precision", default="32-true")
parser.add_argument("--resume", help="a checkpoint")
options = parser.parse_args()

tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
texts = "\n".join(json.loads(line)["text"] for line in options.data.open())
tokens = tokenizer(texts, return_tensors="pt")["input_ids"][0]
trainer = lightning.Trainer(
    devices=int(os.environ.get("WORLD_SIZE", 1)),
    precision=options.precision,
    max_steps=options.steps,
    gradient_clip_val=1.0,
    logger=False,
    enable_checkpointing=False,
)
batches = torch.utils.data.DataLoader(
    tokens.unfold(0, options.length, options.length), options.batch
)
model = LanguageModel(options.model, options.rate)
trainer.fit(model, batches, ckpt_path=options.resume, weights_only=False)
trainer.save_checkpoint("last.ckpt")
