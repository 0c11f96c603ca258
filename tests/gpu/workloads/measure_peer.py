"""PyTorch's own ways, and DeepSpeed's, to train with less device memory: the same job, one process.

    measure_peer.py --peer save_on_cpu --job 1b --out record.json ...

save_on_cpu   torch.autograd.graph.save_on_cpu: activations in pinned host memory until backward
fsdp2         fully_shard with CPUOffloadPolicy on one rank: parameters, gradients and optimizer
              states in host memory, the optimizer's step on the CPU
zero-offload, zero-infinity   DeepSpeed, where it is installed (benchmarks/peers)

Writes a record as measure_training.py does for an arm. On a GPU the record tells the peak.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import jobs
import torch
from pretrain_llama import build_model

PEERS_FOLDER = Path(__file__).resolve().parents[3] / "benchmarks" / "peers"
PEERS = ("save_on_cpu", "fsdp2", "zero-offload", "zero-infinity")


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    jobs.add_measuring_options(parser)
    parser.add_argument("--peer", choices=PEERS, required=True)
    parser.add_argument("--out", type=Path, required=True, help="file for the record")
    return parser.parse_args(argv)


def main(argv=None):
    options = parse_arguments(argv)
    record = {"arm": options.peer, "job": options.job, "precision": options.precision}
    jobs.settle()
    found = {"outcome": "done"} | measure(options)
    options.out.write_text(json.dumps(record | found))


def measure(options):
    args = jobs.training_options(options)
    if options.peer.startswith("zero"):
        return train_zero(options, args)
    model = build_model(args, jobs.config_of(args))
    if options.peer == "fsdp2":
        return train_peer(args, sharded(args, model))
    is_gpu = args.device == "cuda"
    way = torch.autograd.graph.save_on_cpu(pin_memory=is_gpu, device_type=args.device)
    return train_peer(args, model, way)


def train_peer(args, model, way=None):
    batches = jobs.batches_of(args, jobs.config_of(args))
    jobs.forget_memory(args.device)
    _, found = jobs.train(args, model, batches, way)
    return found | {"peak_bytes": jobs.peak_bytes(args.device)}


def sharded(args, model):
    """Shards the model by block: a block is on the device only while it is used."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

    backend = "cpu:gloo,cuda:nccl" if args.device == "cuda" else "gloo"
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    mesh = init_device_mesh(args.device, (1,))
    policy = CPUOffloadPolicy(pin_memory=args.device == "cuda")
    for block in model.blocks:
        fully_shard(block, mesh=mesh, offload_policy=policy)
    return fully_shard(model, mesh=mesh, offload_policy=policy)


def train_zero(options, args):
    """Trains with DeepSpeed in a process of its own, which its launcher's variables belong to."""
    sys.path.insert(0, str(PEERS_FOLDER))
    from zero_config import zero_infinity, zero_offload

    config = jobs.config_of(args)
    with tempfile.TemporaryDirectory(dir=options.ssd) as folder:
        largest = config.vocab_size * config.dim
        configuration = (
            zero_offload(args)
            if options.peer == "zero-offload"
            else zero_infinity(args, "speed", Path(folder), largest)
        )
        if args.bf16:
            configuration["torch_autocast"] = {"enabled": True, "dtype": "bfloat16"}
        path, losses = Path(folder) / "zero.json", Path(folder) / "losses.json"
        path.write_text(json.dumps(configuration))
        command = [sys.executable, PEERS_FOLDER / "train_zero.py", path]
        command += training_words(args, config) + ["--losses", losses]
        subprocess.run([str(word) for word in command], check=True, env=zero_environment(args))
        record = json.loads(losses.read_text())
    peak = {"peak_bytes": record["peak_bytes"]}
    return jobs.timed(record["step_seconds"], record["losses"]) | peak


def training_words(args, config):
    words = ["--preset", args.preset, "--device", args.device, "--steps", args.steps]
    words += ["--micro-batch", args.micro_batch, "--accumulation", args.accumulation]
    words += ["--cache", args.cache] + (["--data", args.data] if args.data else [])
    for name in ("layers", "vocab_size", "sequence_length", "dim", "ffn_dim"):
        words += ["--" + name.replace("_", "-"), dataclasses.asdict(config)[name]]
    return words


def zero_environment(args):
    return os.environ | ({"DS_ACCELERATOR": "cpu"} if args.device == "cpu" else {})


if __name__ == "__main__":
    main()
