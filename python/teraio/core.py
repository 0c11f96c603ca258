"""The compiled extension. Importing this module raises ImportError under another PyTorch version.

PyTorch's C++ interface changes with every minor version. An extension that was built for another
version would crash or, worse, misread memory.
"""

import torch

from teraio._build_info import TORCH_VERSION

_built_for = TORCH_VERSION.split("+")[0].split(".")[:2]
if torch.__version__.split("+")[0].split(".")[:2] != _built_for:
    raise ImportError(
        f"teraio was built for PyTorch {TORCH_VERSION} and this is {torch.__version__}: rebuild it "
        "here with: pip install --no-build-isolation --force-reinstall --no-deps teraio's directory"
    )

from teraio._C import (  # noqa: E402
    CallbackOps,
    ComparisonPeriod,
    DrySession,
    DryTrace,
    OpaqueOp,
    Pin,
    ReducerHooks,
    Session,
    available_memory_bytes,
    default_budget_bytes,
    describe,
    device_memory_bytes,
    forget_python_threads,
    is_in_op,
    is_this_thread_observed,
    keep_in_place,
    observe_python_threads,
    observe_this_thread,
    observer_dispatch_key,
    pin_address,
    set_coalescing,
)

__all__ = [
    "CallbackOps",
    "OpaqueOp",
    "ComparisonPeriod",
    "DrySession",
    "DryTrace",
    "Pin",
    "ReducerHooks",
    "Session",
    "available_memory_bytes",
    "default_budget_bytes",
    "describe",
    "device_memory_bytes",
    "forget_python_threads",
    "is_in_op",
    "is_this_thread_observed",
    "keep_in_place",
    "observe_python_threads",
    "observe_this_thread",
    "observer_dispatch_key",
    "pin_address",
    "set_coalescing",
]
