"""Hooks on optimizers and on backward, which find the steps, the losses and the names of tensors.

The training script needs no change.
"""

import collections
import contextlib
import functools
import gc
import hashlib
import weakref

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from teraio import core
from teraio.hooks import op_origins
from teraio.hooks.module_names import listed, name_without_wrappers, outermost_modules
from teraio.hooks.patches import Patches
from teraio.hooks.verification import state_tensors, tensor_hash
from teraio.verbosity import never_fails

# Tensors are described to the core in an optimizer's first steps only. Most traces are recorded by
# then.
_DESCRIBED_STEPS = 4
# The number of losses that are kept as tensors before their hashes replace all of them. Hashing
# every loss immediately would wait for the device in every step.
_LOSSES_AT_ONCE = 256
# The number of losses with a hash of their own, which take about 1 MB. One hash represents all
# later ones, so that the memory does not grow with the steps.
LOSSES_WITH_OWN_HASH = 10_000

_hash_if_it_has_one = never_fails(tensor_hash)


class _LossLog:
    """The losses of a run: equal losses in equal order give equal hashes."""

    def __init__(self):
        self._hashes = []
        self._later_hash = ""
        self._newest = []  # tensors

    @never_fails
    def add(self, loss):
        """Adds a tensor. What is no loss, or no hash is found for, is left out."""
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            return
        self._newest.append(loss.detach().clone())
        if len(self._newest) >= _LOSSES_AT_ONCE:
            self._hash_newest()

    def hashes(self):
        """Returns a dict from the names of losses to their hashes."""
        self._hash_newest()
        hashes = {f"loss{step}": digest for step, digest in enumerate(self._hashes)}
        if self._later_hash:
            hashes[f"losses from {LOSSES_WITH_OWN_HASH} on"] = self._later_hash
        return hashes

    def _hash_newest(self):
        newest, self._newest = self._newest, []
        was_observed = core.is_this_thread_observed()
        core.observe_this_thread(False)  # these ops are not part of the program's iteration
        try:
            for loss in newest:
                self._note(_hash_if_it_has_one(loss) or type(loss).__name__)
        finally:
            core.observe_this_thread(was_observed)

    def _note(self, digest):
        if len(self._hashes) < LOSSES_WITH_OWN_HASH:
            self._hashes.append(digest)
        else:
            chain = self._later_hash + digest
            self._later_hash = hashlib.sha256(chain.encode()).hexdigest()


