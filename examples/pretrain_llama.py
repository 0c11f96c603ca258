#!/usr/bin/env python3
"""Pre-trains a Llama on C4-like text. An ordinary PyTorch script.

python examples/pretrain_llama.py --preset 130m --steps 100 --losses losses.json
python examples/pretrain_llama.py --preset tiny --layers 4 --data c4-train.00000.json.gz
torchrun --nproc-per-node 2 examples/pretrain_llama.py --tensor-parallel 2
"""

import argparse
import math
import sys
import time
from dataclasses import fields, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from llama import record
from llama.atomic import write_json
from llama.corpus import DataError
from llama.model import Llama
from llama.parallel import check_split, clip_gradients, shard
from llama.presets import PRESETS, LlamaConfig, ShapeError
from llama.tokens import Batches, prepare

DATA_CACHE = Path(__file__).resolve().parents[1] / "build" / "demo" / "data"


def parse_arguments(argv=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--preset", choices=PRESETS, default="tiny")
    _add_shape(parser.add_argument_group("model shape (default: the preset's)"))
    _add_training(parser.add_argument_group("training"))
    _add_files(parser.add_argument_group("files"))
    return parser.parse_args(argv)


def _add_shape(group) -> None:
    for field in fields(LlamaConfig):
        flag = "--" + field.name.replace("_", "-")
        if field.type is bool:
            action = argparse.BooleanOptionalAction
            group.add_argument(flag, action=action, default=argparse.SUPPRESS)
        else:
            group.add_argument(flag, type=field.type, default=argparse.SUPPRESS, metavar="N")


def _add_training(group) -> None:
    add = group.add_argument
    add("--steps", type=int, default=100, help="optimizer steps")
    add("--micro-batch", type=int, default=4, help="sequences in one forward and backward pass")
    add("--accumulation", type=int, default=1, help="passes in one optimizer step")
    add("--learning-rate", type=float, default=6e-4, help="learning rate after the warm-up")
    add("--learning-rate-min", type=float, default=6e-5, help="rate at the end of the cosine")
    add("--warm-up-steps", type=int, default=10)
    add("--weight-decay", type=float, default=0.1)
    add("--clip", type=float, default=1.0, help="largest norm of the gradients (0: no limit)")
    add("--optimizer-impl", choices=("single", "foreach", "fused"), default="single")
    add("--bf16", action="store_true", help="autocast to bfloat16")
    add(
        "--dtype",
        choices=("float32", "bfloat16"),
        default="float32",
        help="of weights, gradients and states of the optimizer",
    )
    add("--lora", type=int, default=0, metavar="RANK", help="train adapters by PEFT (0: weights)")
    add(
        "--activation-checkpointing",
        choices=("none", "selective", "full"),
        nargs="?",
        const="full",
        default="none",
        help="of blocks; selective keeps the results of matrix products and attention",
    )
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--tensor-parallel", type=int, default=1, metavar="N", help="processes of torchrun")
    add("--seed", type=int, default=1)


def _add_files(group) -> None:
    add = group.add_argument
    add("--data", type=Path, help="C4 file (.json, .json.gz; default: prose of Python's docs)")
    add("--cache", type=Path, default=DATA_CACHE, help="folder for the tokenizer and the tokens")
    add("--losses", type=Path, help="write exact losses and hashes of the final state to this JSON")
    add("--progress-file", type=Path, help="rewrite this JSON file after every step")


def build_model(args, config: LlamaConfig) -> Llama:
    torch.manual_seed(args.seed)
    with torch.device("meta"):
        model = Llama(config, args.activation_checkpointing).to(getattr(torch, args.dtype))
    if args.tensor_parallel > 1:
        shard(model, args.tensor_parallel, args.device)
    model.to_empty(device=args.device)
    model.init_weights()
    if args.lora:
        _add_adapters(model, args.lora)
    return model


def _add_adapters(model, rank: int) -> None:
    """Freezes the model, and gives each matrix product of its blocks an adapter to train."""
    from peft import LoraConfig, inject_adapter_in_model

    targets = ["wq", "wk", "wv", "wo", "w1", "w2", "w3"]
    inject_adapter_in_model(LoraConfig(r=rank, target_modules=targets), model)


def build_optimizer(args, model) -> torch.optim.AdamW:
    """Builds AdamW with weight decay for matrices only, not for norms and biases."""
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in trained if p.dim() >= 2]
    others = [p for p in trained if p.dim() < 2]
    return torch.optim.AdamW(
        [{"params": matrices}, {"params": others, "weight_decay": 0.0}],
        lr=args.learning_rate,
        betas=(0.9, 0.95),
        weight_decay=args.weight_decay,
        foreach=args.optimizer_impl == "foreach",
        fused=args.optimizer_impl == "fused",
    )


