"""The dotted names of the program's modules."""

import contextlib
import weakref

import torch

from teraio import core

# Looking for modules visits all objects of the interpreter. A program that makes modules in every
# step would pay for that in every step that is recorded. Of a session:
_SEARCHES_MAX = 16
_WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


def outermost_modules():
    """Returns the living modules that are part of no other one."""
    modules = core.living_instances(torch.nn.Module)
    inner = {id(child) for module in modules for child in listed(module.children)}
    return [module for module in modules if id(module) not in inner]


def listed(method):
    """Returns a list of what a method of a module yields until it raises, which it does when the
    module is not initialized, or when another thread changes it. Names must fail no program."""
    found = []
    with contextlib.suppress(Exception):
        found.extend(method())
    return found


def name_without_wrappers(name):
    """Returns a dotted name without the parts that torch.compile, FSDP and checkpointing add."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


class ModuleNames:
    """What modules are called in their outermost module, such as "layers.0.attention". That one has
    the name of its class."""

    def __init__(self):
        self._names = {}  # by id: a weak reference to the module, and the name
        self._searches = 0

    def begin_session(self):
        """Modules may be looked for as often as in the sessions before."""
        self._searches = 0

    def name_of(self, module):
        """Returns the name of a module that lives."""
        if not self._knows(module) and self._searches < _SEARCHES_MAX:
            self._search()
        if not self._knows(module):
            self._add(module, type(module).__name__)
        return self._names[id(module)][1]

    def _knows(self, module):
        known = self._names.get(id(module))
        return known is not None and known[0]() is module

    def _add(self, module, name):
        self._names[id(module)] = (weakref.ref(module), name)

    def _search(self):
        self._searches += 1
        self._names.clear()
        for outermost in outermost_modules():
            for name, module in listed(outermost.named_modules):
                self._add(module, name_without_wrappers(name) or type(outermost).__name__)
