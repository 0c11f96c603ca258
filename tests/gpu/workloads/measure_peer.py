"""PyTorch's own ways to train with less device memory: the same job, one process.

    measure_peer.py --peer save_on_cpu --job 1b --out record.json ...

save_on_cpu   torch.autograd.graph.save_on_cpu: activations in pinned host memory until backward
fsdp2         fully_shard with CPUOffloadPolicy on one rank: parameters, gradients and optimizer
              states in host memory, the optimizer's step on the CPU

Writes a record as measure_training.py does for an arm. On a GPU the record tells the peak.
"""

import argparse
import json
from pathlib import Path

import jobs
import torch
from pretrain_llama import build_model

PEERS = ("save_on_cpu", "fsdp2")


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


if __name__ == "__main__":
    main()
