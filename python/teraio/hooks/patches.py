"""Patches: what is replaced for a while in modules and classes of other packages."""

import functools

_INHERITED = object()


class Patches:
    """Attributes and functions that are replaced until undo().

    undo() restores the newest patch first, so that an attribute that was patched twice gets its
    first value back. A patch that other code has made over one of these meanwhile goes with it.
    The methods are not safe to call from several threads at once.
    """

    def __init__(self):
        self._undoing = []  # functions without arguments

    def __bool__(self):
        return bool(self._undoing)

    def set(self, owner, name, value):
        """Replaces an attribute, which must exist. When that raises, nothing has changed.

        Args:
            owner: the module or class that has the attribute, or a class that inherits it.
            name: its name.
            value: what takes its place.
        """
        original = getattr(owner, name)
        if isinstance(owner, type):  # also a static method itself, and not its function
            original = vars(owner).get(name, _INHERITED)
        setattr(owner, name, value)
        if original is _INHERITED:
            self._undoing.append(functools.partial(delattr, owner, name))
        else:
            self._undoing.append(functools.partial(setattr, owner, name, original))

    def wrap(self, owner, name, wrapper):
        """Replaces an attribute by what `wrapper(attribute)` returns."""
        self.set(owner, name, wrapper(getattr(owner, name)))

    def wrap_function(self, owner, name, wrapper):
        """The same, for a function. One that is written in C changes for all names that it has."""
        from teraio import core

        function = getattr(owner, name)
        if core.replace_c_function(function, wrapper):
            self._undoing.append(functools.partial(core.restore_c_function, function))
        else:
            self.wrap(owner, name, wrapper)

    def undo(self):
        """Restores all of them. Further calls do nothing."""
        while self._undoing:
            self._undoing.pop()()
