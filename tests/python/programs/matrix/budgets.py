"""Running a job with and without a budget."""

import functools
import re

import stress_modes
import torch

from .jobs import train

UNLIMITED = "4GB"
SSD_CAPACITY = "200MB"


def settle_kernels():
    """MKL's vector functions choose their kernels on their first call, which two threads must not
    make at once: one of them may then run another kernel, with other bits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for dtype in (torch.float32, torch.float64, torch.complex64):
        values = torch.full((64,), 0.5, dtype=dtype)
        for function in (torch.tanh, torch.exp, torch.log, torch.sin, torch.cos, torch.sqrt):
            function(values)
        if not dtype.is_complex:
            for function in (torch.erf, torch.erfc, torch.erfinv, torch.expm1, torch.log1p):
                function(values)
    torch.set_num_threads(threads)


def offload(budget, **options):
    return stress_modes.offload(budget, ssd_capacity=SSD_CAPACITY, **options)


@functools.cache
def reference(name):
    """What the job yields on stock PyTorch."""
    from . import catalogue

    return train(catalogue.JOBS[name])


@functools.cache
def natural_peak_bytes(name):
    """What the job allocates at most when it may. Its results must be equal already."""
    from . import catalogue

    outcome, session = train_within(catalogue.JOBS[name], UNLIMITED)
    assert outcome == reference(name)
    return max(iteration["device_peak_bytes"] for iteration in session.iterations())


def train_within(job, budget, **options):
    with offload(budget, **options) as session:
        outcome = train(job)
    return outcome, session


def least_bytes(error):
    """What the error of an op that does not fit says is needed; its form is checked."""
    form = (
        r"TERAIO: op \S+ needs \S+ \S+ more on the device; the budget is \S+ \S+, of which "
        r"\S+ \S+ are in use and cannot leave( \(.+\))?\. "
        r"(?:This op needs a budget of at least|The iterations so far need a budget of) "
        r"(\d+) bytes "
    )
    match = re.match(form, str(error))
    assert match, error
    return int(match[2])
