"""make scaling: collectives, ranks that wait for each other, late reads, and the page."""

import dataclasses
import json
from collections import Counter

import numpy as np
import pytest
from evaluation import command, kernels, traces
from evaluation.scaling import (
    cases,
    collectives,
    figures,
    job,
    late_reads,
    layouts,
    lockstep,
    network,
    node,
    page,
)

MS = 10**6
MB = 10**6


def links(link=100e9, node_rate=50e9):
    return network.Network(link, node_rate, ranks_per_node=8)


def test_groups_of_one_rank_per_node_share_the_network():
    whole = network.Group(ranks=32, nodes=4)
    one = network.Group(ranks=4, nodes=4)
    sizes = {group: 10**12 * group.ranks / (group.ranks - 1) for group in (whole, one)}
    times = [links().duration_ns(network.GATHER, sizes[group], group) for group in (one, whole)]
    assert times[0] == pytest.approx(8 * times[1], rel=1e-3)


def op(name="aten::mm", reads=(), writes=(), frees=(), duration_ns=MS):
    tensors = {"reads": list(reads), "writes": list(writes), "frees": list(frees)}
    return {"name": name, "duration_ns": duration_ns, "workspace_bytes": 0, **tensors}


def trace_of(ops, tensors, size_bytes=MB, persistent=()):
    described = [
        {"id": n, "bytes": size_bytes, "persistent": n in persistent, "kind": "other"}
        for n in range(tensors)
    ]
    facts = {"format": "teraio-trace/1", "name": "by hand", "source": "test"}
    return facts | {"tensors": described, "ops": ops}


def test_rank_waits_where_the_result_is_used_first():
    gather = op("c10d::_allgather_base_", reads=[0])
    given = trace_of([op(writes=[0]), gather, op(writes=[1]), op(reads=[0, 1])], 2)
    trace, (found,) = collectives.with_waits(given)
    names = ["aten::mm", gather["name"], "aten::mm", collectives.WAIT, "aten::mm"]
    assert [each["name"] for each in trace["ops"]] == names
    assert found == collectives.Collective(network.GATHER, MB, issue_op=1, wait_op=3)
    assert trace["ops"][3]["reads"] == [0]
    assert sum(each["duration_ns"] for each in trace["ops"]) == 3 * MS


def test_collective_waits_for_no_other():
    """FSDP2 sums over nodes what it has scattered within each: ranks wait for the sum alone."""
    scatter, total = op("c10d::_reduce_scatter_base_", [0, 1]), op("c10d::allreduce_", [1])
    _, found = collectives.with_waits(trace_of([scatter, total, op(writes=[2]), op(reads=[1])], 3))
    assert [(each.issue_op, each.wait_op) for each in found] == [(0, 3), (1, 4)]


# One collective, of 7: the ranks issue it, compute, and wait for it.
POINTS = [lockstep.Point(0, 0, False), lockstep.Point(1, 0, True)]


def together(*segments, durations=(7,), points=POINTS):
    return lockstep.steady(points, durations, np.array(segments, dtype=float))


def test_two_ranks_by_hand():
    """The second rank issues at 20, so that the collective ends at 27."""
    step = together([10, 5, 5], [20, 5, 5])
    assert step.step_ns == 32
    assert step.waits_ns.tolist() == [[0, 12], [0, 2]]


def random_job(ranks, seed):
    random = np.random.default_rng(seed)
    collected = [collectives.Collective("", 0, 3 * k, 3 * k + 2 + k % 3) for k in range(9)]
    points = lockstep.points_of(collected)
    segments = random.integers(1, 100, (ranks, len(points) + 1)).astype(float)
    return points, random.integers(1, 60, 9), segments


