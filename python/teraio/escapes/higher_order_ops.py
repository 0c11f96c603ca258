"""Operators of higher order (`cond`, `while_loop`, `flex_attention`, those of checkpointing).

The ops inside them are observed, and they themselves are not. They are Python code that PyTorch
dispatches by keys like other operators, but the fallback of a key does not serve them: unless they
skip the observer's key, they raise because they have no kernel there.
"""

import torch
import torch._ops

from teraio import core


def let_observer_through():
    """Makes all of them skip the observer's key until the process ends, also those that are defined
    later. Without a session that changes nothing, because no call has the key then."""
    key = torch._C._dispatch_key_parse(core.observer_dispatch_key())
    defaults = torch._ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS
    if key in defaults:
        return
    defaults.append(key)
    for operator in torch._ops._higher_order_ops.values():
        operator.fallthrough(key)
