"""Trains with Lightning: lightning_fit.py WAY OUTCOME.

WAY is "fp32", "bf16-mixed", "DDP" (in two processes that torchrun starts), "saved", or "resumed":
from the checkpoint that "saved" has left in the same folder.
"""

import logging
import sys
import warnings

import lightning
import torch
from outcome import states_of, write_outcome
from small_llama import Tokens, make_llama

STEPS = 8
CHECKPOINT = "checkpoint.ckpt"

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Llama(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = make_llama()
        self.losses = []

    def training_step(self, batch, _):
        loss = self.model(**batch).loss
        self.losses.append(loss.detach().item())
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


def main(way):
    model = Llama()
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2 if way == "DDP" else 1,
        strategy="ddp" if way == "DDP" else "auto",
        precision=way if way == "bf16-mixed" else "32-true",
        max_steps=2 if way == "saved" else STEPS,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    options = {"ckpt_path": CHECKPOINT, "weights_only": False} if way == "resumed" else {}
    trainer.fit(model, torch.utils.data.DataLoader(Tokens(), batch_size=4), **options)
    if way == "saved":
        trainer.save_checkpoint(CHECKPOINT)
    states = states_of(trainer.optimizers[0])
    write_outcome(model.losses, dict(model.named_parameters()), states)


if __name__ == "__main__":
    main(sys.argv[1])