class IterationHooks:
    """Reports every optimizer step to the session and collects the losses, while installed.

    What optimizers do within a backward pass is one step, which ends with the pass.

    Args:
        session: a `core.Session` or a `core.DrySession`.
        keeps_optimizers: whether an optimizer that the program has dropped is kept alive, with its
            parameters and states.
    """

    def __init__(self, session, keeps_optimizers=False):
        self._session = session
        self._handles = []
        self._keeps_optimizers = keeps_optimizers
        self._optimizers = {}  # by id: a function that returns the optimizer, or None if it is dead
        self._steps = collections.Counter()  # of each optimizer, by its key
        self._modules = []  # weak references to the outermost modules that were found last
        self._patches = Patches()
        self._backward_count = 0  # passes that run now, one within the other
        self._has_stepped_in_backward = False
        self._losses = _LossLog()

    def install(self):
        """Installs the hooks in PyTorch."""
        op_origins.names.begin_session()
        self._patches.wrap(torch.autograd, "backward", self._noting_losses)
        self._patches.wrap(torch.amp.GradScaler, "step", self._noting_skipped)
        self._handles = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]

    def remove(self):
        """Removes the hooks. The losses and optimizers that were found remain."""
        self._patches.undo()
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def optimizers(self):
        """Returns the living optimizers that have stepped, in the order of their first steps."""
        gc.collect()  # dead optimizers in reference cycles must not be in the result
        return [optimizer for get in list(self._optimizers.values()) if (optimizer := get())]

    def loss_hashes(self):
        """Returns hashes by name of the losses, the single-element tensors of backward calls."""
        return self._losses.hashes()

    def _noting_losses(self, backward):
        @functools.wraps(backward)
        def wrapper(tensors, *args, **kwargs):
            if not isinstance(tensors, (torch.Tensor, tuple, list)):
                tensors = tuple(tensors)  # a generator can be read only once
            for tensor in (tensors,) if isinstance(tensors, torch.Tensor) else tensors:
                self._losses.add(tensor)
            self._backward_count += 1
            try:
                return backward(tensors, *args, **kwargs)
            finally:
                self._backward_count -= 1
                if self._backward_count == 0:
                    self._end_backward()

        return wrapper

    def _noting_skipped(self, step):
        """A step that a scaler skips ends an iteration, too."""

        @functools.wraps(step)
        def wrapper(scaler, optimizer, *args, **kwargs):
            key = key_of(optimizer)
            count = self._steps[key]
            result = step(scaler, optimizer, *args, **kwargs)
            if self._steps[key] == count:
                self._session.begin_step()
                self._end_step(key)
            return result

        return wrapper

    def _end_backward(self):
        has_stepped, self._has_stepped_in_backward = self._has_stepped_in_backward, False
        if has_stepped:
            self._end_step(0)

    @never_fails
    def _note_optimizer(self, optimizer):
        key = id(optimizer)
        if key in self._optimizers:
            return
        if self._keeps_optimizers:
            self._optimizers[key] = lambda: optimizer
        else:
            forget = functools.partial(self._forget_optimizer, key)
            self._optimizers[key] = weakref.ref(optimizer, forget)

    def _forget_optimizer(self, key, reference):
        self._optimizers.pop(key, None)

    @contextlib.contextmanager
    def _own_work(self):
        """What is no part of the program's time: it may visit all objects of Python."""
        start_ns = self._session.begin_own_work()
        try:
            yield
        finally:
            self._session.end_own_work(start_ns)

    # A program that compiles its optimizer's step must not compile the hooks with it.
    @torch._disable_dynamo
    def _before_step(self, optimizer, args, kwargs):
        core.observe_python_threads()  # those that another library has started since
        self._session.begin_step()
        self._note_optimizer(optimizer)
        if self._steps[key_of(optimizer)] < _DESCRIBED_STEPS:
            with self._own_work():
                self._describe(optimizer)

    @torch._disable_dynamo
    def _after_step(self, optimizer, args, kwargs):
        key = key_of(optimizer)
        self._steps[key] += 1
        if self._backward_count > 0:
            self._has_stepped_in_backward = True
        else:
            self._end_step(key)

    def _end_step(self, key):
        self._session.end_step(key)

    @never_fails
    def _describe(self, optimizer):
        """Tells the core the kinds and names of an optimizer's parameters, gradients and states,
        and of frozen parameters."""
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        names = self._names_of(parameters)
        for parameter in parameters:
            name = names.get(parameter, "")
            core.describe(local_part(parameter), "parameter", name)
            if parameter.grad is not None:
                core.describe(local_part(parameter.grad), "gradient", name and name + ".grad")
            for key, state in state_tensors(optimizer, parameter):
                core.describe(local_part(state), "optimizer_state", name and f"{name}.{key}")
        for parameter, name in names.items():
            if not parameter.requires_grad:
                core.describe(local_part(parameter), "parameter", name)

    def _names_of(self, parameters):
        """Returns a dict that has the names of the parameters, where they have one."""
        known = [module for get in self._modules if (module := get()) is not None]
        names = parameter_names(known)
        if all(parameter in names for parameter in parameters):
            return names
        modules = outermost_modules()
        self._modules = [weakref.ref(module) for module in modules]
        return parameter_names(modules)


def key_of(optimizer):
    """Returns the id of the optimizer's first parameter, which a new one has in common with it."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            return id(parameter)
    return 0


def local_part(tensor):
    """Returns the local part of a DTensor, and any other tensor itself."""
    return getattr(tensor, "_local_tensor", tensor)


def parameter_names(modules):
    """Returns a dict from every parameter of outermost modules to its dotted name there."""
    names = {}
    for module in modules:
        for name, parameter in listed(module.named_parameters):
            names.setdefault(parameter, name_without_wrappers(name))
    return names
