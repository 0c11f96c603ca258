"""The patterns of a dry run's steps: how often each one occurred, and a trace of it."""

import functools
from dataclasses import dataclass, replace

from teraio import core

# The number of times that steps which take turns have repeated when they are known to go on so.
_TURNS_MIN = 2
# The number of steps after which their mean is predicted, even if none has repeated.
_STEPS_MIN = 4
# The number of patterns that are kept.
_PATTERNS_MAX = 8


@dataclass(frozen=True)
class Pattern:
    """Steps that execute the same ops on the same sizes.

    `trace` is a `core.DryTrace` of one iteration, which has `iteration_steps` steps: one, or
    several where different steps take turns. `step_count` is the number of steps that had the
    pattern, or one that is not kept and takes nearly as long.
    """

    trace: core.DryTrace
    iteration_steps: int
    step_count: int

    @functools.cached_property
    def facts(self):
        """The summary of the trace."""
        return self.trace.summary()

    @property
    def step_ns(self):
        """How long a step takes, on the mean."""
        return self.facts["step_ns"] / self.iteration_steps

    @property
    def peak_bytes(self):
        """The most device memory that an iteration had."""
        return self.facts["device_peak_bytes"]


class PatternLog:
    """Notes each step of a dry run but the first, and keeps a trace of each pattern.

    Args:
        session: the `core.DrySession`.
        is_mean_wanted: whether the mean of all steps is predicted, even if one has repeated.
    """

    def __init__(self, session, is_mean_wanted):
        self._session = session
        self._is_mean_wanted = is_mean_wanted
        self._steps = []  # the fingerprint of each step
        self._first_step = 0  # of the iteration
        self._iterations = 0
        self._last = None  # the pattern of the last iteration
        self._last_steps = ()  # their fingerprints
        self._repetitions = 0  # of it
        self._patterns = {}  # of iterations, by the fingerprints of their steps
        self._kept = {}  # which of these counts for others
        self._timed = 0, 0  # the steps whose times are known, and the sum of these
        self._largest_peak_bytes = 0

    @property
    def step_count(self):
        """The number of steps that have ended."""
        return len(self._steps)

    def end_step(self, fingerprint):
        """Notes a step that has ended. Steps of one pattern have equal fingerprints."""
        self._steps.append(fingerprint)
        if (fingerprint,) in self._kept:
            self._count(self._kept[(fingerprint,)], 1)
        iterations = self._session.iteration_count()
        if iterations == self._iterations:
            return
        self._iterations = iterations
        steps = tuple(self._steps[self._first_step :])
        self._first_step = self.step_count
        if iterations > 1 and (trace := self._session.last_trace()) is not None:
            self._end_iteration(steps, Pattern(trace, len(steps), len(steps)))

    def _end_iteration(self, steps, pattern):
        self._repetitions = self._repetitions + 1 if steps == self._last_steps else 0
        self._last, self._last_steps = pattern, steps
        count, time_ns = self._timed
        self._timed = count + len(steps), time_ns + len(steps) * pattern.step_ns
        self._largest_peak_bytes = max(self._largest_peak_bytes, pattern.peak_bytes)
        if steps not in self._kept and (len(steps) == 1 or not self._is_mean_wanted):
            self._kept[steps] = steps
            self._patterns[steps] = pattern
            if len(self._patterns) > _PATTERNS_MAX:
                self._join_nearest()

    def _count(self, key, steps):
        pattern = self._patterns[key]
        self._patterns[key] = replace(pattern, step_count=pattern.step_count + steps)

    def _join_nearest(self):
        """Of the two patterns with the nearest times, keeps the one with more memory."""
        ordered = sorted(self._patterns, key=lambda key: self._patterns[key].step_ns)
        nearest = min(
            zip(ordered, ordered[1:], strict=False),
            key=lambda two: self._patterns[two[1]].step_ns - self._patterns[two[0]].step_ns,
        )
        less, more = sorted(nearest, key=lambda key: self._patterns[key].peak_bytes)
        self._count(more, self._patterns.pop(less).step_count)
        self._kept = {step: more if key == less else key for step, key in self._kept.items()}

    def largest_peak_bytes(self):
        """Returns the most memory of any step but the first."""
        return self._largest_peak_bytes

    def mean_step_ns(self):
        """Returns the mean time of all steps but the first."""
        count, time_ns = self._timed
        return time_ns / count

    def patterns(self):
        """Returns the `Pattern`s that are predicted, the most frequent first."""
        if self.has_repeated():
            return [self._last]
        if not self._is_mean_wanted and self.step_count < _STEPS_MIN:
            return []
        return sorted(self._patterns.values(), key=lambda each: -each.step_count)

    def has_repeated(self):
        """Returns whether one iteration is predicted, because it comes again and again."""
        if not self._is_mean_wanted:
            return self._session.has_trace() and self._last is not None
        are_turns = len(self._last_steps) > 1
        return are_turns and (not self._patterns or self._repetitions >= _TURNS_MIN)

    def has_other_steps(self):
        """Returns whether steps after the first one had other patterns than the last iteration."""
        return not set(self._last_steps).issuperset(self._steps[1:])
