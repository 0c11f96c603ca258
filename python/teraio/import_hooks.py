"""Changing modules of others as soon as they are there, without importing them oneself."""

import importlib.abc
import importlib.util
import sys


class PostImportHook(importlib.abc.MetaPathFinder):
    """Calls `change` with each of the named modules, while installed: at once where it has been
    imported, else right after its import."""

    def __init__(self, names, change):
        self._names = names
        self._change = change
        self._awaited = set()

    def install(self):
        for name in self._names:
            if name in sys.modules:
                self._change(sys.modules[name])
            else:
                self._awaited.add(name)
        sys.meta_path.insert(0, self)

    def remove(self):
        self._awaited.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name, path, target=None):
        if name not in self._awaited:
            return None
        self._awaited.remove(name)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            self._change(module)

        spec.loader.exec_module = exec_module
        return spec
