"""What is evaluated: models and where their traces come from, machines, systems."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "tests" / "data" / "traces"
HARDWARE = ROOT / "examples" / "hardware" / "h100_nvl.json"
PRICES = ROOT / "examples" / "prices" / "h100_nvl.json"


@dataclass(frozen=True)
class Case:
    """One model as it is trained: name, batch (sequences per step), tokens per sequence."""

    key: str
    model: str
    micro_batches: int
    micro_batch: int
    sequence_length: int

    @property
    def tokens_per_step(self):
        return self.micro_batches * self.micro_batch * self.sequence_length

    @property
    def batch(self):
        return (
            f"{self.micro_batches} x {self.micro_batch} sequences of {self.sequence_length} tokens"
        )


@dataclass(frozen=True)
class Source:
    path: Path
    rests_on: str


CASES = [
    Case("l8", "Llama3-8B", 4, 8, 2048),
    Case("gr8", "Granite-8B", 4, 8, 2048),
    Case("l70", "Llama3-70B", 4, 4, 1024),
]

# What the paper shows and no trace is there for.
WITHOUT_TRACE = ["GPT-2 40B", "T5-11B", "BERT-Large"]


def trace_of(case):
    """Where a case's trace comes from, and what it rests on. Nothing else knows about that."""
    return Source(
        TRACES / f"{case.key}.json.gz",
        "modelled: the ops of one rank of two (tensor parallel, fp32, AdamW), each timed by a "
        "roofline of an H100 NVL (45 TFLOP/s, 3 TB/s of memory, all-reduce at 200 GB/s)",
    )


@dataclass(frozen=True)
class System:
    """A policy of `teraio plan`, and what it may use."""

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
    System("on-demand", "on demand", ("on-demand",)),
]
