#!/usr/bin/env python3
"""Runs pretrain_llama.py with DeepSpeed instead of its optimizer step; all else is the same.

train_zero.py ZERO_CONFIG.json TRAINING_ARGS...: a configuration of DeepSpeed, and the arguments of
pretrain_llama.py. Trains with one rank; without a GPU, set DS_ACCELERATOR=cpu.
"""

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

import deepspeed
import pretrain_llama
import torch
import torch.nn.functional as F
from deepspeed.accelerator import get_accelerator
from deepspeed.ops.adam import DeepSpeedCPUAdam
from llama.atomic import write_json
from llama.parallel import BACKENDS
from llama.record import losses_sha256
from llama.tokens import Batches, prepare

ONE_RANK = {
    "RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_RANK": "0",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29571",
}


def keep_single_precision() -> None:
    """Keeps the precision of the job for parameters on NVMe.

    DeepSpeed 0.19.8 makes them bfloat16 where the CPU has no half-precision arithmetic, whatever
    zero.Init receives (`dtype or torch.float16 if is_fp16_supported() else ...` in _set_dtype).
    """
    get_accelerator().is_fp16_supported = lambda: True


def build_optimizer(args, model) -> DeepSpeedCPUAdam:
    """Builds DeepSpeed's AdamW with the groups and settings of pretrain_llama."""
    groups = pretrain_llama.build_optimizer(args, model).param_groups
    chosen = [{"params": g["params"], "weight_decay": g["weight_decay"]} for g in groups]
    return DeepSpeedCPUAdam(chosen, lr=args.learning_rate, betas=(0.9, 0.95), adamw_mode=True)


def train_step(args, engine, batches) -> float:
    """One optimizer step; returns the mean loss over its tokens."""
    total = 0.0
    for _ in range(args.accumulation):
        tokens, targets = (tensor.to(args.device) for tensor in batches.next())
        loss = F.cross_entropy(engine(tokens).flatten(0, 1), targets.flatten())
        engine.backward(loss)  # divides by the number of passes
        engine.step()
        total += loss.item() / args.accumulation
    return total


def main() -> int:
    configuration = json.loads(Path(sys.argv[1]).read_text())
    args = pretrain_llama.parse_arguments(sys.argv[2:])
    for name, value in ONE_RANK.items():
        os.environ.setdefault(name, value)
    config = pretrain_llama.config_of(args)
    tokens = prepare(args.data, args.cache, config.vocab_size)
    batches = Batches(tokens, args.micro_batch, config.sequence_length, args.seed)
    model = pretrain_llama.build_model(args, config)
    if args.device == "cpu":
        keep_single_precision()
    deepspeed.init_distributed(dist_backend=BACKENDS[args.device])
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=build_optimizer(args, model),
        lr_scheduler=lambda optimizer: pretrain_llama.build_schedule(args, optimizer),
        config=configuration,
    )
    history = {"losses": [], "step_seconds": []}
    for step in range(1, args.steps + 1):
        began = time.perf_counter()
        history["losses"].append(train_step(args, engine, batches))
        history["step_seconds"].append(time.perf_counter() - began)
        print(f"step {step}/{args.steps}  loss {history['losses'][-1]:.4f}", flush=True)
    write_json(
        args.losses,
        {
            "losses": [loss.hex() for loss in history["losses"]],
            "losses_sha256": losses_sha256(history["losses"]),
            "step_seconds": history["step_seconds"],
            "tokens_per_step": args.micro_batch * args.accumulation * config.sequence_length,
        },
    )
    torch.distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
