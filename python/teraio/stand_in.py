"""Stands in for a training script that is not written yet: fine-tunes a language model of Hugging
Face Transformers, with random weights, on random tokens.

    teraio suggest -m teraio.stand_in config.json --precision bf16 --lora 16
"""

import argparse
import contextlib
import itertools
from pathlib import Path

_PRECISIONS = {
    "fp32": "weights, gradients and states in fp32",
    "autocast": "the same, with ops under bf16 autocast",
    "bf16": "all of it in bf16",
}
_OPTIMIZERS = {
    "adamw": ("AdamW", {"fused": True}),
    "adafactor": ("Adafactor", {}),
    "sgd": ("SGD", {"momentum": 0.9}),
}


def main():
    parser = _parser()
    options = parser.parse_args()
    try:
        import torch
        from transformers import AutoModelForCausalLM

        device = "cuda" if torch.cuda.is_available() else "cpu"
        with torch.device(device):
            model = AutoModelForCausalLM.from_config(
                _config(options.model),
                dtype=torch.bfloat16 if options.precision == "bf16" else torch.float32,
            )
        if options.lora:
            model = _with_lora(model, options.lora)
    except ImportError as error:
        parser.exit(2, f"{parser.prog}: {error}: pip install transformers peft\n")
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        parser.exit(2, f"{parser.prog}: {options.model}: Transformers finds no model: {reason}\n")
    if options.checkpointing:
        model.enable_input_require_grads()
        model.gradient_checkpointing_enable()
    _train(model, options, device)


def _parser():
    parser = argparse.ArgumentParser(
        prog="teraio.stand_in",
        description="Fine-tunes a language model of Hugging Face Transformers, with random "
        "weights, on random tokens. It stands in for a training script that is not written yet.",
    )
    add = parser.add_argument
    add("model", help="a config.json, a folder that has one, or a name on the Hugging Face Hub")
    add(
        "--precision",
        choices=_PRECISIONS,
        default="autocast",
        help="; ".join(f"{name}: {text}" for name, text in _PRECISIONS.items()),
    )
    add("--lora", type=int, metavar="RANK", help="train adapters of all linear layers (PEFT)")
    add("--optimizer", choices=_OPTIMIZERS, default="adamw")
    add("--sequence", type=int, default=2048, metavar="TOKENS", help="(default: %(default)s)")
    add(
        "--batch", type=int, default=4, metavar="N", help="sequences of a micro-batch (%(default)s)"
    )
    add("--micro-batches", type=int, default=1, metavar="N", help="in a step (%(default)s)")
    add("--checkpointing", action="store_true", help="checkpoint the activations of each layer")
    add("--steps", type=int, metavar="N", help="(default: endless)")
    return parser


def _config(model):
    """The model's configuration (transformers.PretrainedConfig).

    Raises:
        OSError, ValueError: nothing is found, or Transformers does not know the model.
    """
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(Path(model) if Path(model).exists() else model)
    config.use_cache = False
    return config


def _with_lora(model, rank):
    from peft import LoraConfig, get_peft_model

    return get_peft_model(model, LoraConfig(r=rank, target_modules="all-linear"))


def _train(model, options, device):
    import torch

    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    kind, settings = _OPTIMIZERS[options.optimizer]
    optimizer = getattr(torch.optim, kind)(trained, **settings)
    vocabulary = model.config.get_text_config().vocab_size
    autocast = (
        torch.autocast(device, torch.bfloat16)
        if options.precision == "autocast"
        else contextlib.nullcontext()
    )
    for step in itertools.count() if options.steps is None else range(options.steps):
        for _ in range(options.micro_batches):
            tokens = torch.randint(vocabulary, (options.batch, options.sequence), device=device)
            with autocast:
                loss = model(input_ids=tokens, labels=tokens).loss / options.micro_batches
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item() * options.micro_batches:.4f}", flush=True)


if __name__ == "__main__":
    main()
