"""The questions that the page rests on: which step, on which machine, under which system."""

from dataclasses import dataclass

from evaluation.what_to_buy import offers, steps

CARDS = ("rtx-5060-ti", "rtx-4090", "rtx-5090")
SERVERS = ("rtx-pro-6000", "h100-nvl", "h200", "b200", "gh200")
FULL = ("full-fp32", "full-bf16")
OURS = (steps.TERAIO,)


@dataclass(frozen=True)
class Question:
    """A step on a machine under a system."""

    step: steps.Step
    machine: offers.Machine
    system: steps.System

    @property
    def key(self):
        return f"{self.step.key}-{self.machine.key}-{self.system.key}"


@dataclass(frozen=True)
class Part:
    """Questions: each training and system on each device with each memory and number of drives."""

    model: str
    trainings: tuple
    micro_batches: int
    devices: tuple
    host_memories_gb: tuple
    drives: tuple
    systems: tuple = OURS

    def questions(self):
        for machine in offers.machines(self.devices, self.host_memories_gb, self.drives):
            for training in self.trainings:
                for system in self.systems:
                    step = steps.Step(
                        self.model,
                        training,
                        self.micro_batches,
                        machine.device["accelerator"],
                        system.checkpointing,
                    )
                    yield Question(step, machine, system)


COMPARED = ("rtx-4090", "h100-nvl", "gh200")

GRID = [
    Part("8b", FULL, 2, CARDS + SERVERS, (64, 128, 256), (0, 2)),
    Part("8b", FULL, 2, CARDS, (64, 128), (1,)),
    Part("8b", FULL, 2, CARDS, (32,), (2,)),
    Part("8b", ("lora",), 2, CARDS, (32,), (0,)),
    Part("8b", ("lora",), 2, CARDS + SERVERS, (64,), (0,)),
    Part("8b", FULL, 2, COMPARED, (128,), (0, 2), (steps.ZERO_INFINITY,)),
    Part("8b", FULL, 2, COMPARED, (128,), (0,), (steps.ZERO_OFFLOAD,)),
    Part("8b", ("full-fp32",), 2, COMPARED[:2], (256,), (0, 2), (steps.ZERO_INFINITY,)),
    Part("8b", ("full-fp32",), 2, COMPARED[:2], (256,), (0,), (steps.ZERO_OFFLOAD,)),
    Part("14b", FULL, 2, CARDS + SERVERS, (128, 256), (0, 2)),
    Part("14b", ("full-fp32",), 16, ("rtx-4090",), (256,), (2,)),
    Part("14b", ("full-bf16",), 16, ("rtx-4090",), (256,), (0,)),
    Part("14b", ("full-bf16",), 16, ("rtx-pro-6000", "h100-nvl"), (128,), (0,)),
    Part("32b", ("full-bf16",), 2, CARDS[1:] + SERVERS, (256,), (0, 2)),
    Part("8b", FULL, 16, CARDS, (64, 128), (2,)),
    Part("8b", FULL, 16, CARDS, (256,), (0,)),
    Part("8b", ("full-bf16",), 16, CARDS, (128,), (0,)),
    Part("8b", FULL, 16, SERVERS[:2], (64,), (2,)),
    Part("8b", FULL, 16, SERVERS[:2], (128,), (0,)),
    Part("8b", FULL, 16, SERVERS[2:], (64,), (0,)),
]


def questions():
    """Returns all questions, each once."""
    every = {question.key: question for part in GRID for question in part.questions()}
    return list(every.values())
