"""Random delays of reads in a job of equal ranks, of which each rank has its own.

The simulation of one rank gives the times of a step in which nothing is late. Here these times are
shifted. Each rank has a clock for how late its ops are, and one for how late its reads start. A
late request delays its own read and no other, because a drive has several requests at a time. An op
that uses the read is late by what exceeds the time between the read's end and the op. A collective
starts when the latest rank has issued it. A clock catches up where ops waited for a read anyway,
and where drives or the network rested. All else keeps its order and its time: writes are never
late, ops catch up nothing while they wait for memory, and no plan is changed.
"""

import itertools
from dataclasses import dataclass

import numpy as np

CHUNK_BYTES = 2**20  # a request of the engine
STEPS = 20
DRAWN_RANKS = 1024
ISSUE, WAIT, READ, USE = range(4)
_AT_ONCE_NS = 1_000  # an op that starts so soon after a read has waited for it


@dataclass(frozen=True)
class Delay:
    """One request of `one_in` takes `late_ns` longer, at random."""

    one_in: float
    late_ns: float

    def probability(self, size_bytes):
        """Returns the probability that a read of so many bytes is late: any of its requests is."""
        return 1 - (1 - 1 / self.one_in) ** np.ceil(size_bytes / CHUNK_BYTES)


@dataclass(frozen=True)
class Event:
    """A place of the step where lateness passes on: a clock becomes the later of two.

    One is the clock itself, which has caught up `rest_ns`. The other is its cause, which may be
    late by `slack_ns` without an effect. An issue of a collective sets the clock of the network,
    with the latest rank as the cause; a wait for it sets that of the ranks' ops. A read sets the
    clock of the reads, with the ops as the cause; its first use sets that of the ops. `number` is
    that of the collective or of the read.
    """

    time_ns: float
    what: int
    number: int
    slack_ns: float
    rest_ns: float
    size_bytes: int = 0


def events_of(job, prediction):
    """Returns the events of a step of equal ranks (a result of job.predict), in order."""
    (run,) = prediction["kinds"]
    collectives = _collective_events(job, run["starts_ns"])
    reads = itertools.chain.from_iterable(_read_events(job.trace, run))
    return sorted([*collectives, *reads], key=lambda event: (event.time_ns, event.what))


def _collective_events(job, starts_ns):
    # Every rank waits for all collectives within the step, so that the network rests at its start.
    network_ns, ends = -np.inf, {}
    for point in job.points:
        k, time_ns = point.collective, starts_ns[point.op]
        if point.waits:
            yield Event(time_ns, WAIT, k, max(0.0, time_ns - ends[k]), max(0.0, ends[k] - time_ns))
            continue
        yield Event(
            time_ns, ISSUE, k, max(0.0, network_ns - time_ns), max(0.0, time_ns - network_ns)
        )
        ends[k] = network_ns = max(network_ns, time_ns) + job.durations_ns[k]


def _read_events(trace, run):
    """Returns for each read the event of its start and that of its first use."""
    uses = _uses_of(trace)
    before_ns = -np.inf
    for number, read in enumerate(sorted(run["reads"], key=lambda read: read["start_ns"])):
        rest_ns = max(0.0, read["start_ns"] - before_ns)
        before_ns = read["end_ns"]
        slack_ns = 0.0 if rest_ns else read["queued_ns"]
        start_ns = read["start_ns"] % run["step_ns"]
        op, after_ns = _first_use(uses[read["tensor"]], run, read["end_ns"])
        waited_ns = run["stalls_ns"][op] if after_ns <= _AT_ONCE_NS else 0.0
        yield (
            Event(start_ns, READ, number, slack_ns, rest_ns, read["size_bytes"]),
            Event(run["starts_ns"][op], USE, number, after_ns, waited_ns),
        )


def _uses_of(trace):
    """Returns the numbers of the ops that touch each tensor, by its id."""
    uses = {}
    for number, op in enumerate(trace["ops"]):
        for tensor in {*op["reads"], *op["writes"]}:
            uses.setdefault(tensor, []).append(number)
    return uses


def _first_use(ops, run, end_ns):
    """Returns the first of the ops after the end of a read, in this step or in the next, and how
    long after it the op starts."""
    after = [((run["starts_ns"][op] - end_ns + 1) % run["step_ns"] - 1, op) for op in ops]
    after_ns, op = min(after)
    return op, max(0.0, after_ns)


def lateness_ns(events, ranks, delay, seed=1):
    """Returns by how much a step of so many ranks is longer, on average, than without delays.

    Small jobs are repeated, so that about as many ranks are drawn as in a large one.
    """
    random = np.random.default_rng(seed)
    shape = (max(1, DRAWN_RANKS // ranks), ranks)
    ops, reads, network = np.zeros(shape), np.zeros(shape), np.zeros((shape[0], 1))
    collective, read = {}, {}
    for event in itertools.chain.from_iterable([events] * STEPS):
        if event.what == ISSUE:
            latest = ops.max(axis=1, keepdims=True)
            network = np.maximum(network - event.rest_ns, latest - event.slack_ns)
            collective[event.number] = network
        elif event.what == WAIT:
            cause = collective[event.number] - event.slack_ns
            ops = np.maximum(ops - event.rest_ns, cause)
        elif event.what == READ:
            reads = np.maximum(reads - event.rest_ns, ops - event.slack_ns)
            is_late = random.random(shape) < delay.probability(event.size_bytes)
            read[event.number] = reads + delay.late_ns * is_late
        else:
            cause = read.get(event.number, 0.0) - event.slack_ns
            ops = np.maximum(ops - event.rest_ns, cause)
    return float(ops.max(axis=1).mean()) / STEPS
