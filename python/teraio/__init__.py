"""TERAIO trains models that need more memory than the device has.

`offload` gives a training loop a budget of device memory: idle tensors move to SSDs or to host
memory and return before they are used.

>>> import torch, teraio
>>> model = torch.nn.Linear(256, 256)
>>> optimizer = torch.optim.AdamW(model.parameters())
>>> with teraio.offload(device_budget="64MB") as session:
...     for _ in range(4):
...         loss = model(torch.ones(8, 256)).square().mean()
...         loss.backward()
...         optimizer.step()
...         optimizer.zero_grad()
>>> session.counters()["device_peak_bytes"] <= 64_000_000
True

Importing the package is cheap: it imports torch when `offload` or another name is first used.
"""

from teraio._build_info import VERSION as __version__
from teraio.errors import Error
from teraio.escapes import addresses, cuda_graphs

__all__ = [
    "Error",
    "Session",
    "__version__",
    "merge_timelines",
    "offload",
    "pin",
    "running_session",
]

addresses.install()
cuda_graphs.install()

_LOADED_WHEN_USED = {
    "merge_timelines": "files.timelines",
    "offload": "options",
    "Session": "session",
    "running_session": "session",
    "pin": "escapes.pinning",
}


def __getattr__(name):
    if name not in _LOADED_WHEN_USED:
        raise AttributeError(f"module 'teraio' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"teraio.{_LOADED_WHEN_USED[name]}"), name)
