"""One dry run: executes a script on fake tensors until an iteration has repeated."""

import contextlib

from teraio import core, higher_order
from teraio.dry_run.collectives import Links
from teraio.dry_run.fake_modes import FakeModes
from teraio.dry_run.roofline import Roofline
from teraio.dry_run.value_policy import ValuePolicy
from teraio.errors import Error
from teraio.iterations import IterationHooks

# The number of steps in which an iteration must repeat. It suffices for two of the longest
# iterations that the observer can find, and for the steps before them.
_STEPS_MAX = 24


class _IterationRepeated(BaseException):
    """Ends the script. It is no `Exception`, so that the script does not handle it as an error."""


class _Hooks(IterationHooks):
    def __init__(self, session):
        super().__init__(session)
        self.step_count = 0

    def _after_step(self, optimizer, args, kwargs):
        super()._after_step(optimizer, args, kwargs)
        self.step_count += 1
        if self._session.has_trace() or self.step_count >= _STEPS_MAX:
            raise _IterationRepeated


def _own_error(error):
    """Returns the first teraio.Error in a chain of causes, or None.

    A library such as torch.distributed.pipelining may wrap the error in one of its own.
    """
    while error is not None and not isinstance(error, Error):
        error = error.__cause__
    return error


def _fake_process_group(world_size, rank, modes):
    from teraio.dry_run.fake_process_group import FakeProcessGroup  # takes seconds to import

    return FakeProcessGroup(world_size, rank, modes)


class DryRun:
    """Executes one program on fake tensors, as rank `rank` of `world_size` on an accelerator.

    A process can execute one dry run.

    Args:
        accelerator: the `Accelerator` that predicts times.
        assumptions: texts of --assume, see `ValuePolicy`.
        world_size: the number of processes of the job.
        rank: the rank to execute.
    """

    def __init__(self, accelerator, assumptions=(), world_size=1, rank=0):
        self.accelerator = accelerator
        self.value_policy = ValuePolicy(assumptions)
        self.world_size = world_size
        self.rank = rank
        self._session = core.DrySession(device_memory_bytes=accelerator.memory_bytes)
        self._hooks = _Hooks(self._session)

    def execute(self, program):
        """Runs a `Program` until an iteration has repeated. Exceptions of the program pass through.

        Raises:
            teraio.Error: no iteration has repeated, or the program needs what a dry run cannot
                provide, such as data.
        """
        higher_order.let_observer_through()
        roofline = Roofline(self.accelerator, Links(self.accelerator, self.world_size))
        with contextlib.ExitStack() as stack:
            modes = FakeModes(self._session, roofline, self.value_policy)
            if self.world_size > 1:
                stack.enter_context(_fake_process_group(self.world_size, self.rank, modes))
            stack.enter_context(modes)
            self._hooks.install()
            stack.callback(self._hooks.remove)
            try:
                program.run()
            except _IterationRepeated:
                pass
            except SystemExit as exit:
                if exit.code and not self._session.has_trace():
                    raise
            except Exception as error:
                if (own := _own_error(error)) is not None:
                    raise own from None
                raise
        if not self._session.has_trace():
            raise Error(self._no_trace_message())

    def _no_trace_message(self):
        steps = self._hooks.step_count
        if steps >= _STEPS_MAX:
            return f"no two of {steps} steps executed the same ops: there is no step to predict"
        return (
            f"the script ended after {steps} optimizer steps, before a step had repeated: "
            "let it run at least 4"
        )

    def save_trace(self, path):
        """Writes the trace of the iteration that has repeated.

        Raises:
            teraio.Error: no iteration has repeated, or the file cannot be written.
        """
        self._session.save_trace(str(path), f"modelled on {self.accelerator.name}")

    def summary(self):
        """Returns a dict about the iteration that has repeated.

        - `op_count`, `tensor_count`: the numbers of its ops and tensors.
        - `step_ns`: its time with unlimited device memory.
        - `device_peak_bytes`: the most device memory that it uses.
        - `peak_op`: the name of the op at the peak.
        - `peak_kinds`: pairs (kind of tensor, bytes) at the peak, largest first.
        """
        return self._session.summary()
