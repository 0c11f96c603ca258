"""One dry run: executes a script on fake tensors until its steps are known."""

import contextlib
import functools

from torch.nn.parameter import is_lazy

from teraio import core
from teraio.dry_run.collectives import Links
from teraio.dry_run.fake_modes import FakeModes
from teraio.dry_run.group_of_one import GroupOfOne
from teraio.dry_run.patterns import PatternLog
from teraio.dry_run.roofline import Roofline
from teraio.dry_run.saved_files import SavedFiles
from teraio.errors import Error
from teraio.escapes import higher_order_ops
from teraio.hooks.iterations import IterationHooks, local_part
from teraio.hooks.verification import state_tensors

# The number of steps of each optimizer in which an iteration must repeat. It suffices for two of
# the longest iterations that the observer can find, and for the steps before them.
_STEPS_MAX = 24
# The number of steps after which one has repeated in most scripts: the first one differs.
_STEPS_USUAL = 3


class _StepsKnown(BaseException):
    """Ends the script. It is no `Exception`, so that the script does not handle it as an error."""


class _Hooks(IterationHooks):
    """Notes the pattern of each step, and ends the script when enough steps are known.

    Args:
        session: the `core.DrySession`.
        log: the `PatternLog` of the steps.
        steps: the number of steps to execute; None for as many as an iteration needs to repeat.
    """

    def __init__(self, session, log, steps):
        super().__init__(session)
        self._log = log
        self._wanted_steps = steps
        self._open_steps = 0  # TorchTitan has an optimizer whose step makes those of others
        self.take_fingerprint = None  # returns that of the ops since it was called last
        self.after_first_step = None

    def _end_backward(self):
        super()._end_backward()
        if self._log.step_count == 0 and self._session.has_trace():
            # The program has no optimizer, and changes its parameters itself.
            self._log.end_step(self.take_fingerprint())
            self.after_first_step()
            raise _StepsKnown

    def _before_step(self, optimizer, args, kwargs):
        self._open_steps += 1
        super()._before_step(optimizer, args, kwargs)

    def _after_step(self, optimizer, args, kwargs):
        self._open_steps -= 1
        super()._after_step(optimizer, args, kwargs)

    def _end_step(self, key):
        if self._open_steps > 0:
            return
        super()._end_step(key)
        self._log.end_step(self.take_fingerprint())
        if self._log.step_count == 1:
            self.after_first_step()
        if self.has_enough_steps():
            raise _StepsKnown

    def has_enough_steps(self):
        """Returns whether the script may end."""
        if self._wanted_steps is not None:
            return self._log.step_count >= self._wanted_steps
        steps_max = _STEPS_MAX * max(1, len(self._optimizers))
        return self._session.has_trace() or self._log.step_count >= steps_max


def _own_error(error):
    """Returns the first teraio.Error in a chain of causes, or None.

    A library such as torch.distributed.pipelining may wrap the error in one of its own.
    """
    while error is not None and not isinstance(error, Error):
        error = error.__cause__
    return error


def _sizes_of_trained(optimizers):
    """Returns of the part of each trained parameter in this process its shape, and the number of
    elements and the width in bytes of each of its states."""
    return [
        (
            tuple(local_part(parameter).shape),
            [
                (local_part(state).numel(), state.element_size())
                for _, state in state_tensors(each, parameter)
            ],
        )
        for each in optimizers
        for group in each.param_groups
        for parameter in group["params"]
        if not is_lazy(parameter)
    ]


def _process_groups(world_size, rank, modes, has_launcher):
    """Returns the context in which the program makes process groups."""
    if not has_launcher:
        return GroupOfOne(modes)
    from teraio.dry_run.fake_process_group import FakeProcessGroup  # takes seconds to import

    return FakeProcessGroup(world_size, rank, modes)


def _too_few(step_count):
    """Returns the message about a script that has ended early."""
    if step_count == 0:
        ended = ", and no optimizer step was seen"
    else:
        steps = "step" if step_count == 1 else "steps"
        ended = f" after {step_count} optimizer {steps}, before a step had repeated"
    return f"the script ended{ended}: let it run at least {max(_STEPS_USUAL, step_count + 1)}"


