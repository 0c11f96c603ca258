"""Exercises what programs do with streams, graphs and memory, in a session.

    python tests/gpu/workloads/exercise_streams.py --case capture

Prints one line of JSON, with how often PyTorch's allocator has run out of memory. The exit code is
1 when results differ from those without a session, when nothing has moved, or when PyTorch has
reserved more than the budget.
"""

import argparse
import contextlib
import json
import sys
import tempfile

import torch

ELEMENTS = 1 << 18
BUDGET = "256MiB"


def side_stream(rounds):
    """A tensor is made on one stream, used on another, and its result used on the first."""
    stream = torch.cuda.Stream()
    for i in range(rounds):
        x = torch.full((ELEMENTS,), float(i), device="cuda") + 1
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = x * 2
        torch.cuda.current_stream().wait_stream(stream)
        yield (y + x).sum().item()


def record_stream(rounds):
    """A tensor is dropped, and its memory wanted again, while another stream still reads it."""
    stream = torch.cuda.Stream()
    for i in range(rounds):
        x = torch.full((ELEMENTS,), float(i), device="cuda") * 1
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = x * 1 * 1 * 2
        x.record_stream(stream)
        del x
        torch.full((ELEMENTS,), -1.0, device="cuda")
        torch.cuda.current_stream().wait_stream(stream)
        yield y.sum().item()


def capture(rounds):
    """A graph's input and result are used between its replays."""
    x = torch.ones(ELEMENTS, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.ones_like(x) * 2 + 1  # before a capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2 + 1
    for i in range(rounds):
        x.fill_(float(i))
        graph.replay()
        yield (y + x).sum().item()


def fragmentation(rounds):
    """Trains with a batch of another size in every step."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(512, 512, device="cuda") for _ in range(32)]
    model = torch.nn.Sequential(*(part for layer in layers for part in (layer, torch.nn.GELU())))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    generator = torch.Generator().manual_seed(1)
    for _ in range(rounds):
        rows = int(torch.randint(16, 768, (), generator=generator))
        x = torch.randn(rows, 512, generator=generator).to("cuda")
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield loss.item()


CASES = {
    "side-stream": side_stream,
    "record-stream": record_stream,
    "capture": capture,
    "fragmentation": fragmentation,
}


def session_of(case, peak_bytes, ssd):
    """At half of the peak where the memory is the point; else everything leaves after every op."""
    import teraio.core

    is_training = case is fragmentation
    teraio.core.set_options_for_tests(evict_after_every_op=not is_training)
    return teraio.offload(
        peak_bytes // 2 if is_training else BUDGET, device="cuda", ssd=ssd, ssd_capacity="1GB"
    )


def exercise(case, rounds, ssd):
    """Runs the case without a session and in one. Returns the comparison, as a dict."""
    expected = list(case(rounds))
    peak_bytes = torch.cuda.max_memory_allocated()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_stats()
    with session_of(case, peak_bytes, ssd) as session:
        found = list(case(rounds))
        counters = session.counters()
    after = torch.cuda.memory_stats()
    names = ("num_alloc_retries", "num_ooms", "num_device_free")
    return {
        "is_equal": found == expected,
        "peak_bytes": peak_bytes,
        "budget_bytes": counters["device_budget_bytes"],
        "reserved_peak_bytes": counters["device_reserved_peak_bytes"],
        "bytes_written": counters["ssd_bytes_written"],
    } | {name: after[name] - before[name] for name in names}


def has_passed(result):
    is_within = result["reserved_peak_bytes"] <= result["budget_bytes"]
    return result["is_equal"] and is_within and result["bytes_written"] > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", choices=CASES, required=True)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--ssd", help="a directory on a drive")
    options = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    with contextlib.ExitStack() as stack:
        ssd = options.ssd or stack.enter_context(tempfile.TemporaryDirectory(dir="."))
        result = exercise(CASES[options.case], options.rounds, ssd)
    print(json.dumps({"case": options.case} | result))
    return 0 if has_passed(result) else 1


if __name__ == "__main__":
    sys.exit(main())
