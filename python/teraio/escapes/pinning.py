"""Pinning: a tensor stays on the device while code uses its bytes without an operator."""

import torch

from teraio import core
from teraio.errors import Error


class Pin:
    """A pin on one tensor: the tensor stays on the device until the pin is released.

    `release()` releases it, and so do the end of a `with` block and the collection of the object.
    """

    def __init__(self, tensor):
        self._pin = core.Pin(tensor, adopts=True)

    def release(self):
        """Lets the session offload the tensor again. Further calls do nothing."""
        self._pin.release()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.release()


def pin(tensor):
    """Restores `tensor` if it is offloaded, and keeps it on the device until the pin is released.

    Use it around code that reads or changes the tensor's bytes without an operator, for example a
    compiled extension that works on a raw pointer. The session treats the bytes as changed. Pins
    are counted: the tensor stays until the last one is released. For a tensor that no session
    manages, the pin has no effect.

    ```python
    with teraio.pin(tensor):
        extension.scale_(tensor)
    ```

    Args:
        tensor: a `torch.Tensor` or a `torch.UntypedStorage`.

    Returns:
        A `Pin`, which is a context manager and has `release()`.

    Raises:
        teraio.Error: `tensor` is neither.
        torch.OutOfMemoryError: the device budget has no room for the tensor.
        RuntimeError: the tensor could not be read from its tier.
    """
    if not isinstance(tensor, (torch.Tensor, torch.UntypedStorage, torch.TypedStorage)):
        raise Error(f'"{tensor}" cannot be pinned: expected a tensor or a storage')
    return Pin(tensor)
