"""Calibration: measures the rates of this machine's CPU and writes them as an accelerator file."""

import json
import os
import platform
from itertools import cycle
from statistics import median
from time import perf_counter

import torch
import torch.nn.functional as F

from teraio.accelerator import Accelerator, to_json
from teraio.files.atomic_file import replace_file

aten = torch.ops.aten

# Each round takes all measurements. A short disturbance of the machine then affects only one round
# of a measurement, and the median over the rounds ignores it.
_ROUNDS = 5
_SECONDS = 0.03  # the duration of one measurement in a round
_PRECISIONS = (torch.float32, torch.bfloat16)
_LARGE_BYTES = 96 << 20  # larger than the caches
# Measurements of memory-bound ops cycle through tensors of this total size, because most operands
# of a training step have left the caches since their last use.
_IN_TURN_BYTES = 128 << 20


def calibrate(path, show=print):
    """Measures this machine's CPU and writes its accelerator file to `path`.

    Args:
        path: a `pathlib.Path`.
        show: a function that gets each line of progress.

    Raises:
        OSError: the file cannot be written.
    """
    accelerator = measure(show)
    replace_file(path, (json.dumps(to_json(accelerator), indent=1) + "\n").encode())
    show(f"written to {path}")


def measure(show) -> Accelerator:
    """Returns the rates of this machine's CPU.

    Args:
        show: a function that gets each line of progress.
    """
    probes = _probes()
    times = {name: [] for name in probes}
    with torch.no_grad():
        for number in range(_ROUNDS):
            show(f"measuring, round {number + 1} of {_ROUNDS}")
            for name, (call, _, _) in probes.items():
                times[name].append(_seconds(call))
    points = {}
    op_seconds = median(times.pop("op"))
    for name, rounds in times.items():
        _, kind, work = probes[name]
        total = median(rounds)
        points.setdefault(kind, []).append([work, work / max(total - op_seconds, 0.05 * total)])
    memory = max(rate for _, rate in points["memory"])
    products = {precision: points[f"matmul.{precision}"] for precision in ("float32", "bfloat16")}
    return Accelerator(
        name=f"CPU of this machine, {torch.get_num_threads()} threads ({platform.machine()})",
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        memory_bytes_per_second=int(memory),
        flops_per_second={
            precision: int(max(rate for _, rate in found)) for precision, found in products.items()
        },
        link_bytes_per_second=int(memory),
        link_latency_ns=20_000,
        kernel_ns=0,
        op_ns=int(op_seconds * 1e9),
        efficiency={"memory": 1.0},
        source="measured by teraio dry-run --calibrate",
        library="onednn" if torch.backends.mkldnn.is_available() else "",
        measured={
            kind: [[int(work), int(rate)] for work, rate in sorted(found)]
            for kind, found in points.items()
        },
    )


def _seconds(call):
    """Returns the mean time of a call in seconds, including the overhead of calling it."""
    call()
    count = 0
    began = perf_counter()
    while (passed := perf_counter() - began) < _SECONDS or count < 2:
        call()
        count += 1
    return passed / count


