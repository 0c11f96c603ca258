"""The program: see the package."""

import argparse
import contextlib
import itertools
import json
import pkgutil
from pathlib import Path

import torch

_PRECISIONS = {
    "fp32": "weights, gradients and states in fp32",
    "autocast": "the same, with ops under bf16 autocast",
    "bf16": "all of it in bf16",
}
_OPTIMIZERS = {
    "adamw": ("torch.optim.AdamW", {"fused": True}),
    "adamw-8bit": ("bitsandbytes.optim.AdamW8bit", {}),
    "adafactor": ("torch.optim.Adafactor", {}),
    "sgd": ("torch.optim.SGD", {"momentum": 0.9}),
}


def main():
    parser = _parser()
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)  # a second run computes the same
    dtype = torch.bfloat16 if options.precision == "bf16" else torch.float32
    with torch.device(device), _default_dtype(dtype):
        try:
            job = _job(options)
            optimizer = _optimizer(job.model, options.optimizer)
        except ImportError as error:
            packages = "transformers diffusers peft bitsandbytes"
            parser.exit(2, f"{parser.prog}: {error}: pip install what is missing of {packages}\n")
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            parser.exit(2, f"{parser.prog}: {options.model}: no model is found: {reason}\n")
        _train(job, optimizer, options, device)


def _parser():
    parser = argparse.ArgumentParser(
        prog="teraio.stand_in",
        description="Trains a language model of Hugging Face Transformers or a transformer of "
        "diffusers, with random weights, on random numbers. It stands in for a training script "
        "that is not written yet.",
    )
    add = parser.add_argument
    add("model", help="a config.json, a folder that has one, or a name on the Hugging Face Hub")
    add(
        "--precision",
        choices=_PRECISIONS,
        default="autocast",
        help="; ".join(f"{name}: {text}" for name, text in _PRECISIONS.items()),
    )
    add("--lora", type=int, metavar="RANK", help="train adapters (PEFT)")
    add("--optimizer", choices=_OPTIMIZERS, default="adamw")
    add("--sequence", type=int, metavar="TOKENS", help="(default: 2048; 512 of a prompt)")
    add("--pixels", type=int, metavar="N", help="the side of an image or video")
    add("--frames", type=int, default=81, metavar="N", help="of a video (default: %(default)s)")
    add("--batch", type=int, default=4, metavar="N", help="of a micro-batch (default: %(default)s)")
    add("--micro-batches", type=int, default=1, metavar="N", help="in a step (%(default)s)")
    add("--checkpointing", action="store_true", help="checkpoint the activations of each layer")
    add("--steps", type=int, metavar="N", help="(default: endless)")
    return parser


def _job(options):
    """The model and its loss, on the default device.

    Raises:
        ImportError: a package is missing.
        OSError, ValueError: the model is not found, or its package does not know it.
    """
    path = Path(options.model)
    path = path / "config.json" if path.is_dir() else path
    config = json.loads(path.read_text()) if path.is_file() else {}
    if "_class_name" in config:
        from teraio.stand_in.diffusion import Diffusion

        return Diffusion(config, options)
    from teraio.stand_in.languages import Language

    return Language(options.model, options)


@contextlib.contextmanager
def _default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    yield
    torch.set_default_dtype(before)


def _optimizer(model, name):
    kind, settings = _OPTIMIZERS[name]
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return pkgutil.resolve_name(kind)(trained, **settings)


def _train(job, optimizer, options, device):
    autocast = torch.autocast(device, torch.bfloat16, enabled=options.precision == "autocast")
    for step in itertools.count() if options.steps is None else range(options.steps):
        for _ in range(options.micro_batches):
            with autocast:
                loss = job.loss() / options.micro_batches
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item() * options.micro_batches:.4f}", flush=True)


if __name__ == "__main__":
    main()
