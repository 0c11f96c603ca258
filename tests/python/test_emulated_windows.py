"""Blocks of the emulated GPU return to their windows (src/device/block_windows.h)."""

import json

import pytest
from emulated_gpu import HOSTILE, ROOT

# Attention scores of a layer have .28 of the budget, so that blocks of scattered pages are needed
# often, and occasions get windows. Prints whether all parameters are those of stock PyTorch, then
# how many pages each planned step has mapped.
TRAINING = """
import ctypes, json, sys
sys.path.insert(0, EXAMPLES)

import teraio
import torch
from llama.model import Llama
from llama.presets import LlamaConfig

CONFIG = LlamaConfig(vocab_size=2000, dim=256, layers=3, heads=32, kv_heads=8, ffn_dim=1024,
                     sequence_length=256)
runtime = ctypes.CDLL("libcudart.so.13")

def train(steps):
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = Llama(CONFIG)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        before = runtime.cudaEmulatedCalls(b"cuMemMap")
        for _ in range(2):
            tokens = torch.randint(0, 2000, (2, 257), generator=generator).to("cuda")
            logits = model(tokens[:, :-1]).flatten(0, 1)
            torch.nn.functional.cross_entropy(logits, tokens[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
        yield runtime.cudaEmulatedCalls(b"cuMemMap") - before
    yield [parameter.detach().cpu() for parameter in model.parameters()]

*_, expected = train(STEPS)
peak_bytes = torch.cuda.max_memory_allocated()
torch.cuda.empty_cache()
tiers = {"ssd": False, "ssd_capacity": 0, "host_limit": "400MB"}
with teraio.offload(peak_bytes // 3, device="cuda", **tiers) as session:
    *mapped, actual = train(STEPS)
    modes = [iteration["mode"] for iteration in session.iterations()]
print(all(torch.equal(a, b) for a, b in zip(expected, actual, strict=True)))
print(json.dumps([count for mode, count in zip(modes, mapped) if mode == "planned"]))
"""
STEPS = 9
PAGES = 256  # at least, in the budget


@pytest.mark.full
@pytest.mark.parametrize("settings", [HOSTILE | {"seed": 1}, {}], ids=["late", "as it comes"])
def test_blocks_in_windows_have_equal_bits(settings, program):
    text = TRAINING.replace("EXAMPLES", repr(str(ROOT / "examples"))).replace("STEPS", str(STEPS))
    equal, mapped = program(text, granularity_bytes=32 << 10, **settings)
    assert equal == "True"
    assert max(json.loads(mapped)) > PAGES, "a step has mapped the windows of all its blocks"
