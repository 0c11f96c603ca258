"""The programs that Inductor generates: which of them are observed kernel by kernel.

Inductor writes a Python module for each compiled graph. The module calls kernels, in C++ or
Triton's, operators, and allocators of buffers, all by names in its globals.
"""

import ast
import re

from teraio import core
from teraio.escapes import address_pins

_CPP_KERNEL = re.compile(r"^(\w+) = async_compile\.cpp_pybinding\((\[.*?\]),", re.MULTILINE)
_TRITON_KERNEL = re.compile(r"^(\w+) = async_compile\.triton\(", re.MULTILINE)
_COMPILED = re.compile(r"\basync_compile\.(\w+)\(")
_ALLOCATORS = {"empty_strided_cpu": False, "empty_strided_cuda": True}  # whether it is CUDA's


def stand_ins(module):
    """Returns what takes the place of globals of a generated module, by name, so that each call of
    a kernel and each allocation is an op.

    The dictionary is empty when the module calls code of another kind (one C++ program for the
    whole graph, for example), when a CUDA graph repeats its kernels, or when it is no generated
    program.
    """
    try:
        with open(module.__file__) as file:
            source = file.read()
    except (AttributeError, OSError):  # the cache has been deleted
        return {}
    kinds = set(_COMPILED.findall(source))
    if not kinds or kinds - {"cpp_pybinding", "triton", "wait"} or "CppWrapperCodeCache" in source:
        return {}
    if "triton" in kinds and _graphs_are_captured():
        return {}
    found = {
        name: core.observed_empty_strided(getattr(module, name), is_cuda)
        for name, is_cuda in _ALLOCATORS.items()
        if hasattr(module, name)
    }
    for name, types in _CPP_KERNEL.findall(source):
        found[name] = _observed_cpp(name, getattr(module, name), ast.literal_eval(types))
    for name in _TRITON_KERNEL.findall(source):
        found[name] = _ObservedTriton(name, getattr(module, name))
    return found


def _graphs_are_captured():
    from torch._inductor import config

    return config.triton.cudagraphs


def _observed_cpp(name, kernel, types):
    pointers = [i for i, each in enumerate(types) if each.endswith("*")]
    read = [i for i in pointers if types[i].startswith("const ")]
    return core.observed_kernel(name, kernel, read, [i for i in pointers if i not in read])


class _ObservedTriton:
    """A kernel of Triton whose launches are ops. In all else it is the kernel."""

    def __init__(self, name, kernel):
        types = kernel.triton_meta["signature"]
        # Callers leave out what is known when the kernel is compiled.
        passed = [each for each, type_ in types.items() if type_ != "constexpr"]
        pointers = [i for i, each in enumerate(passed) if str(types[each]).startswith("*")]
        read = [i for i in pointers if _is_only_read(passed[i], kernel.mutated_arg_names)]
        written = [i for i in pointers if i not in read]
        self._kernel = kernel
        run = address_pins.for_kernels(kernel.run)  # Triton's launcher asks for them
        self.run = core.observed_kernel(name, run, read, written)

    def __getattr__(self, name):
        return getattr(self._kernel, name)


def _is_only_read(argument, mutated):
    # Of a kernel that the user has written, only Inductor's analysis tells what it changes; its
    # other arguments have the user's names, and count as written.
    return argument.startswith("in_ptr") and argument not in mutated
