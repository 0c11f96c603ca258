"""Kernels in Python that a program registers for PyTorch's own operators.

PyTorch's kernels use what they are given, so that most calls inside of them are not observed. One
in Python may use any tensor: what it calls is observed.
"""

import functools

import torch.library

from teraio import core


def note_registered():
    """Tells the core of those that have been registered."""
    _note(torch.library._impls)


def _note(registered):
    for namespace, name, key in (each.split("/") for each in registered):
        if namespace == "aten" and key != "Meta":
            core.note_python_kernel(f"{namespace}::{name}")


def _noted(impl):
    @functools.wraps(impl)
    def wrapper(library, *args, **kwargs):
        impl(library, *args, **kwargs)
        _note(library._op_impls)

    return wrapper


WRAPPERS = [(torch.library.Library, "impl", _noted)]
