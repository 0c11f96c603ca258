"""The patterns of a dry run's steps: how often each one occurred, and a trace of it."""

from collections import Counter, deque
from dataclasses import dataclass

from teraio import core

# The number of iterations after which steps that take turns are known to go on so.
_TURNS_MIN = 2
# The number of steps after which the mean of some is predicted, even if none has repeated.
STEPS_MIN = 4
# The number of steps that the mean is of then, besides the one with the largest peak.
_NEWEST_MAX = 6


@dataclass(frozen=True)
class Pattern:
    """Steps that execute the same ops on the same sizes.

    `trace` is a `core.DryTrace` of one iteration, which has `iteration_steps` steps: one, or
    several where different steps take turns. `step_count` is the number of steps that had the
    pattern.
    """

    trace: core.DryTrace
    iteration_steps: int
    step_count: int


def peak_bytes(trace):
    """Returns the most device memory that an iteration had."""
    return trace.summary()["device_peak_bytes"]


class _Turns:
    """Different steps that take turns in a fixed order, as one iteration."""

    def __init__(self, trace, fingerprints):
        self.trace = trace
        self.fingerprints = fingerprints
        self.repetitions = 0


class PatternLog:
    """Notes each step of a dry run, and keeps a trace of each pattern.

    The session records an iteration when it executes the same ops as the one before. Thus a pattern
    has a trace when two steps in a row had it, or when it is among steps that take turns.

    Args:
        session: the `core.DrySession`.
    """

    def __init__(self, session):
        self._session = session
        self._steps = []  # the fingerprint of each step
        self._traces = {}  # by fingerprint, of iterations of one step
        self._turns = None
        self._newest = deque(maxlen=_NEWEST_MAX)  # pairs (fingerprints, trace) of iterations
        self._largest = None  # of these pairs, but for the first iteration
        self._iterations = 0
        self._first_step = 0  # of the iteration
        self._newest_name = None  # of a trace

    @property
    def step_count(self):
        """The number of steps that have ended."""
        return len(self._steps)

    def end_step(self, fingerprint):
        """Notes a step that has ended. Steps of one pattern have equal fingerprints."""
        self._steps.append(fingerprint)
        iterations = self._session.iteration_count()
        if iterations == self._iterations:
            return
        if self._iterations > 0:
            self._keep_newest(self._session.last_trace(), self._steps[self._first_step :])
        self._iterations = iterations
        self._end_iteration(self._steps[self._first_step :])
        self._first_step = self.step_count

    def _keep_newest(self, trace, fingerprints):
        if trace is None:
            return
        self._newest.append((tuple(fingerprints), trace))
        if peak_bytes(trace) > self.largest_peak_bytes():
            self._largest = self._newest[-1]

    def largest_peak_bytes(self):
        """Returns the most memory of any step but the first."""
        return 0 if self._largest is None else peak_bytes(self._largest[1])

    def _unrepeated(self):
        if self._largest is None or self.step_count < STEPS_MIN:
            return []
        kept = [*self._newest, *({self._largest} - {*self._newest})]
        if any(len(steps) > 1 for steps, _ in kept):
            kept = [self._largest]
        counts = Counter(steps for steps, _ in kept)
        traces = dict(kept)
        return [Pattern(traces[steps], len(steps), len(steps) * n) for steps, n in counts.items()]

    def _end_iteration(self, fingerprints):
        if self._turns is not None:
            self._turns.repetitions += 1
            if self._turns.fingerprints != fingerprints:
                self._turns = None
        if len(fingerprints) == 1 and fingerprints[0] in self._traces:
            return
        trace = self._session.trace()
        if trace is None or trace.name() == self._newest_name:
            return
        self._newest_name = trace.name()
        if len(fingerprints) == 1:
            self._traces[fingerprints[0]] = trace
        else:
            self._turns = _Turns(trace, fingerprints)

    def patterns(self):
        """Returns the `Pattern`s that have a trace, the most frequent first.

        Where no step has repeated, they are the last steps and the one with the largest peak.
        """
        if self._do_turns_count():
            turns = self._turns
            return [Pattern(turns.trace, len(turns.fingerprints), self.step_count)]
        if not self._traces:
            return self._unrepeated()
        counts = Counter(self._steps).most_common()
        return [Pattern(self._traces[f], 1, count) for f, count in counts if f in self._traces]

    def _do_turns_count(self):
        if self._turns is None:
            return False
        return not self._traces or self._turns.repetitions >= _TURNS_MIN

    def has_repeated(self):
        """Returns whether any step had the ops and sizes of another one."""
        return self._do_turns_count() or bool(self._traces)

    def has_other_steps(self):
        """Returns whether steps after the first one had patterns that `patterns()` lacks.

        The first step of most programs is different, because the optimizer makes its states.
        """
        known = self._turns.fingerprints if self._do_turns_count() else self._traces
        return not set(known).issuperset(self._steps[1:])
