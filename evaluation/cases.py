"""The subjects of the evaluation: models as they are trained, the machine, and the systems."""

import dataclasses
import itertools
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HARDWARE = ROOT / "examples" / "hardware" / "h100_nvl.json"
PRICES = ROOT / "examples" / "prices" / "h100_nvl.json"
LLAMA = ROOT / "examples" / "pretrain_llama.py"
TRANSFORMER = ROOT / "evaluation" / "workloads" / "transformer.py"
LLAMA_PIPELINE = ROOT / "evaluation" / "workloads" / "llama_pipeline.py"
RANKS = 2


@dataclass(frozen=True)
class Case:
    """A model, the size of one step, and the script that trains it on `ranks` devices.

    A step trains `micro_batches` times `micro_batch` sequences of `sequence_length` tokens each.
    `options` are arguments of the script; `rank` is the process that is evaluated. With `tf32`,
    the matrix products of the fp32 trace of the same step are rescaled. The key names files.
    """

    key: str
    model: str
    micro_batches: int
    micro_batch: int
    sequence_length: int
    script: Path
    options: tuple
    rank: int = 0
    ranks: int = RANKS
    tf32: bool = False

    @property
    def sequences(self):
        return self.micro_batches * self.micro_batch

    @property
    def tokens_per_step(self):
        return self.sequences * self.sequence_length

    @property
    def batch(self):
        return (
            f"{self.micro_batches} x {self.micro_batch} sequences of {self.sequence_length} tokens"
        )

    @property
    def title(self):
        if self.ranks == 1:
            return f"{self.key}, {self.batch}"
        return f"{self.model}, {self.batch}"

    def with_batch(self, micro_batches, micro_batch, sequence_length):
        """Returns the same model with a step of another size."""
        return Case(
            f"{self.key}-{micro_batches}x{micro_batch}x{sequence_length}",
            self.model,
            micro_batches,
            micro_batch,
            sequence_length,
            self.script,
            self.options,
        )


L8 = Case("l8", "Llama3-8B", 4, 4, 4096, LLAMA, ("--preset", "llama3-8b"))
GR8 = Case(
    "gr8", "Granite-8B", 4, 4, 4096, LLAMA, ("--preset", "granite-8b", "--no-tie-embeddings")
)
L70 = Case("l70", "Llama3-70B", 2, 8, 2048, LLAMA, ("--preset", "llama3-70b"))

# The step of each model.
CASES = [
    L8,
    GR8,
    L70,
    Case("gpt2", "GPT-2 40B", 4, 4, 1024, TRANSFORMER, ("--shape", "gpt2-40b")),
    Case("t5", "T5-11B", 4, 16, 512, TRANSFORMER, ("--shape", "t5-11b")),
    Case("bert", "BERT-Large", 4, 64, 512, TRANSFORMER, ("--shape", "bert-large")),
]

# The models of the paper's text, for the analyses that take longest.
OF_PAPER = CASES[:3]

# The further batches and sequence lengths of Figure 7. Micro-batches have 16,384 tokens.
BATCHES = {
    "l8": [L8.with_batch(count, 8, 2048) for count in (2, 4)],
    "gr8": [GR8.with_batch(2, 8, 2048)],
    "l70": [L70],
}
SEQUENCES = {
    "l8": [L8.with_batch(1, 16, 1024), BATCHES["l8"][0], L8],
    "gr8": [GR8.with_batch(1, 16, 1024), BATCHES["gr8"][0], GR8],
    "l70": [L70.with_batch(1, 16, 1024), L70],
}

# The sweep: eight sequences of Llama3-8B on one device, divided into more and fewer micro-batches,
# in each precision and with each checkpointing.
MICRO_BATCHES = (2, 8)
CHECKPOINTING = ("none", "selective", "full")
PRECISIONS = {"fp32": "fp32", "tf32": "TF32", "bf16": "bf16 autocast"}


def of_sweep(precision, micro_batch, checkpointing):
    """Returns the step of the sweep; that in TF32 has the options of the one in fp32."""
    options = ("--preset", "llama3-8b", "--optimizer-impl", "fused")
    options += ("--activation-checkpointing", checkpointing)
    options += ("--bf16",) if precision == "bf16" else ()
    return Case(
        f"sweep-{precision}-{micro_batch}-{checkpointing}",
        "Llama3-8B",
        8 // micro_batch,
        micro_batch,
        2048,
        LLAMA,
        options,
        ranks=1,
        tf32=precision == "tf32",
    )


