"""Blocks of the emulated GPU return to their windows (src/device/block_windows.h)."""

import json

import pytest
from emulated_gpu import HOSTILE, ROOT

# Attention scores of a layer have .28 of the budget, so that blocks of scattered pages are needed
# often, and occasions get windows: in which step depends on when copies end. Therefore trains for
# two steps after the one that maps the windows of all blocks, or for STEPS_MAX steps. Prints
# whether all parameters are those of stock PyTorch, then how many pages each planned step has
# mapped.
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

# `is_last`: whether no step is to follow those that have mapped so many pages. Returns these counts
# and the parameters.
def train(is_last):
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = Llama(CONFIG)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    generator = torch.Generator().manual_seed(1)
    mapped = []
    while not is_last(mapped):
        before = runtime.cudaEmulatedCalls(b"cuMemMap")
        for _ in range(2):
            tokens = torch.randint(0, 2000, (2, 257), generator=generator).to("cuda")
            logits = model(tokens[:, :-1]).flatten(0, 1)
            torch.nn.functional.cross_entropy(logits, tokens[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
        mapped.append(runtime.cudaEmulatedCalls(b"cuMemMap") - before)
    return mapped, [parameter.detach().cpu() for parameter in model.parameters()]

train(lambda mapped: len(mapped) == 2)
peak_bytes = torch.cuda.max_memory_allocated()
torch.cuda.empty_cache()
tiers = {"ssd": False, "ssd_capacity": 0, "host_limit": "400MB"}
runtime.cudaEmulatedLimitMaps(ctypes.c_int64(MAPS_MAX))
with teraio.offload(peak_bytes // 3, device="cuda", **tiers) as session:
    def in_planned_steps(mapped):
        modes = [iteration["mode"] for iteration in session.iterations()]
        return [count for mode, count in zip(modes, mapped) if mode == "planned"]

    def is_last(mapped):
        has_windows = any(count > PAGES for count in in_planned_steps(mapped)[:-2])
        return has_windows or len(mapped) == STEPS_MAX

    mapped, actual = train(is_last)
    planned = in_planned_steps(mapped)
_, expected = train(lambda mapped_by_stock: len(mapped_by_stock) == len(mapped))
print(all(torch.equal(a, b) for a, b in zip(expected, actual, strict=True)))
print(json.dumps(planned))
"""
STEPS_MAX = 150
NO_LIMIT = 2**62
PAGES = 256  # at least, in the budget


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("maps_max", "settings"),
    [(NO_LIMIT, HOSTILE | {"seed": 1}), (NO_LIMIT, {}), (8, {})],
    ids=["late", "as it comes", "pages mapped 8 times at most"],
)
def test_blocks_in_windows_have_equal_bits(maps_max, settings, program):
    text = TRAINING.replace("EXAMPLES", repr(str(ROOT / "examples")))
    text = text.replace("MAPS_MAX", str(maps_max))
    text = text.replace("STEPS_MAX", str(STEPS_MAX)).replace("PAGES", str(PAGES))
    equal, mapped = program(text, granularity_bytes=32 << 10, timeout_s=800, **settings)
    assert equal == "True"
    assert max(json.loads(mapped)) > PAGES, "a step has mapped the windows of all its blocks"
