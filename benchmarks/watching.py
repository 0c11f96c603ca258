#!/usr/bin/env python3
"""Measures what watching a run costs: the time per step with a status line, a report or a timeline.

A model of many small ops trains within a budget that holds all of it, so that the drives do not
disturb the figures and the hooks weigh as much as they can. Each round trains once without anything
and once with each way to watch, in an order that changes; a figure is the median over the rounds
of the ratio to the training without anything. Writes build/bench/watching.json.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch
from status_line import open_terminal

import teraio

LIMIT = 1.02  # of the time
LAYERS = 60
WARM_UP_STEPS = 6  # which are profiled


def ways_to_watch(folder):
    """Returns the arguments of teraio.offload() for each arm."""
    return {
        "status line": {"status_line": True},
        "report": {"report": str(folder / "report")},
        "timeline": {"save_timeline": str(folder / "timeline.json.gz")},
    }


def step_seconds(steps, budget, **watching):
    """Trains in a session of its own, and returns the median time of a step in seconds."""
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(LAYERS)])
    optimizer = torch.optim.AdamW(model.parameters())
    times = []
    with teraio.offload(budget, **watching):
        for _ in range(WARM_UP_STEPS + steps):
            begin = time.perf_counter()
            model(torch.ones(64, 256)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            times.append(time.perf_counter() - begin)
    return statistics.median(times[WARM_UP_STEPS:])


def measure(rounds, steps, budget):
    """Returns a dict from arms to their ratios, one per round."""
    ratios = {}
    with tempfile.TemporaryDirectory() as folder:
        arms = [("nothing", {}), *ways_to_watch(Path(folder)).items()]
        for round in range(rounds):
            turn = round % len(arms)
            seconds = {
                name: step_seconds(steps, budget, **watching)
                for name, watching in arms[turn:] + arms[:turn]
            }
            plain = seconds.pop("nothing")
            for name, value in seconds.items():
                ratios.setdefault(name, []).append(value / plain)
            print(f"round {round + 1}: {1e3 * plain:.2f} ms per step", flush=True)
    return ratios


def row(name, ratios):
    value = statistics.median(ratios)
    print(f"{name}: {value:.4f} of the time, {min(ratios):.4f} to {max(ratios):.4f}")
    named = {"name": f"time per step with a {name} / without", "value": value, "unit": ""}
    return named | {"reference": LIMIT, "ratio": value / LIMIT}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=120, help="of each arm in each round")
    parser.add_argument("--budget", default="200MB", help="the training needs 63 MB")
    parser.add_argument("--output", type=Path, default=Path("build/bench/watching.json"))
    args = parser.parse_args(argv)
    open_terminal()
    measured = measure(args.rounds, args.steps, args.budget)
    rows = [row(name, ratios) for name, ratios in measured.items()]
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