class DryRun:
    """Executes one program on fake tensors, as rank `rank` of `world_size` on an accelerator.

    A process can execute one dry run.

    Args:
        accelerator: the `Accelerator` that predicts times.
        value_policy: the `ValuePolicy` that gives values.
        world_size: the number of processes of the job.
        rank: the rank to execute.
        steps: the number of optimizer steps to execute, whose patterns are kept. None ends the
            program when an iteration has repeated.
        measure: None, or a function that returns the accelerator itself. It is called when the
            program has made a step, so that no program waits for it in vain; `accelerator` then has
            rates for the first step only.
        has_launcher: whether the program has the environment that a launcher such as torchrun gives
            it. Otherwise, a process group that it makes has one process.
        is_trial: whether only the memory of single ops is wanted, `unmovable_peak_bytes`. List ops
            run in the smallest slices, no step needs to repeat, and no file that the program writes
            stays.
    """

    def __init__(
        self,
        accelerator,
        value_policy,
        world_size=1,
        rank=0,
        steps=None,
        measure=None,
        has_launcher=False,
        is_trial=False,
    ):
        self.accelerator = accelerator
        self._measure = measure
        self.value_policy = value_policy
        self._has_launcher = has_launcher
        self.world_size = world_size
        self.rank = rank
        self.steps = steps
        self.has_mapped_files = False  # which do not count
        self._is_trial = is_trial
        self.unmovable_peak_bytes = 0  # the most that could not leave the device during an op
        self.trained = []  # sizes after the first step: see `_sizes_of_trained`
        memory_bytes = 1 if is_trial else accelerator.memory_bytes
        self._session = core.DrySession(device_memory_bytes=memory_bytes)
        self.log = PatternLog(self._session, is_mean_wanted=steps is not None)
        self._hooks = _Hooks(self._session, self.log, steps)

    def execute(self, program):
        """Runs a `Program` until its steps are known. Exceptions of the program pass through.

        Raises:
            teraio.Error: no iteration has repeated, or the program needs what a dry run cannot
                provide, such as data.
        """
        higher_order_ops.let_observer_through()
        roofline = Roofline(self.accelerator, self._links())
        with contextlib.ExitStack() as stack:
            modes = FakeModes(self._session, roofline, self.value_policy)
            modes.ops.finds_unmovable = self._is_trial
            self._hooks.take_fingerprint = modes.ops.take_fingerprint
            self._hooks.after_first_step = functools.partial(self._measured, modes, roofline)
            stack.enter_context(
                _process_groups(self.world_size, self.rank, modes, self._has_launcher)
            )
            stack.enter_context(modes)
            stack.enter_context(SavedFiles(modes, keeps_none=self._is_trial))
            self._hooks.install()
            stack.callback(self._hooks.remove)
            try:
                program.run()
            except _StepsKnown:
                pass
            except SystemExit as exit:
                if exit.code and not self._session.has_trace():
                    raise
            except Exception as error:
                if (own := _own_error(error)) is not None:
                    raise own from None
                raise
        self.has_mapped_files = modes.has_mapped
        self.unmovable_peak_bytes = modes.ops.unmovable_peak_bytes
        if not self._is_trial and not self.log.patterns():
            raise Error(_too_few(self.log.step_count))

    def _links(self):
        return Links(self.accelerator, self.world_size)

    def _measured(self, modes, roofline):
        self.trained = _sizes_of_trained(self._hooks.optimizers())
        if self._measure is None:
            return
        core.observe_this_thread(False)
        try:
            with modes.real_tensors():
                self.accelerator = self._measure()
        finally:
            core.observe_this_thread(True)
        roofline.use(self.accelerator, self._links())

    def save_trace(self, pattern, path):
        """Writes the trace of a `Pattern`.

        Raises:
            teraio.Error: the file cannot be written.
        """
        pattern.trace.save(path, f"modelled on {self.accelerator.name}")
