"""One dry run: the session, the modes and the script, until an iteration has repeated."""

import contextlib

from teraio import core
from teraio.dry_run.collectives import Links
from teraio.dry_run.fake_modes import FakeModes
from teraio.dry_run.roofline import Roofline
from teraio.dry_run.value_policy import ValuePolicy
from teraio.errors import Error
from teraio.iterations import IterationHooks

# As many steps as the observer looks at to find the ones that repeat, twice, and those before.
_STEPS_MAX = 24


class _Enough(BaseException):
    """Ends the script: all that was to be seen has been seen. Not an Exception, so that the script
    does not take it for one of its own."""


class _Hooks(IterationHooks):
    def __init__(self, session):
        super().__init__(session)
        self.step_count = 0

    def _after_step(self, optimizer, args, kwargs):
        super()._after_step(optimizer, args, kwargs)
        self.step_count += 1
        if self._session.has_trace() or self.step_count >= _STEPS_MAX:
            raise _Enough


def _own_error(error):
    """The dry run's error, which a library such as torch's pipelining has put into one of its own;
    None when it is not at the bottom of this."""
    while error is not None and not isinstance(error, Error):
        error = error.__cause__
    return error


def _fake_process_group(world_size, rank, modes):
    from teraio.dry_run.fake_process_group import FakeProcessGroup  # takes seconds to import

    return FakeProcessGroup(world_size, rank, modes)


class DryRun:
    """Plays a program on `accelerator`. One program per object, one object per process."""

    def __init__(self, accelerator, assumptions=(), world_size=1, rank=0):
        self.accelerator = accelerator
        self.value_policy = ValuePolicy(assumptions)
        self.world_size = world_size
        self.rank = rank
        self._session = core.DrySession(device_memory_bytes=accelerator.memory_bytes)
        self._hooks = _Hooks(self._session)

    def play(self, program):
        """Runs the program until an iteration has repeated. Raises teraio.Error when none has, and
        what the program raises."""
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
            except _Enough:
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
            return f"no two of {steps} steps were alike, so that there is no step to foretell"
        return (
            f"the script ended after {steps} optimizer steps, before a step had repeated: "
            "let it make at least 4"
        )

    def save_trace(self, path):
        self._session.save_trace(str(path), f"modelled on {self.accelerator.name}")

    def last_iteration(self):
        """duration_ns, device_peak_bytes and op_count of the iteration that has repeated."""
        return self._session.last_iteration()
