"""How the states of a model are divided over the ranks of a job, and the trace of one rank."""

from dataclasses import dataclass

from evaluation import cases, kernels, traces
from evaluation.command import teraio
from evaluation.scaling import network, node

SCRIPT = cases.ROOT / "evaluation" / "workloads" / "llama_data_parallel.py"
MICRO_BATCH, SEQUENCE_LENGTH = 4, 4096
TOKENS_PER_RANK = MICRO_BATCH * SEQUENCE_LENGTH  # of a step


@dataclass(frozen=True)
class Layout:
    """A model, and the layout of its states (an option of the script)."""

    preset: str
    model: str
    states: str
    title: str

    @property
    def key(self):
        return f"{self.preset}-{self.states}"

    def traced_ranks(self, ranks):
        """Returns the number of ranks whose trace is that of a job of `ranks`.

        Where a rank's states do not depend on the number of nodes, one trace serves all jobs.
        """
        if self.states == "sharded" or ranks == node.RANKS:
            return ranks
        return node.RANKS if self.states == "replicated" else 2 * node.RANKS

    def group(self, kind, ranks):
        """Returns the group of ranks that a collective of this kind has in a job of `ranks`."""
        nodes = ranks // node.RANKS
        if self.states != "hybrid" or nodes == 1:
            return network.Group(ranks, nodes)
        is_inner = kind in (network.GATHER, network.SCATTER)
        return network.Group(node.RANKS, 1) if is_inner else network.Group(nodes, nodes)


DDP = "each rank has all states (DDP)"
FSDP = "sharded over all ranks (FSDP2)"
HYBRID = "sharded over the ranks of a node (FSDP2, hybrid)"
LLAMA_8B_DDP = Layout("llama3-8b", "Llama3-8B", "replicated", DDP)
LLAMA_8B_FSDP = Layout("llama3-8b", "Llama3-8B", "sharded", FSDP)
LLAMA_70B_FSDP = Layout("llama3-70b", "Llama3-70B", "sharded", FSDP)
LLAMA_70B_HYBRID = Layout("llama3-70b", "Llama3-70B", "hybrid", HYBRID)


def command_of(layout, ranks):
    """Returns the arguments of `teraio dry-run` for rank 0 of a job of `ranks`, as strings."""
    words = ["--accelerator", node.DEVICE, "--world-size", ranks, "--rank", 0, SCRIPT]
    words += ["--preset", layout.preset, "--layout", layout.states]
    words += ["--micro-batch", MICRO_BATCH, "--sequence-length", SEQUENCE_LENGTH]
    return [str(word) for word in words]


def dry_run(layout, ranks, path):
    """Writes the trace of rank 0 to `path`, only kernels. Raises CommandFailed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"partial-{path.name}")
    try:
        teraio("dry-run", "--save-trace", partial, *command_of(layout, ranks))
        name = {"name": f"{layout.key}, a rank of {ranks}"}
        traces.write(kernels.only_kernels(traces.read(partial) | name), partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
