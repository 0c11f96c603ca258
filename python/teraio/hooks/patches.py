"""Patches: attributes of other packages' modules and classes that are replaced for a while."""

_INHERITED = object()


class Patches:
    """Attributes that are replaced until undo().

    undo() restores the newest patch first, so that an attribute that was patched twice gets its
    first value back. A patch that other code has made over one of these meanwhile goes with it.
    The methods are not safe to call from several threads at once.
    """

    def __init__(self):
        self._originals = []

    def __bool__(self):
        return bool(self._originals)

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
        self._originals.append((owner, name, original))

    def wrap(self, owner, name, wrapper):
        """Replaces an attribute by what `wrapper(attribute)` returns."""
        self.set(owner, name, wrapper(getattr(owner, name)))

    def undo(self):
        """Restores all attributes. Further calls do nothing."""
        while self._originals:
            owner, name, original = self._originals.pop()
            if original is _INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
