"""The subjects of the evaluation: models as they are trained, the machine, and the systems."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HARDWARE = ROOT / "examples" / "hardware" / "h100_nvl.json"
PRICES = ROOT / "examples" / "prices" / "h100_nvl.json"
LLAMA = ROOT / "examples" / "pretrain_llama.py"
TRANSFORMER = ROOT / "evaluation" / "workloads" / "transformer.py"
LLAMA_PIPELINE = ROOT / "evaluation" / "workloads" / "llama_pipeline.py"


@dataclass(frozen=True)
class Case:
    """A model, the size of one step, and the script that trains it on two devices.

    A step trains `micro_batches` times `micro_batch` sequences of `sequence_length` tokens each.
    `options` are arguments of the script; `rank` is the process that is evaluated. The key names
    files.
    """

    key: str
    model: str
    micro_batches: int
    micro_batch: int
    sequence_length: int
    script: Path
    options: tuple
    rank: int = 0

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

# The step of each model in every figure.
CASES = [
    L8,
    GR8,
    L70,
    Case("gpt2", "GPT-2 40B", 4, 4, 1024, TRANSFORMER, ("--shape", "gpt2-40b")),
    Case("t5", "T5-11B", 4, 16, 512, TRANSFORMER, ("--shape", "t5-11b")),
    Case("bert", "BERT-Large", 4, 64, 512, TRANSFORMER, ("--shape", "bert-large")),
]

# The further batches and sequence lengths of Figure 7. Micro-batches have 16,384 tokens.
BATCHES = {
    "l8": [L8.with_batch(count, 8, 2048) for count in (2, 4, 8, 16)],
    "gr8": [GR8.with_batch(count, 8, 2048) for count in (2, 4)],
    "l70": [L70, L70.with_batch(4, 8, 2048)],
}
SEQUENCES = {
    "l8": [L8.with_batch(1, 16, 1024), BATCHES["l8"][0], L8, L8.with_batch(8, 2, 8192)],
    "gr8": [GR8.with_batch(1, 16, 1024), BATCHES["gr8"][0], GR8],
    "l70": [L70.with_batch(1, 16, 1024), L70, L70.with_batch(4, 4, 4096)],
}
# The same eight sequences, divided into more and into fewer micro-batches.
MICRO_BATCHES = {
    "l8": [L8.with_batch(8 // size, size, 2048) for size in (2, 4, 8)],
    "l70": [L70.with_batch(8 // size, size, 2048) for size in (4, 8)],
}

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
    groups = [*BATCHES.values(), *SEQUENCES.values(), *MICRO_BATCHES.values()]
    every = {case.key: case for group in groups for case in group}
    return [case for case in every.values() if case not in CASES]


@dataclass(frozen=True)
class System:
    """A policy of `teraio plan`: `options` are its name and limits."""

    key: str
    name: str
    options: tuple


_SSD = ("--host-limit", "0")

SYSTEMS = [
    System("algorithm1-ssd", "TERAIO-SSD, the paper's Algorithm 1", ("algorithm1", *_SSD)),
    System("ours-ssd", "TERAIO-SSD, ours", ("teraio", *_SSD)),
    System("algorithm1-mixed", "TERAIO-Mixed, the paper's Algorithm 1", ("algorithm1",)),
    System("ours-mixed", "TERAIO-Mixed, ours", ("teraio",)),
    System("zero-offload", "ZeRO-Offload", ("zero-offload",)),
    System("zero-infinity", "ZeRO-Infinity", ("zero-infinity",)),
    System("zero-infinity-ssd", "ZeRO-Infinity on drives alone", ("zero-infinity", *_SSD)),
    System("on-demand", "on-demand paging", ("on-demand",)),
]
# The systems of the paper, for the steps that only Figure 7 has.
SYSTEMS_OF_SETTINGS = SYSTEMS[:6]


def of(results):
    """Returns the cases of CASES that have results, in order."""
    return [case for case in CASES if case.key in results]