def _probes():
    """Returns a dict from names to (call, kind of op, work of one call).

    Work is in FLOPs or in bytes, as the roofline counts them.
    """
    probes = {"op": (_op_call(), "op", 1)}
    _add_matmuls(probes)
    _add_attention(probes)
    _add_convolutions(probes)
    for elements in (1 << 12, 1 << 16, 1 << 20, _LARGE_BYTES // 4):
        _add_memory_bound(probes, elements)
    return probes


def _op_call():
    small = torch.ones(4)
    return lambda: small.add_(1.0)


def _in_precision(kind, dtype):
    return f"{kind}.{str(dtype).removeprefix('torch.')}"


def _add_matmuls(probes):
    for rows, inner, columns in (
        (64, 64, 64),
        (256, 256, 256),
        (1024, 768, 768),
        (1024, 768, 2048),
        (1024, 2048, 4096),
    ):
        for dtype in _PRECISIONS:
            first = torch.randn(rows, inner, dtype=dtype)
            second = torch.randn(columns, inner, dtype=dtype).t()
            probes[f"matmul {dtype} {rows}x{inner}x{columns}"] = (
                lambda a=first, b=second: torch.mm(a, b),
                _in_precision("matmul", dtype),
                2 * rows * inner * columns,
            )


def _add_attention(probes):
    for batch, heads, length, size in ((4, 4, 64, 16), (4, 12, 256, 64), (1, 12, 1024, 64)):
        flops = 4 * batch * heads * length * length * size
        for dtype in _PRECISIONS:
            shape = (batch, heads, length, size)
            tensors = [torch.randn(shape, dtype=dtype) for _ in range(3)]
            _add_attention_passes(probes, "attention", tensors, False, flops)
            _add_attention_passes(probes, "causal_attention", tensors, True, flops // 2)


def _add_attention_passes(probes, kind, tensors, is_causal, flops):
    """Adds the forward pass, of `flops` FLOPs, and the backward pass with 2.5 times as many."""
    query, key, value = tensors
    output, logsumexp = aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, is_causal=is_causal
    )
    saved = (torch.randn_like(output), query, key, value, output, logsumexp, 0.0, is_causal)
    name = f"{kind} {query.dtype} {query.shape[2]}"
    probes[name] = (
        lambda: F.scaled_dot_product_attention(query, key, value, is_causal=is_causal),
        _in_precision(kind, query.dtype),
        flops,
    )
    probes[name + " backward"] = (
        lambda: aten._scaled_dot_product_flash_attention_for_cpu_backward(*saved),
        _in_precision(f"{kind}_backward", query.dtype),
        2.5 * flops,
    )


def _add_convolutions(probes):
    for batch, channels, size in ((8, 16, 16), (32, 64, 32), (32, 128, 32)):
        images, gradients = (torch.randn(batch, channels, size, size) for _ in range(2))
        weight = torch.randn(channels, channels, 3, 3)
        flops = 2 * batch * channels * channels * 9 * size * size
        probes[f"convolution {channels}"] = (
            lambda i=images, w=weight: F.conv2d(i, w, padding=1),
            "convolution.float32",
            flops,
        )
        settings = ([0], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, (True, True, False))
        probes[f"convolution {channels} backward"] = (
            lambda g=gradients, i=images, w=weight, s=settings: aten.convolution_backward(
                g, i, w, *s
            ),
            "convolution_backward.float32",
            2 * flops,
        )


def _add_memory_bound(probes, elements):
    """Adds memory-bound ops. They write to existing tensors, whose physical pages are allocated."""
    rows = max(1, elements // 1024)
    columns = elements // rows
    size_bytes = 4 * elements
    count = max(1, _IN_TURN_BYTES // (3 * size_bytes))
    turns = cycle([[torch.ones(rows, columns) for _ in range(3)] for _ in range(count)])
    weight, mean, deviation = torch.ones(columns), torch.empty(rows, 1), torch.empty(rows, 1)
    sums = torch.empty(rows)
    results = {"out1": mean, "out2": deviation}

    def add(kind, name, call, tensors):
        probes[f"{name} {elements}"] = (lambda: call(*next(turns)), kind, tensors * size_bytes)

    norm, softmax = aten.native_layer_norm.out, aten._log_softmax.out
    add("memory", "add", lambda a, b, out: torch.add(a, b, out=out), 3)
    add("random", "bernoulli", lambda a, b, out: out.bernoulli_(0.9), 1)
    add("transcendental", "silu", lambda a, b, out: aten.silu.out(a, out=out), 2)
    add("softmax", "log_softmax", lambda a, b, out: softmax(a, -1, False, out=out), 2)
    add("reduction", "sum", lambda a, b, out: torch.sum(a, -1, out=sums), 1)
    add(
        "normalization",
        "layer_norm",
        lambda a, b, out: norm(a, [columns], weight, weight, 1e-5, out0=out, **results),
        2,
    )
    _add_batch_norm(probes, elements)


def _add_batch_norm(probes, elements):
    """Adds batch norms with at least 16 channels, whose sums are computed channel by channel."""
    channels = max(16, min(64, elements >> 14))
    shape = (4, channels, elements // (4 * channels))
    count = max(1, _IN_TURN_BYTES // (3 * 4 * elements))
    turns = cycle([[torch.ones(shape) for _ in range(3)] for _ in range(count)])
    weight, bias, mean, variance, first, second = (torch.ones(channels) for _ in range(6))

    def forward():
        images, _, out = next(turns)
        results = {"out": out, "save_mean": first, "save_invstd": second}
        settings = (True, 0.1, 1e-5)
        aten.native_batch_norm.out(images, weight, bias, mean, variance, *settings, **results)

    def backward():
        images, gradient, out = next(turns)
        given = (gradient, images, weight, mean, variance, mean, variance)
        settings = (True, 1e-5, (True, True, True))
        results = {"out0": out, "out1": first, "out2": second}
        aten.native_batch_norm_backward.out(*given, *settings, **results)

    name, kind = f"batch_norm {elements}", "batch_normalization"
    probes[name] = (forward, kind, 2 * 4 * elements)
    probes[name + " backward"] = (backward, kind + "_backward", 3 * 4 * elements)
