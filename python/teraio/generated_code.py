"""The programs that Inductor generates: which of them are observed kernel by kernel.

Inductor writes a Python module for each compiled graph. The module calls C++ kernels, operators,
and an allocator of buffers, all by names in its globals.
"""

import ast
import re

from teraio import core

_KERNEL = re.compile(r"^(\w+) = async_compile\.cpp_pybinding\((\[.*?\]),", re.MULTILINE)
_COMPILED = re.compile(r"\basync_compile\.(\w+)\(")
_ALLOCATOR = "empty_strided_cpu"


def stand_ins(module):
    """Returns what takes the place of globals of a generated module, by name, so that each call of
    a kernel and each allocation is an op.

    The dictionary is empty when the module calls code of another kind (Triton's kernels, or one C++
    program for the whole graph), or is no generated program.
    """
    try:
        with open(module.__file__) as file:
            source = file.read()
    except (AttributeError, OSError):  # the cache has been deleted
        return {}
    kinds = set(_COMPILED.findall(source))
    if not kinds or kinds - {"cpp_pybinding", "wait"} or "CppWrapperCodeCache" in source:
        return {}
    found = {_ALLOCATOR: core.observed_empty_strided_cpu(getattr(module, _ALLOCATOR))}
    for name, types in _KERNEL.findall(source):
        found[name] = _observed(name, getattr(module, name), ast.literal_eval(types))
    return found


def _observed(name, kernel, types):
    pointers = [i for i, each in enumerate(types) if each.endswith("*")]
    read = [i for i in pointers if types[i].startswith("const ")]
    return core.observed_kernel(name, kernel, read, [i for i in pointers if i not in read])