def in_fp32(case):
    """Returns the step of the sweep that the one in TF32 is rescaled from."""
    return dataclasses.replace(case, key=case.key.replace("-tf32-", "-fp32-"), tf32=False)


SWEEP = {key: of_sweep(*key) for key in itertools.product(PRECISIONS, MICRO_BATCHES, CHECKPOINTING)}

# Figure 1 shows the stages of a pipeline beside the whole.
STAGES = [
    Case(
        f"l8-stage{rank}",
        f"Llama3-8B, stage {rank + 1} of 2",
        4,
        4,
        4096,
        LLAMA_PIPELINE,
        ("--preset", "llama3-8b"),
        rank,
    )
    for rank in range(2)
]


def settings():
    """Returns the steps that only Figure 7 has, each once."""
    groups = [*BATCHES.values(), *SEQUENCES.values()]
    every = {case.key: case for group in groups for case in group}
    return [case for case in every.values() if case not in CASES]


@dataclass(frozen=True)
class System:
    """A policy of `teraio plan`.

    `options` are its name and limits; `plan_options` are further ones for the planner alone.
    """

    key: str
    name: str
    options: tuple
    recompute: str = "off"
    plan_options: tuple = ()

    @property
    def host(self):
        """Tells whether the system uses host memory."""
        return "--host-limit" not in self.options


_SSD = ("--host-limit", "0")

SYSTEMS = [
    System("algorithm1-ssd", "TERAIO-SSD, the paper's Algorithm 1", ("algorithm1", *_SSD)),
    System("ours-ssd", "TERAIO-SSD, ours", ("teraio", *_SSD)),
    System("ours-replay-ssd", "TERAIO-SSD, ours with recompute", ("teraio", *_SSD), "all"),
    System("g10-ssd", "G10 on drives alone", ("g10", *_SSD)),
    System("ssdtrain-ssd", "SSDTrain", ("activations-only", *_SSD)),
    System("zero-infinity-ssd", "ZeRO-Infinity on drives alone", ("zero-infinity", *_SSD)),
    System("on-demand-ssd", "on-demand paging on drives alone", ("on-demand", *_SSD)),
    System("algorithm1-mixed", "TERAIO-Mixed, the paper's Algorithm 1", ("algorithm1",)),
    System("ours-mixed", "TERAIO-Mixed, ours", ("teraio",)),
    System("ours-replay-mixed", "TERAIO-Mixed, ours with recompute", ("teraio",), "all"),
    System("g10-mixed", "G10", ("g10",)),
    System("zero-offload", "ZeRO-Offload", ("zero-offload",)),
    System("zero-infinity", "ZeRO-Infinity", ("zero-infinity",)),
    System("on-demand", "on-demand paging", ("on-demand",)),
]
# The planner that gives up half a percent of speed for fewer writes, for the cost of the drives.
# Its time limit keeps a run of the evaluation short.
_FEW_WRITES = ("--prefer", "wear", "--time-limit", "30")
FRUGAL_SYSTEMS = [
    System("frugal-ssd", "TERAIO-SSD, fewest writes", ("teraio", *_SSD), "all", _FEW_WRITES),
    System("frugal-mixed", "TERAIO-Mixed, fewest writes", ("teraio",), "all", _FEW_WRITES),
]
SSD_SYSTEMS = [system for system in SYSTEMS if not system.host]
HOST_SYSTEMS = [system for system in SYSTEMS if system.host]


def _chosen(*keys):
    return [system for system in SYSTEMS if system.key in keys]


_OURS = ("ours-ssd", "ours-replay-ssd", "ours-mixed", "ours-replay-mixed")
# The systems of the paper, for the steps that only Figure 7 has, and for figures.
SYSTEMS_OF_SETTINGS = _chosen(
    "algorithm1-ssd", "algorithm1-mixed", *_OURS, "zero-offload", "zero-infinity"
)
SYSTEMS_OF_FIGURES = _chosen(
    *(system.key for system in SYSTEMS_OF_SETTINGS), "zero-infinity-ssd", "on-demand"
)
SYSTEMS_OF_SWEEP = _chosen(*_OURS, "zero-infinity-ssd", "zero-offload", "zero-infinity")


def of(results):
    """Returns the cases of CASES that have results, in order."""
    return [case for case in CASES if case.key in results]


def having(results, analysis):
    """Returns those of them whose results include the analysis."""
    return [case for case in of(results) if analysis in results[case.key]]


def system(key):
    """Returns the system with the key."""
    return next(system for system in (*SYSTEMS, *FRUGAL_SYSTEMS) if system.key == key)
