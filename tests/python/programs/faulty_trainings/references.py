"""What jobs of the matrix yield without faults."""

import functools
from dataclasses import dataclass

import torch
from matrix import budgets, catalogue
from matrix.jobs import Outcome, train
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from teraio.hooks.verification import tensor_hash


class StateRecorder(TorchDispatchMode):
    """Notes every state that the tensors of a model have, by name."""

    def __init__(self, model):
        super().__init__()
        tensors = model.state_dict()
        self._of_address = {t.data_ptr(): {tensor_hash(t)} for t in tensors.values()}
        self.hashes = {name: self._of_address[t.data_ptr()] for name, t in tensors.items()}

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        # The schema of batch norm does not tell that it changes the running means.
        if function._schema.is_mutable or "batch_norm" in function._schema.name:
            for value in tree_leaves((arguments, options)):
                if isinstance(value, torch.Tensor) and value.data_ptr() in self._of_address:
                    self._of_address[value.data_ptr()].add(tensor_hash(value))
        return result


@dataclass(frozen=True)
class Reference:
    outcome: Outcome
    states: dict[str, set[str]]  # hashes that each tensor of the model had
    peak_bytes: int  # what the job allocates at most when it may


def new_model(job):
    torch.manual_seed(1)
    return job.model()


@functools.cache
def reference(name):
    """Of a job, by its name in the matrix. Its bits under a session without faults are equal."""
    job = catalogue.JOBS[name]
    model = new_model(job)
    recorder = StateRecorder(model)
    with recorder:
        outcome = train(job, model)
    with budgets.offload(budgets.UNLIMITED) as session:
        assert train(job, new_model(job)) == outcome
    peak_bytes = max(each["device_peak_bytes"] for each in session.iterations())
    return Reference(outcome, recorder.hashes, peak_bytes)
