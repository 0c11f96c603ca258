"""The time of a collective: the model by which NCCL chooses its algorithms (src/graph/tuning.cc).

A ring of N ranks has N - 1 steps for a gather or a scatter, and twice as many for a sum on all
ranks. Each step takes the latency of its link, and each byte passes the slowest link of the ring. A
tree has few steps between nodes and sends each byte twice; it is for sums on all ranks alone. The
model leaves out that collectives of other jobs, and storage traffic, share the network, that
switches are oversubscribed, and that a collective slows down the kernels that run beside it.
"""

import math
from dataclasses import dataclass

GATHER, SCATTER, SUM = "all-gather", "reduce-scatter", "all-reduce"

# NCCL's constants for its protocol of large messages ("Simple"), in nanoseconds.
_BASE_NS = 8_400
_RING_LINK_NS, _TREE_LINK_NS, _NETWORK_NS = 3_400, 4_000, 14_000
_TREE_SHARE = 0.92  # of the rate of the links, that a tree reaches


@dataclass(frozen=True)
class Group:
    """The ranks of a collective: `ranks` of them on `nodes` nodes, equally many on each."""

    ranks: int
    nodes: int

    @property
    def per_node(self):
        return self.ranks // self.nodes


@dataclass(frozen=True)
class Network:
    """Links between the GPUs of a node, and between nodes, in bytes per second each way.

    Groups that have only some of a node's ranks share `node_bytes_per_second` equally: as many of
    them run at the same time as the node has room for.
    """

    link_bytes_per_second: float
    node_bytes_per_second: float
    ranks_per_node: int

    def duration_ns(self, kind, size_bytes, group):
        """Returns the time of a collective; `size_bytes` is the whole of it, not a rank's part."""
        if group.ranks == 1:
            return 0
        ring_ns = self._ring_ns(kind, size_bytes, group)
        return round(min(ring_ns, self._tree_ns(size_bytes, group)) if kind == SUM else ring_ns)

    def _ring_ns(self, kind, size_bytes, group):
        rounds = 2 if kind == SUM else 1
        between = group.nodes - 1
        latency_ns = between * _NETWORK_NS + (group.ranks - 1 - between) * _RING_LINK_NS
        passing_bytes = size_bytes * (group.ranks - 1) / group.ranks
        return _BASE_NS + rounds * (latency_ns + passing_bytes / self._rate(group) * 1e9)

    def _tree_ns(self, size_bytes, group):
        depth = math.floor(math.log2(group.nodes))
        latency_ns = (group.per_node - 1) * _TREE_LINK_NS + depth * _NETWORK_NS
        bytes_ns = size_bytes / (_TREE_SHARE * self._rate(group)) * 1e9
        return _BASE_NS + 2 * (latency_ns + bytes_ns)

    def _rate(self, group):
        """Returns the rate of the slowest link of a group."""
        rates = [self.link_bytes_per_second] if group.per_node > 1 else []
        if group.nodes > 1:
            rates.append(self.node_bytes_per_second * group.per_node / self.ranks_per_node)
        return min(rates)
