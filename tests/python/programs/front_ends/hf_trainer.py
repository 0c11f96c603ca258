"""Trains with the Hugging Face Trainer: hf_trainer.py WAY OUTCOME.

WAY is one of WAYS: the arguments that differ from the default. "resumed" goes on from the
checkpoint that "saved" has left in the same folder.
"""

import sys

import transformers
from outcome import states_of, write_outcome
from small_llama import Tokens, make_llama

STEPS = 8
WAYS = {
    "fp32": {},
    "bf16, accumulating": {"bf16": True, "gradient_accumulation_steps": 2},
    "checkpointing": {"gradient_checkpointing": True},
    "compiled": {"torch_compile": True},
    "saved": {"save_strategy": "steps", "save_steps": 2, "max_steps": 2},
    "resumed": {},
    "one step": {"max_steps": 1},
    "DDP": {"ddp_backend": "gloo"},  # in two processes that `accelerate launch` starts
}


def make_trainer(way):
    defaults = {"max_steps": STEPS, "save_strategy": "no"}
    arguments = transformers.TrainingArguments(
        output_dir="checkpoints",
        per_device_train_batch_size=4,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        **defaults | WAYS[way],
    )
    return transformers.Trainer(model=make_llama(), args=arguments, train_dataset=Tokens())


def main(way):
    trainer = make_trainer(way)
    trainer.train(resume_from_checkpoint=way == "resumed")
    losses = [logs["loss"] for logs in trainer.state.log_history if "loss" in logs]
    states = states_of(trainer.optimizer.optimizer)
    model = trainer.accelerator.unwrap_model(trainer.model)
    write_outcome(losses, dict(model.named_parameters()), states)


if __name__ == "__main__":
    main(sys.argv[1])
