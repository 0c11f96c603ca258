"""The jobs that the page compares: layouts, ranks, drives, networks, and what goes wrong."""

import dataclasses
import itertools

from evaluation.scaling import layouts, node
from evaluation.scaling.case import GIGABITS, Case
from evaluation.scaling.job import Kind
from evaluation.scaling.late_reads import Delay

RANKS = (8, 64, 1024)
DRIVES = (1, 2, 4, 8)
SLOW_GPU = 1.1  # its ops take so much longer
SLOW_DRIVE = 1 / 3  # of its rate


def _as_planned(share, slowdown=1.0):
    return Kind(share, share, slowdown)


def equal(layout, ranks, drives):
    """Returns the job whose ranks are all equal and share the drives of their node."""
    return Case(f"{drives}-drives", layout, ranks, (_as_planned(node.shared(drives)),))


def _layouts_of(ranks):
    """Returns the layouts to compare: on one node, hybrid is the same as sharded."""
    hybrid = () if ranks == node.RANKS else (layouts.LLAMA_70B_HYBRID,)
    return (layouts.LLAMA_8B_DDP, layouts.LLAMA_70B_FSDP, *hybrid)


EQUAL = [
    equal(layout, ranks, drives)
    for ranks in RANKS
    for layout in _layouts_of(ranks)
    for drives in DRIVES
]

# Where something goes wrong: on one node, and on 128 nodes of ranks with as many states.
FAULTY_JOBS = ((layouts.LLAMA_70B_FSDP, 8), (layouts.LLAMA_70B_HYBRID, 1024))
_ALL, _OWN = node.shared(node.RANKS), node.own()


def _slow(share):
    return node.waiting_for_slow_drive(share, SLOW_DRIVE)


def _known(share):
    return _as_planned(node.with_slow_drive(share, SLOW_DRIVE))


# What is wrong with some ranks, in words, and these ranks.
FAULTS = {
    "slow-gpu": (f"one GPU is {100 * (SLOW_GPU - 1):.0f} % slower", _as_planned(_ALL, SLOW_GPU)),
    "own-drive-slow": (
        "each rank has a drive, and one has a third of its rate: no new plan",
        Kind(_slow(_OWN), _OWN),
    ),
    "own-drive-known": ("the same, after its rank has planned again", _known(_OWN)),
    "shared-drive-slow": (
        "ranks share their node's drives, and one has a third of its rate: no new plan",
        Kind(_slow(_ALL), _ALL),
    ),
    "shared-drive-known": ("the same, after the node's ranks have planned again", _known(_ALL)),
}


def faulty(fault, layout, ranks):
    """Returns the job in which all ranks are equal except for those of the fault."""
    return Case(fault, layout, ranks, (_as_planned(_ALL), FAULTS[fault][1]))


FAULTY = [faulty(fault, *of) for fault, of in itertools.product(FAULTS, FAULTY_JOBS)]

NETWORKS_GIGABITS = (25, 100, 400, 800, 3200)
NETWORK_RANKS = 64
# Lines of the figure: a layout and drives per node.
NETWORK_LINES = (
    (layouts.LLAMA_70B_FSDP, 8),
    (layouts.LLAMA_70B_HYBRID, 8),
    (layouts.LLAMA_70B_HYBRID, 2),
    (layouts.LLAMA_8B_DDP, 8),
)


def networked(layout, drives, gigabits):
    """Returns the job of equal ranks on a network of so many Gb/s per node."""
    case = equal(layout, NETWORK_RANKS, drives)
    rate = gigabits * GIGABITS
    if rate == case.node_rate:
        return case
    return dataclasses.replace(case, name=f"{case.name}-{gigabits}-gigabits", node_rate=rate)


NETWORKED = [networked(*line, gigabits) for line in NETWORK_LINES for gigabits in NETWORKS_GIGABITS]

LATE = equal(layouts.LLAMA_70B_HYBRID, 1024, 8)
LATE_RANKS = (1, 8, 64, 256, 1024)
DELAYS = {
    "10 ms": Delay(1e6, 1e7),
    "100 ms": Delay(1e6, 1e8),
    "1 s": Delay(1e6, 1e9),
}


def every():
    """Returns all cases, each once."""
    return list({case.key: case for case in [*EQUAL, *FAULTY, *NETWORKED]}.values())