def build_schedule(args, optimizer) -> torch.optim.lr_scheduler.LambdaLR:
    """Returns the learning rate: a linear warm-up, then a cosine down to the minimum."""
    floor = args.learning_rate_min / args.learning_rate

    def factor(step: int) -> float:
        if step < args.warm_up_steps:
            return (step + 1) / args.warm_up_steps
        done = (step - args.warm_up_steps) / max(1, args.steps - args.warm_up_steps)
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def accumulate(args, model, tokens, targets) -> torch.Tensor:
    """Runs one forward and backward pass; returns its share of the loss of the step."""
    tokens, targets = tokens.to(args.device), targets.to(args.device)
    with torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.bf16):
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
    loss = loss / args.accumulation
    loss.backward()
    return loss.detach()


def update(args, model, optimizer, scheduler, batches) -> torch.Tensor:
    """Runs one optimizer step; returns the mean loss over its tokens."""
    loss = sum(accumulate(args, model, *batches.next()) for _ in range(args.accumulation))
    if args.clip:
        foreach = args.optimizer_impl != "single"
        clip_gradients(model, args.clip, foreach)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    return loss


def train_step(args, model, optimizer, scheduler, batches) -> float:
    """Runs one optimizer step; returns its loss as a number."""
    return update(args, model, optimizer, scheduler, batches).item()


def report(args, step: int, loss: float, seconds: float) -> None:
    """Prints the progress of the training, and writes it to a file for other programs."""
    print(f"step {step}/{args.steps}  loss {loss:.4f}  {seconds:.3f} s", flush=True)
    if args.progress_file:
        now = {"step": step, "steps": args.steps, "loss": loss, "step_seconds": seconds}
        write_json(args.progress_file, now)


def train(args, config: LlamaConfig, batches: Batches) -> None:
    model = build_model(args, config)
    optimizer = build_optimizer(args, model)
    scheduler = build_schedule(args, optimizer)
    history = {"losses": [], "step_seconds": []}
    for step in range(1, args.steps + 1):
        began = time.perf_counter()
        loss = train_step(args, model, optimizer, scheduler, batches)
        seconds = time.perf_counter() - began
        history["losses"].append(loss)
        history["step_seconds"].append(seconds)
        report(args, step, loss, seconds)
    if args.losses:
        tokens_per_step = args.micro_batch * args.accumulation * config.sequence_length
        record.write_losses(args.losses, history, model, optimizer, tokens_per_step)


def config_of(args) -> LlamaConfig:
    """Returns the preset with the fields that the options override. Raises ShapeError."""
    overrides = {f.name: getattr(args, f.name) for f in fields(LlamaConfig) if f.name in args}
    return replace(PRESETS[args.preset], **overrides)


def main(argv=None) -> int:
    args = parse_arguments(argv)
    try:
        config = config_of(args)
        check_split(config, args.tensor_parallel)
        tokens = prepare(args.data, args.cache, config.vocab_size)
        batches = Batches(tokens, args.micro_batch, config.sequence_length, args.seed)
    except (DataError, ShapeError) as error:
        print(f"pretrain_llama: {error}", file=sys.stderr)
        return 2
    train(args, config, batches)
    return 0


if __name__ == "__main__":
    sys.exit(main())
