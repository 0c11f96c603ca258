"""torch.compile with Inductor: each kernel of a compiled graph is an op, and each buffer a tensor.

Kernels that Inductor generates use raw pointers and call no operator. Its modules are patched when
the program imports them, because importing Inductor takes seconds and most programs do not need it.
A graph whose kernels are not known one by one runs as one opaque op.
"""

import contextlib
import functools
import weakref

import torch

from teraio import core
from teraio.escapes import generated_programs
from teraio.hooks.import_hooks import PostImportHook
from teraio.hooks.patches import Patches

# Inductor puts loops that are computed one after the other into one function until it has more
# arguments than this (500 by default on the CPU, and 250 for loops over lists of tensors on a GPU).
# All tensors of a function are on the device at once.
_FUNCTION_ARGUMENTS_MAX = 8
# Programs that are cached with and without a session differ by that.
_CACHE_TAG = "teraio"


class CompiledGraphs:
    """Observes compiled graphs between install() and remove()."""

    def __init__(self):
        patch_module = {
            "torch._inductor.codecache": self._patch_cache,
            "torch._inductor.codegen.cpp": self._patch_code_generator,
            "torch._inductor.codegen.triton_combo_kernel": self._patch_combined_kernels,
            "torch._inductor.output_code": self._patch_graphs,
        }
        self._import_hook = PostImportHook(
            list(patch_module), lambda module: patch_module[module.__name__](module)
        )
        self._patches = Patches()
        self._observed_modules = weakref.WeakKeyDictionary()  # with the originals, by name
        self._observed_keys = set()  # of graphs, in Inductor's cache

    def install(self):
        """Patches Inductor, now or when the program imports it, and what runs its libraries."""
        self._import_hook.install()
        for runner in vars(torch._C._aoti).values():
            for name in ("run", "boxed_run"):
                if hasattr(runner, name):
                    self._patches.wrap_function(runner, name, _running_a_library)
            for name in ("load_constants", "update_constant_buffer"):
                if hasattr(runner, name):
                    self._patches.wrap_function(runner, name, _with_constants)

    def remove(self):
        """Undoes install()."""
        self._import_hook.remove()
        self._patches.undo()
        for module, originals in self._observed_modules.items():
            vars(module).update(originals)
        self._observed_modules.clear()
        self._observed_keys.clear()

    def _patch_code_generator(self, module):
        name = "MAX_FUSED_KERNEL_ARGS_NUM"
        if hasattr(module.CppScheduling, name):
            self._patches.set(module.CppScheduling, name, _FUNCTION_ARGUMENTS_MAX)

    def _patch_combined_kernels(self, module):
        add = module.ComboKernel._update_partition

        @functools.wraps(add)
        def add_or_begin_another(state, argument_count, node):
            is_full = state.cur_count + argument_count > _FUNCTION_ARGUMENTS_MAX
            if state.cur_partition and is_full:
                state.partitions.append(state.cur_partition)
                state.cur_partition, state.cur_count = [], 0
            add(state, argument_count, node)

        self._patches.set(
            module.ComboKernel, "_update_partition", staticmethod(add_or_begin_another)
        )

    def _patch_cache(self, module):
        self._patches.wrap(torch.compiler.config, "cache_key_tag", lambda tag: tag + _CACHE_TAG)
        load = module.PyCodeCache.load_by_key_path

        @functools.wraps(load)
        def load_observed(*args, **kwargs):
            generated = load(*args, **kwargs)
            self._observe(generated)
            return generated

        self._patches.set(module.PyCodeCache, "load_by_key_path", staticmethod(load_observed))
        for generated in module.PyCodeCache.modules:
            self._observe(generated)

    def _observe(self, module):
        if module in self._observed_modules:
            return
        stand_ins = generated_programs.stand_ins(module)
        if stand_ins:
            self._observed_modules[module] = {name: vars(module)[name] for name in stand_ins}
            self._observed_keys.add(module.key)
            vars(module).update(stand_ins)

    def _patch_graphs(self, module):
        call = module.CompiledFxGraph.__call__

        @functools.wraps(call)
        def call_observed(graph, inputs):
            if graph.cache_key in self._observed_keys:
                return call(graph, inputs)
            mutated = getattr(graph, "mutated_input_idxs", ())
            run = functools.partial(call, graph)
            return _as_opaque_op("inductor::graph", run, inputs, mutated=mutated)

        self._patches.set(module.CompiledFxGraph, "__call__", call_observed)


def _running_a_library(run):
    """Wraps what runs a model of AOTInductor, which may change any of its inputs."""

    @functools.wraps(run)
    def run_observed(runner, inputs, *args, **kwargs):
        call = functools.partial(run, runner, **kwargs)
        return _as_opaque_op("aoti::model", call, inputs, *args, mutated=range(len(inputs)))

    return run_observed


def _with_constants(load):
    """Wraps what gives a model of AOTInductor its constants. It copies them or keeps addresses."""

    @functools.wraps(load)
    def load_resident(runner, tensors, *args, **kwargs):
        keeps_addresses = kwargs.get("user_managed", args[2:3] == (True,))
        with contextlib.ExitStack() as stack:
            for tensor in tensors.values():
                stack.callback(core.Pin(tensor).release)
                if keeps_addresses:
                    tensor.data_ptr()  # the tensor stays from then on
            return load(runner, tensors, *args, **kwargs)

    return load_resident


def _as_opaque_op(name, call, inputs, *args, mutated):
    """Returns `call(inputs, *args)`, which is one op with the tensors among the inputs.

    Args:
        mutated: the indices of the inputs that it changes.
    """
    positions = [i for i, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
    op = core.OpaqueOp(
        name,
        [inputs[i] for i in positions],
        [number for number, i in enumerate(positions) if i in mutated],
    )
    results = []
    try:
        results = call(inputs, *args)
        return results
    finally:
        op.end([value for value in results if isinstance(value, torch.Tensor)])
