"""A job to predict: its layout, ranks, drives and network."""

from dataclasses import dataclass

from evaluation import traces
from evaluation.scaling import collectives, layouts, network, node
from evaluation.scaling.job import Job
from teraio.dry_run import accelerator

GIGABITS = 1e9 / 8  # per second, in bytes
FAST_NETWORK = node.RANKS * 400 * GIGABITS  # of a node, each way: 400 Gb/s per GPU


@dataclass(frozen=True)
class Case:
    """A job of `ranks` ranks, of these kinds. `node_rate` is of a node's network, in bytes/s."""

    name: str
    layout: layouts.Layout
    ranks: int
    kinds: tuple
    node_rate: float = FAST_NETWORK

    @property
    def key(self):
        return f"{self.layout.key}-{self.ranks}-{self.name}"

    @property
    def trace(self):
        """Returns the layout and the number of ranks of the dry run."""
        return self.layout, self.layout.traced_ranks(self.ranks)

    def job(self, path):
        """Returns the job, given the path of the trace of a rank."""
        links = network.Network(gpu_link_rate(), self.node_rate, node.RANKS)
        trace, found = collectives.with_waits(traces.read(path))
        return Job(trace, found, [self._duration_ns(links, each) for each in found])

    def _duration_ns(self, links, collective):
        group = self.layout.group(collective.kind, self.ranks)
        return links.duration_ns(collective.kind, collective.size_bytes, group)


def gpu_link_rate():
    device = accelerator.load(node.DEVICE)
    return device.efficiency["link"] * device.link_bytes_per_second
