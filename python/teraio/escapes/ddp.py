"""DistributedDataParallel: its reducer compares the addresses of gradients and buckets in C++.

The comparison calls no operator, and asking an offloaded tensor for its data pointer raises an
error. The wrappers of this module tell the core when the reducer compares addresses: in its methods
and in its hooks of the backward pass. Communication hooks work on buckets in callbacks of futures,
on threads of a library. The core observes the operators of these callbacks, too.
"""

import functools
import weakref

import torch

from teraio import core

# The `core.ReducerHooks` of each living reducer. They stay registered after a session has ended,
# and a later session uses the same ones.
_hooks = weakref.WeakKeyDictionary()


def _expects_backward(method):
    """Prepares the hooks of the backward pass after the reducer has prepared for it."""

    @functools.wraps(method)
    def wrapper(self, *args):
        result = method(self, *args)
        if self not in _hooks:
            _hooks[self] = core.ReducerHooks()
        _hooks[self].expect_backward(self)
        return result

    return wrapper


def _while_compared(compared, call):
    """Returns `call()`. During the call, C++ code may compare addresses.

    Args:
        compared: a list of tensors, or a reducer for its gradients and buckets.
        call: a function without arguments.
    """
    period = core.ComparisonPeriod(compared)
    try:
        return call()
    finally:
        period.end()


def _compares_gradients(method):
    @functools.wraps(method)
    def wrapper(self, *args):
        return _while_compared(self, lambda: method(self, *args))

    return wrapper


def _makes_reducer(method):
    @functools.wraps(method)
    def wrapper(self, parameters, *args, **kwargs):
        gradients = [p.grad for p in parameters if p.grad is not None]
        return _while_compared(gradients, lambda: method(self, parameters, *args, **kwargs))

    return wrapper


def _has_callback(method):
    """Observes the operators of the callback that a future gets."""

    @functools.wraps(method)
    def wrapper(self, callback):
        def observed(future):
            ops = core.CallbackOps()
            try:
                return callback(future)
            finally:
                ops.end()

        return method(self, observed)

    return wrapper


# The most bytes that one broadcast of several tensors copies. All ranks must form equal groups, so
# it cannot depend on a rank's budget.
_BROADCAST_BYTES = 1 << 20


def _in_small_groups(broadcast):
    """Broadcasts tensors in groups that fit into small budgets: DDP makes groups of 250 MiB.

    A group is copied into one tensor, and needs its size twice. A larger tensor is a group.
    """

    @functools.wraps(broadcast)
    def wrapper(process_group, tensors, buffer_size, *source):
        return broadcast(process_group, tensors, min(buffer_size, _BROADCAST_BYTES), *source)

    return wrapper


WRAPPERS = [
    (torch.distributed, "_broadcast_coalesced", _in_small_groups),
    (torch._C.Future, "then", _has_callback),
    (torch._C.Future, "add_done_callback", _has_callback),
    (torch.distributed.Reducer, "prepare_for_backward", _expects_backward),
    (torch.distributed.Reducer, "_rebuild_buckets", _compares_gradients),
    (torch.distributed.Reducer, "_delay_all_reduce", _compares_gradients),
    (torch.nn.parallel.DistributedDataParallel, "_ddp_init_helper", _makes_reducer),
]
