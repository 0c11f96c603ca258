"""What is evaluated: models as they are trained, the machine, systems."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HARDWARE = ROOT / "examples" / "hardware" / "h100_nvl.json"
PRICES = ROOT / "examples" / "prices" / "h100_nvl.json"
LLAMA = ROOT / "examples" / "pretrain_llama.py"
OTHERS = ROOT / "tools" / "paper" / "train.py"


@dataclass(frozen=True)
class Case:
    """A model, what one step of it trains, and the script that trains it."""

    key: str
    model: str
    micro_batches: int
    micro_batch: int
    sequence_length: int
    script: Path
    options: tuple

    @property
    def tokens_per_step(self):
        return self.micro_batches * self.micro_batch * self.sequence_length

    @property
    def batch(self):
        return (
            f"{self.micro_batches} x {self.micro_batch} sequences of {self.sequence_length} tokens"
        )


CASES = [
    Case("l8", "Llama3-8B", 4, 8, 2048, LLAMA, ("--preset", "llama3-8b")),
    Case("gr8", "Granite-8B", 4, 8, 2048, LLAMA, ("--preset", "granite-8b", "--no-tie-embeddings")),
    Case("l70", "Llama3-70B", 4, 4, 1024, LLAMA, ("--preset", "llama3-70b")),
    Case("gpt2", "GPT-2 40B", 4, 4, 1024, OTHERS, ("--shape", "gpt2-40b")),
    Case("t5", "T5-11B", 4, 16, 512, OTHERS, ("--shape", "t5-11b")),
    Case("bert", "BERT-Large", 4, 64, 512, OTHERS, ("--shape", "bert-large")),
]


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
    System("zero-infinity-ssd", "ZeRO-Infinity on drives alone", ("zero-infinity", *_SSD)),
    System("on-demand", "on demand", ("on-demand",)),
]


def of(results):
    """The cases that there are results of, in order."""
    return [case for case in CASES if case.key in results]


def without(results):
    """The names of the models that there was no trace of."""
    return [case.model for case in CASES if case.key not in results]