@pytest.mark.parametrize("seed", range(5))
def test_step_is_between_the_slowest_rank_and_the_slowest_of_each_segment(seed):
    points, durations, segments = random_job(6, seed)
    step_ns = lockstep.steady(points, durations, segments).step_ns
    alone = [lockstep.steady(points, durations, segments[[rank]]).step_ns for rank in range(6)]
    slowest = segments.max(axis=0, keepdims=True)
    assert max(alone) <= step_ns <= lockstep.steady(points, durations, slowest).step_ns


def test_ranks_that_are_slow_in_turn_delay_each_other():
    """Each rank needs 21 alone, and the two need 20 before each of two collectives."""
    blocking = [collectives.Collective("", 0, 0, 1), collectives.Collective("", 0, 2, 3)]
    turns = [[20, 0, 1, 0, 0], [1, 0, 20, 0, 0]]
    step = together(*turns, durations=(0, 0), points=lockstep.points_of(blocking))
    assert step.step_ns == 40


@pytest.mark.full
@pytest.mark.parametrize(
    ("layout", "kinds"),
    [
        ("hybrid", {network.GATHER: 5, network.SCATTER: 3, network.SUM: 3}),
        ("sharded", {network.GATHER: 5, network.SCATTER: 3}),
        ("replicated", {network.SUM: 4}),
    ],
)
def test_dry_run_has_the_collectives_of_its_layout(dry_run, tmp_path, layout, kinds):
    """Of two blocks and the rest: FSDP2 gathers blocks twice, and DDP sums what is used, too."""
    words = ["--world-size", "16", "--save-trace", "trace.json.gz", layouts.SCRIPT]
    outcome = dry_run(*words, "--preset", "tiny", "--layout", layout)
    assert outcome.code == 0, outcome
    given = kernels.only_kernels(traces.read(tmp_path / "trace.json.gz"))
    trace, found = collectives.with_waits(given)
    assert Counter(each.kind for each in found) == kinds
    gathers = [each for each in found if each.kind == network.GATHER]
    if gathers:  # the one of the second block runs beside the first block
        beside = trace["ops"][gathers[2].issue_op : gathers[2].wait_op]
        assert len([each for each in beside if "attention" in each["name"]]) == 1


@dataclasses.dataclass(frozen=True)
class SmallShare:
    """A device for some of the eight weights of a program, and a drive."""

    drive_rate: int = 10**9
    weights: int = 5

    def hardware(self):
        hardware = node.own().hardware()
        drive = hardware["drives"][0]
        rates = dict.fromkeys(("read_bytes_per_second", "write_bytes_per_second"), self.drive_rate)
        no_host = hardware["host"] | {"capacity_bytes": 0}
        return hardware | {
            "device_memory_bytes": self.weights * 10 * MB,
            "drives": [drive | rates],
            "host": no_host,
        }


def layers_job(duration_ns=5 * MS, gather_ns=MS):
    """Eight layers, forth and back: each uses its weight, and one collective runs beside each."""
    ops = []
    for layer in (*range(8), *reversed(range(8))):
        ops += [op("c10d::allreduce_", [8]), op(reads=[layer], duration_ns=duration_ns)]
        ops += [op(reads=[8], duration_ns=MS)]
    trace = trace_of(ops, 9, 10 * MB, persistent=range(9))
    trace["tensors"][8]["bytes"] = 1000
    trace, found = collectives.with_waits(trace)
    return job.Job(trace, found, [gather_ns] * len(found))


def kind(drive_rate=10**9, slowdown=1.0):
    share = SmallShare(drive_rate)
    return job.Kind(share, share, slowdown)


def test_one_rank_takes_the_simulators_own_step(tmp_path):
    alone = dataclasses.replace(layers_job(), collectives=[], durations_ns=[])
    predicted = job.predict(alone, [kind()])
    trace, hardware = tmp_path / "trace.json.gz", tmp_path / "hardware.json"
    traces.write(alone.trace, trace)
    hardware.write_text(json.dumps(kind().share.hardware()))
    inputs = ["--trace", trace, "--hardware", hardware, "--recompute", "all", "--effort", "fast"]
    simulated = json.loads(command.teraio("simulate", *inputs, "--json"))
    assert simulated["stall_ns"] > 0
    assert predicted["step_ns"] == pytest.approx(simulated["step_ns"], abs=10)
    assert predicted["ideal_ns"] == predicted["compute_ns"] == simulated["ideal_ns"]


