#!/usr/bin/env python3
"""Measures the cost of the hooks per op, in a session whose budget holds everything.

In-place adds on four floats run bare and in a session, alternating in one process; a figure is the
difference of the medians. The session has profiled the iteration before and follows its plan, as in
the middle of a training. `x.add_(y)` is one op. `x.add_(1.0)` is five ops that the hooks see,
because the number becomes a tensor, which is converted, which copies it into a new tensor; its
figure is a fifth of the difference. Writes build/bench/hook_cost.json.

`compiled` is a function that torch.compile has made into one program: matrix products, a generated
kernel after each, and the buffers that they allocate, all of which are ops in a session. Its figure
is the difference by the ops that the session has counted.

With --device cuda, `big * big` is an op whose result of 64 KiB is in the session's memory, and
`linear` is an op that calls others. CPU time of this thread is that of the host's side: kernels run
elsewhere, on the emulated GPU (testing/cuda_emulation) too. There, set
TERAIO_EMULATED_CUDA_LAZY=1 and TERAIO_EMULATED_CUDA_LAUNCH_QUEUE=100000, so that no kernel begins
while an iteration is measured: waking the thread that runs them would count, and take more than
the hooks.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch

import teraio

LIMITS_NS = {"cpu": 300, "cuda": 2_000}
LIMIT_COMPILED_NS = 1_000
OPS_OF_ADDING_A_NUMBER = 5
COMPILED_LAYERS = 32
ITERATIONS = 10  # until the plan is refined, and two more


def iteration_ns(call, count, optimizer):
    """Returns the CPU time of this thread per call in an iteration of `count` calls, in ns."""
    start = time.thread_time_ns()
    for _ in range(count):
        call()
    elapsed = time.thread_time_ns() - start
    optimizer.step()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return elapsed / count


def make_optimizer(device):
    """An optimizer whose steps end iterations: they update a tensor that the session manages."""
    parameter = torch.zeros(1 << 14, requires_grad=True, device=device)
    parameter.grad = torch.ones_like(parameter)
    return torch.optim.SGD([parameter])


def check_planned(session):
    modes = [iteration["mode"] for iteration in session.iterations()]
    if modes[-2:] != ["planned", "planned"]:
        raise SystemExit(
            f"hook_cost: modes {modes}: expected the last two iterations to be planned"
        )


def measure(call, rounds, count, ssd, device):
    """Returns the ops of a hooked call, and the medians of bare and of hooked calls in ns."""
    bare, hooked = [], []
    for _ in range(rounds):
        optimizer = make_optimizer(device)  # a tensor stays with the session that it was in
        bare += [iteration_ns(call, count, optimizer) for _ in range(ITERATIONS)][-2:]
        with teraio.offload("1GB", ssd=ssd, device=device) as session:
            hooked += [iteration_ns(call, count, optimizer) for _ in range(ITERATIONS)][-2:]
            check_planned(session)
            op_count = round(session.iterations()[-1]["op_count"] / count)
    return op_count, statistics.median(bare), statistics.median(hooked)


def row(name, limit_ns, op_count, bare_ns, hooked_ns):
    cost_ns = (hooked_ns - bare_ns) / op_count
    print(
        f"{name}, {op_count} ops: bare {bare_ns:.0f} ns, hooked {hooked_ns:.0f} ns, "
        f"{cost_ns:.0f} ns per op"
    )
    return {
        "name": f"hook cost per op, {name}",
        "value": cost_ns,
        "unit": "ns",
        "reference": limit_ns,
        "ratio": cost_ns / limit_ns,
        "bare_ns": bare_ns,
        "hooked_ns": hooked_ns,
    }


def kinds_of_calls(device):
    """Yields the name, the number of ops and the call of each figure."""
    x, y = torch.zeros(4, device=device), torch.zeros(4, device=device)
    yield "x.add_(y)", 1, lambda: x.add_(y)
    if device == "cpu":
        yield "x.add_(1.0)", OPS_OF_ADDING_A_NUMBER, lambda: x.add_(1.0)
        return
    big = torch.zeros(1 << 14, device=device)
    yield "big * big", 1, lambda: big * big
    matrix = torch.zeros(4, 4, device=device)
    yield "linear", 1, lambda: torch.nn.functional.linear(matrix, matrix)


def compiled_call():
    """Products with a generated kernel after each."""
    matrix = torch.zeros(4, 4)

    @torch.compile
    def layers(x):
        for _ in range(COMPILED_LAYERS):
            x = torch.relu(x @ matrix) + 1
        return x

    return lambda: layers(matrix)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=20_000, help="calls per iteration")
    parser.add_argument("--device", default="cpu", choices=list(LIMITS_NS))
    parser.add_argument("--ssd", help="directory on a drive (default: the cache directory)")
    parser.add_argument("--output", type=Path, default=Path("build/bench/hook_cost.json"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    drive = (args.ssd, args.device)
    limit_ns = LIMITS_NS[args.device]
    rows = [
        row(name, limit_ns, op_count, *measure(call, args.rounds, args.count, *drive)[1:])
        for name, op_count, call in kinds_of_calls(args.device)
    ]
    if args.device == "cpu":
        count = max(1, args.count // COMPILED_LAYERS)
        measured = measure(compiled_call(), args.rounds, count, *drive)
        rows.append(row("compiled", LIMIT_COMPILED_NS, *measured))
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
