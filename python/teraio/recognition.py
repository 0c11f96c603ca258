"""What a training program consists of, in one line: its front ends, how its model is wrapped, and
the optimizers that end its steps."""

import importlib.metadata
import sys

import torch

from teraio import core

# What tells that a program trains with a package: living instances of these classes. A package that
# is imported only is not told.
_OF_PACKAGES = (
    ("transformers.trainer", "Trainer"),
    ("lightning.pytorch.trainer.trainer", "Trainer"),
    ("pytorch_lightning.trainer.trainer", "Trainer"),
    ("torchtitan.components.optimizer", "OptimizersContainer"),
    ("accelerate.accelerator", "Accelerator"),
    ("peft.peft_model", "PeftModel"),
)
# The packages are told by these names, in this order: those that build on others come first.
_PACKAGES = {
    "trl": "TRL",
    "transformers": "transformers",
    "lightning": "Lightning",
    "pytorch_lightning": "Lightning",
    "torchtitan": "TorchTitan",
    "accelerate": "Accelerate",
    "peft": "PEFT",
}
# What is made of a model, by the class that does it.
_WAYS = {
    "DDP": ("torch.nn.parallel.distributed", "DistributedDataParallel"),
    "FSDP": ("torch.distributed.fsdp", "FullyShardedDataParallel"),
    "FSDP2": ("torch.distributed.fsdp", "FSDPModule"),
    "DTensor": ("torch.distributed.tensor", "DTensor"),
    "pipeline": ("torch.distributed.pipelining.stage", "_PipelineStageBase"),
    "torch.compile": ("torch._inductor.output_code", "CompiledFxGraph"),
}


def recognised_line(optimizers, ranks):
    """Returns what is recognised of the program that runs, without "teraio: " and a line break.

    It visits all objects of the interpreter, and takes no reference to any of them.

    Args:
        optimizers: those that have stepped, in the order of their first steps.
        ranks: the `Ranks` of this process.
    """
    types = core.living_types()
    found = [f"PyTorch {torch.__version__}", *_packages(types), *_ways(types)]
    steps = " and ".join(_optimizer_text(each) for each in _without_wrappers(optimizers))
    line = f"recognised {', '.join(found)}; a step ends with {steps}"
    return f"{line}; {ranks.count} local ranks" if ranks.count > 1 else line


def _packages(types):
    markers = {id(found) for place in _OF_PACKAGES if (found := _imported_class(*place))}
    bases = [base for kind in types if markers & _ancestor_ids(kind) for base in kind.__mro__]
    used = {base.__module__.partition(".")[0] for base in bases}
    return [f"{title}{_version(name)}" for name, title in _PACKAGES.items() if name in used]


def _ways(types):
    living = set().union(*map(_ancestor_ids, types))
    return [way for way, place in _WAYS.items() if id(_imported_class(*place)) in living]


def _imported_class(module, name):
    """Returns a class of a module that the program has imported, or None."""
    return getattr(sys.modules.get(module), name, None)


def _ancestor_ids(kind):
    return {id(base) for base in kind.__mro__}


def _version(package):
    try:
        return f" {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return ""  # run from its sources


def _without_wrappers(optimizers):
    """Returns the optimizers without those that only call others, such as TorchTitan's container:
    the others have the same parameters together."""
    kept = list(optimizers)
    for optimizer in optimizers:
        others = [each for each in kept if each is not optimizer]
        if others and set().union(*map(_parameter_ids, others)) == _parameter_ids(optimizer):
            kept = others
    return kept


def _parameter_ids(optimizer):
    return {id(each) for group in optimizer.param_groups for each in group["params"]}


def _optimizer_text(optimizer):
    count = len(_parameter_ids(optimizer))
    ways = [way for way in ("fused", "foreach") if optimizer.param_groups[0].get(way)]
    name = " ".join([*ways, type(optimizer).__name__])
    return f"{name} over {count} parameter{'s' if count != 1 else ''}"