@pytest.mark.parametrize("slow", [kind(drive_rate=5 * 10**8), kind(slowdown=1.5)])
def test_slow_rank_decides_and_the_others_wait(slow):
    equal = job.predict(layers_job(), [kind()])
    alone = job.predict(layers_job(), [slow])
    both = job.predict(layers_job(), [kind(), slow])
    assert equal["step_ns"] < both["step_ns"]
    assert both["step_ns"] >= 0.999 * alone["step_ns"]
    fast, slowest = both["kinds"]
    assert fast["wait_ns"] > slowest["wait_ns"]
    for run in both["kinds"]:
        busy_ns = run["ideal_ns"] + run["replay_ns"] + run["stall_ns"]  # waits are ops, too
        assert busy_ns == pytest.approx(both["step_ns"], rel=2e-3)


def test_rank_that_waits_stalls_less():
    """While it waits for another rank, its own transfers go on."""
    equal = job.predict(layers_job(), [kind()])
    both = job.predict(layers_job(), [kind(), kind(slowdown=1.5)])
    assert equal["kinds"][0]["stall_ns"] > 0
    assert both["kinds"][0]["stall_ns"] < equal["kinds"][0]["stall_ns"]


def test_late_read_delays_a_step_by_what_exceeds_its_slack():
    read = late_reads.Event(0, late_reads.READ, 0, slack_ns=0, rest_ns=1e9, size_bytes=MB)
    use = late_reads.Event(10, late_reads.USE, 0, slack_ns=5, rest_ns=0)
    always = late_reads.Delay(one_in=1, late_ns=7)
    assert late_reads.lateness_ns([read, use], 1, always) == pytest.approx(2)
    assert late_reads.lateness_ns([read, use], 1024, always) == pytest.approx(2)
    early = dataclasses.replace(use, slack_ns=7)
    assert late_reads.lateness_ns([read, early], 1024, always) == 0


def test_events_of_a_simulated_rank_delay_nothing_by_themselves():
    one = layers_job()
    events = late_reads.events_of(one, job.predict(one, [kind()]))
    reads = [event for event in events if event.what == late_reads.READ]
    assert len(reads) == len([event for event in events if event.what == late_reads.USE]) > 4
    assert late_reads.lateness_ns(events, 8, late_reads.Delay(1, 0.0)) == 0
    always = late_reads.lateness_ns(events, 8, late_reads.Delay(1, 3 * MS))
    assert 0 < always <= 3 * MS * len(reads)


def test_ranks_have_equal_shares_of_their_node():
    every = [node.shared(4).hardware() for _ in range(node.RANKS)]
    read = sum(drive["read_bytes_per_second"] for each in every for drive in each["drives"])
    assert read == 4 * node.DRIVE["read_bytes_per_second"]
    assert sum(each["host"]["capacity_bytes"] for each in every) == node.HOST_BYTES


def test_page_and_figures_have_every_job():
    step = {"step_ns": 2e9, "ideal_ns": 1e9, "compute_ns": 5e8, "kinds": []}
    steps = {case.key: step for case in cases.every()}
    late = {name: [1e7] * len(cases.LATE_RANKS) for name in cases.DELAYS}
    text = page.text_of(steps, late)
    assert text.count("(50 %)") == len(cases.EQUAL)
    assert text.count("(x 1.00)") == len(cases.FAULTY)
    refused = {cases.EQUAL[0].key: {"refused": "no tier has room"}}
    assert "| no: no tier has room |" in page.text_of(steps | refused, late)
    lines = figures.drawn(steps, late)["network"].axes[0].lines
    assert len(lines) == len(cases.NETWORK_LINES)
