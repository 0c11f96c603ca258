"""torch.compile: every call of a graph that Inductor has compiled runs as one opaque op.

The kernels of such a graph use raw pointers and call no operator. The class of compiled graphs is
patched when the program imports it, because importing Inductor takes seconds and most programs do
not need it.
"""

import functools
import sys

import torch

from teraio import core
from teraio.import_hooks import PostImportHook

_MODULE = "torch._inductor.output_code"


class CompiledGraphs:
    """Runs compiled graphs as opaque ops between install() and remove()."""

    def __init__(self):
        self._original = None
        self._import_hook = PostImportHook([_MODULE], self._patch)

    def install(self):
        """Patches the class of compiled graphs, now or when the program imports it."""
        self._import_hook.install()

    def remove(self):
        """Undoes install()."""
        self._import_hook.remove()
        if self._original is not None:
            sys.modules[_MODULE].CompiledFxGraph.__call__ = self._original
            self._original = None

    def _patch(self, module):
        self._original = module.CompiledFxGraph.__call__
        module.CompiledFxGraph.__call__ = _as_opaque_op(self._original)


def _as_opaque_op(call):
    @functools.wraps(call)
    def wrapper(graph, inputs):
        positions = [i for i, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
        mutated = getattr(graph, "mutated_input_idxs", ())
        op = core.OpaqueOp(
            "inductor::graph",
            [inputs[i] for i in positions],
            [number for number, i in enumerate(positions) if i in mutated],
        )
        results = []
        try:
            results = call(graph, inputs)
            return results
        finally:
            op.end([value for value in results if isinstance(value, torch.Tensor)])

    return wrapper
