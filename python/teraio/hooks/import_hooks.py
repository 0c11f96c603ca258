"""Import hooks: patch modules of other packages when a program imports them, and only then."""

import importlib.abc
import importlib.util
import sys


class PostImportHook(importlib.abc.MetaPathFinder):
    """Calls `patch(module)` for each of the named modules that the program imports.

    A module that is imported already is patched by `install()`; any other module is patched right
    after its import. No module is patched after `remove()`.
    """

    def __init__(self, names, patch):
        self._names = names
        self._patch = patch
        self._awaited = set()

    def install(self):
        """Patches the modules that are imported already, and awaits the imports of the others."""
        for name in self._names:
            if name in sys.modules:
                self._patch(sys.modules[name])
            else:
                self._awaited.add(name)
        sys.meta_path.insert(0, self)

    def remove(self):
        """Stops patching modules. The caller undoes the patches that were made."""
        self._awaited.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name, path, target=None):
        """Returns the spec of an awaited module. Its loader patches the module after executing it.

        Returns None for every other module.
        """
        if name not in self._awaited:
            return None
        self._awaited.remove(name)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            self._patch(module)

        spec.loader.exec_module = exec_module
        return spec
