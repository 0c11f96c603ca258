"""Trains a small transformer with and without offloading and compares every bit.

    python tests/gpu/workloads/compare_bits.py --device cuda --case fused --budget 0.5

The budget is a fraction of the peak that training takes without offloading. Prints one line of
JSON. The exit code is 1 when the bits differ or nothing has moved.
"""

import argparse
import hashlib
import json
import sys
import tempfile

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

LAYERS, TOKENS, BATCH = 4, 128, 8
AMPLE_CPU_BUDGET = "16GB"
CASES = {
    "single": {"foreach": False, "fused": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
    "autocast": {"foreach": True},
    "checkpointing": {"foreach": True},
    "compile": {"fused": True},
    # When steps are planned: an evaluation between two of them, and one of another shape.
    "deviation": {"foreach": True},
}


class Model(nn.Module):
    def __init__(self, width, is_checkpointed):
        super().__init__()
        self.embed = nn.Embedding(1000, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, 8, 4 * width, dropout=0.0, batch_first=True, norm_first=True
            )
            for _ in range(LAYERS)
        )
        self.head = nn.Linear(width, 1000)
        self.is_checkpointed = is_checkpointed

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.is_checkpointed else layer(x)
        return self.head(x)


def train(options):
    """Returns the hash of all losses, and of the final parameters and optimizer states."""
    torch.manual_seed(0)
    model = Model(options.width, options.case == "checkpointing").to(options.device)
    forward = torch.compile(model) if options.case == "compile" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **CASES[options.case])
    digest = hashlib.sha256()
    for step in range(options.steps):
        is_other = options.case == "deviation" and step == options.steps // 2
        if is_other:
            with torch.no_grad():
                add(digest, loss_of(options, forward, step))
        loss = loss_of(options, forward, step, TOKENS // 2 if is_other else TOKENS)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        add(digest, loss)
    for parameter in model.parameters():
        add(digest, parameter)
        for value in optimizer.state[parameter].values():
            add(digest, value)
    return digest.hexdigest()


def loss_of(options, forward, step, length=TOKENS):
    generator = torch.Generator().manual_seed(step)
    tokens = torch.randint(0, 1000, (BATCH, length + 1), generator=generator).to(options.device)
    kind = torch.device(options.device).type
    with torch.autocast(kind, torch.bfloat16, enabled=options.case == "autocast"):
        logits = forward(tokens[:, :-1])
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def add(digest, tensor):
    digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())


def compare(options, ssd):
    """Trains with and without offloading. Returns the comparison, as a dict."""
    import teraio.core

    # The first run does not count: libraries choose their kernels on their first call.
    train(options)
    tiers = {"device": options.device, "ssd": ssd, "ssd_capacity": "1GB"}
    ample = AMPLE_CPU_BUDGET if options.device == "cpu" else None
    with teraio.offload(ample, policy="on-demand", **tiers) as session:
        expected = train(options)
    peak_bytes = max(record["device_peak_bytes"] for record in session.iterations())
    stock = train(options)
    budget_bytes = int(options.budget * peak_bytes)
    teraio.core.set_options_for_tests(evict_after_every_op=options.stress)
    with teraio.offload(budget_bytes, **tiers) as session:
        found = train(options)
        counters = session.counters()
    return {
        "case": options.case,
        "device": options.device,
        "is_stress": options.stress,
        "peak_bytes": peak_bytes,
        "budget_bytes": budget_bytes,
        "ssd_bytes_read": counters["ssd_bytes_read"],
        "is_equal": stock == expected == found,
        "modes": [record["mode"] for record in session.iterations()],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--case", choices=CASES, default="single")
    parser.add_argument("--budget", type=float, default=0.5)
    parser.add_argument("--stress", action="store_true", help="evict everything after every op")
    parser.add_argument("--ssd", help="a directory on a drive")
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--width", type=int, default=256)
    options = parser.parse_args()
    # With warn_only, the backward passes of fused attention stay nondeterministic.
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = False
    with tempfile.TemporaryDirectory(dir=".") as scratch:
        result = compare(options, options.ssd or scratch)
    print(json.dumps(result))
    return 0 if result["is_equal"] and result["ssd_bytes_read"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
