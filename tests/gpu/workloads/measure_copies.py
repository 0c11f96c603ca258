"""Measures copies within a GPU beside copies between it and pinned memory, with PyTorch alone.

    measure_copies.py --out copies.json

Copies within the GPU of 1, 16 and 256 MiB follow each other on one stream, alone and while two
other streams copy to the GPU and to the host. Prints and writes bytes per second of each direction,
and what a copy within the GPU costs the thread that asks for it.
"""

import argparse
import ctypes
import json
import math
import sys
import time
from pathlib import Path

import torch

MIB = 1 << 20
SIZES = (MIB, 16 * MIB, 256 * MIB)
PINNED_BYTES = 256 * MIB
TO_GPU, TO_HOST, WITHIN = "to GPU", "to host", "within GPU"
HOST_COPIES = 400  # fewer than a stream takes before it lets the host wait


class Lane:
    """Copies of one size, one after the other on a stream of their own."""

    def __init__(self, size_bytes, to, source):
        self.size_bytes, self.to, self.source = size_bytes, to, source
        self.stream = torch.cuda.Stream()
        self.marks = []  # (event, copies before it)
        self.copies = 0
        self.copy = ctypes.CDLL("libcudart.so.13").cudaMemcpyAsync
        self.arguments = (
            ctypes.c_void_p(to.data_ptr()),
            ctypes.c_void_p(source.data_ptr()),
            ctypes.c_size_t(size_bytes),
            ctypes.c_int(4),  # the direction is that of the addresses
            ctypes.c_void_p(self.stream.cuda_stream),
        )

    def enqueue(self, copies):
        """Enqueues copies, with an event after them."""
        for _ in range(copies):
            code = self.copy(*self.arguments)
            if code != 0:
                raise RuntimeError(f"cudaMemcpyAsync returned {code}")
        self.copies += copies
        self.mark()

    def mark(self):
        event = torch.cuda.Event(enable_timing=True)
        event.record(self.stream)
        self.marks.append((event, self.copies))

    def times(self, origin):
        return [(origin.elapsed_time(event) / 1e3, copies) for event, copies in self.marks]


def rate_within(lane, origin, begin, end):
    """The rate between the first and the last event from `begin` to `end`, in bytes per second.

    Not a number where there are no two, as on a GPU that runs one stream at a time.
    """
    inside = [(at, copies) for at, copies in lane.times(origin) if begin <= at <= end]
    if len(inside) < 2:
        return math.nan
    (first, before), (last, after) = inside[0], inside[-1]
    return (after - before) * lane.size_bytes / (last - first)


def rates(lanes, seconds):
    """The rate of each lane by name, while all of them copy."""
    torch.cuda.synchronize()
    origin = torch.cuda.Event(enable_timing=True)
    origin.record()
    for lane in lanes.values():
        lane.marks.clear()
        lane.stream.wait_event(origin)
        lane.enqueue(1)
    for name in (TO_GPU, TO_HOST):  # they last longer than what is measured
        if name in lanes:
            for _ in range(max(int(2 * seconds / 5e-3), 4)):
                lanes[name].enqueue(1)
    ends_at = time.perf_counter() + seconds
    while WITHIN in lanes and time.perf_counter() < ends_at:
        lanes[WITHIN].enqueue(max(64 * MIB // lanes[WITHIN].size_bytes, 1))
    torch.cuda.synchronize()
    times = [lane.times(origin) for lane in lanes.values()]
    begin, end = max(each[0][0] for each in times), min(each[-1][0] for each in times)
    return {name: rate_within(lane, origin, begin, end) for name, lane in lanes.items()}


def host_microseconds(lane):
    """What a copy costs the thread that asks for it, without what a call from Python costs."""
    nothing = ctypes.CDLL("libcudart.so.13").cudaPeekAtLastError

    def cost(call, *arguments):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(HOST_COPIES):
            call(*arguments)
        return (time.perf_counter() - began) / HOST_COPIES * 1e6

    return {"us": cost(lane.copy, *lane.arguments), "us_of_python": cost(nothing)}


def measure(sizes, pinned_bytes, seconds, report):
    """Gives `report` each figure as it is there."""

    def memory(size_bytes, **where):
        return torch.zeros(size_bytes, dtype=torch.uint8, **where)

    pinned = [memory(pinned_bytes, pin_memory=True) for _ in range(2)]
    on_gpu = [memory(pinned_bytes, device="cuda") for _ in range(2)]
    link = {
        TO_GPU: Lane(pinned_bytes, on_gpu[0], pinned[0]),
        TO_HOST: Lane(pinned_bytes, pinned[1], on_gpu[1]),
    }
    for name, lane in link.items():
        report(f"{name} alone", rates({name: lane}, seconds))
    report("to GPU and to host", rates(link, seconds))
    for size_bytes in sizes:
        title = f"{size_bytes // MIB} MiB within GPU"
        ends = memory(size_bytes, device="cuda"), memory(size_bytes, device="cuda")
        within = Lane(size_bytes, *ends)
        report(f"{title} alone", rates({WITHIN: within}, seconds))
        report(f"{title}, to GPU and to host", rates(link | {WITHIN: within}, seconds))
        report(f"{title}: cost to the host", host_microseconds(within))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    parser.add_argument("--tiny", action="store_true", help="small copies, to try the flow")
    options = parser.parse_args(argv)
    found = {}

    def report(name, figures):
        found[name] = figures
        print(f"{name}: " + ", ".join(f"{k} {v:.4g}" for k, v in figures.items()), flush=True)
        options.out.write_text(json.dumps(found, indent=1))

    scale = 256 if options.tiny else 1
    sizes = [size_bytes // scale for size_bytes in SIZES]
    measure(sizes, PINNED_BYTES // scale, options.seconds, report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
