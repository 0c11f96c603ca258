"""make scaling: collectives, ranks that wait for each other, late reads, and the page."""

import dataclasses
import itertools
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


def test_ring_of_a_node_passes_all_but_one_part():
    group = network.Group(ranks=4, nodes=1)
    duration_ns = links().duration_ns(network.GATHER, 400 * MB, group)
    assert duration_ns == 8_400 + 3 * 3_400 + 3 * MS


def test_ring_over_nodes_has_the_rate_of_the_slowest_link():
    group = network.Group(ranks=16, nodes=2)
    duration_ns = links().duration_ns(network.SCATTER, 160 * MB, group)
    assert duration_ns == 8_400 + 14 * 3_400 + 14_000 + 3 * MS
    faster = links(node_rate=200e9).duration_ns(network.SCATTER, 160 * MB, group)
    assert faster == duration_ns - 1.5 * MS


def test_groups_of_one_rank_per_node_share_the_network():
    whole = network.Group(ranks=32, nodes=4)
    one = network.Group(ranks=4, nodes=4)
    sizes = {group: 10**12 * group.ranks / (group.ranks - 1) for group in (whole, one)}
    times = [links().duration_ns(network.GATHER, sizes[group], group) for group in (one, whole)]
    assert times[0] == pytest.approx(8 * times[1], rel=1e-3)


def test_sum_on_many_nodes_takes_the_tree_when_it_is_small():
    group = network.Group(ranks=1024, nodes=128)
    tree_ns = 8_400 + 2 * (7 * 4_000 + 7 * 14_000)
    assert links().duration_ns(network.SUM, 8, group) == pytest.approx(tree_ns, abs=2)
    ring_ns = 2 * 1023 / 1024 * 10**12 / 50e9 * 1e9  # latency is nothing beside a terabyte
    large_ns = links().duration_ns(network.SUM, 10**12, group)
    assert large_ns == pytest.approx(ring_ns, rel=1e-3)


def test_rank_alone_has_no_collectives():
    assert links().duration_ns(network.SUM, MB, network.Group(1, 1)) == 0


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


def test_unused_result_is_awaited_at_the_end_of_the_step():
    trace, (found,) = collectives.with_waits(trace_of([op("c10d::allreduce_", [0]), op()], 1))
    assert found.wait_op == 2 == len(trace["ops"]) - 1


def test_unknown_collective_is_refused():
    with pytest.raises(ValueError, match="c10d::alltoall_.*expected one of c10d::_allgather_base_"):
        collectives.with_waits(trace_of([op("c10d::alltoall_", [0])], 1))


# One collective, of 7: the ranks issue it, compute, and wait for it.
POINTS = [lockstep.Point(0, 0, False), lockstep.Point(1, 0, True)]


def together(*segments, durations=(7,), points=POINTS):
    return lockstep.steady(points, durations, np.array(segments, dtype=float))


def test_two_ranks_by_hand():
    """The second rank issues at 20, so that the collective ends at 27."""
    step = together([10, 5, 5], [20, 5, 5])
    assert step.step_ns == 32
    assert step.waits_ns.tolist() == [[0, 12], [0, 2]]


def test_compute_hides_a_collective():
    step = together([10, 9, 5], [10, 8, 5])
    assert step.step_ns == 24
    assert step.waits_ns.tolist() == [[0, 0], [0, 0]]


def test_network_executes_one_collective_after_another():
    points = lockstep.points_of(
        [collectives.Collective("", 0, 0, 2), collectives.Collective("", 0, 1, 3)]
    )
    step = together([1, 1, 1, 1, 0], durations=(10, 20), points=points)
    assert step.waits_ns.tolist() == [[0, 0, 8, 19]]
    assert step.step_ns == 31


def random_job(ranks, seed):
    random = np.random.default_rng(seed)
    collected = [collectives.Collective("", 0, 3 * k, 3 * k + 2 + k % 3) for k in range(9)]
    points = lockstep.points_of(collected)
    segments = random.integers(1, 100, (ranks, len(points) + 1)).astype(float)
    return points, random.integers(1, 60, 9), segments


@pytest.mark.parametrize("seed", range(5))
def test_time_of_every_rank_adds_up_to_the_step(seed):
    points, durations, segments = random_job(6, seed)
    step = lockstep.steady(points, durations, segments)
    assert segments.sum(axis=1) + step.waits_ns.sum(axis=1) == pytest.approx(step.step_ns)


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


def test_equal_ranks_are_as_fast_as_one():
    points, durations, segments = random_job(1, seed=1)
    one = lockstep.steady(points, durations, segments)
    many = lockstep.steady(points, durations, segments.repeat(64, axis=0))
    assert many.step_ns == one.step_ns
    assert (many.waits_ns == one.waits_ns).all()


def test_ranks_without_collectives_are_as_slow_as_the_slowest():
    assert together([30], [40], durations=(), points=[]).step_ns == 40


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


def test_equal_kinds_take_the_step_of_one():
    one = job.predict(layers_job(), [kind()])
    two = job.predict(layers_job(), [kind(), kind()])
    assert two["step_ns"] == pytest.approx(one["step_ns"], rel=1e-3)


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


def test_rank_executes_the_plan_that_it_has():
    """A plan for less memory moves more, also on a device that has the memory."""
    own = job.predict(layers_job(), [kind()])
    planned = job.Kind(SmallShare(), planned=SmallShare(weights=3))
    others = job.predict(layers_job(), [planned])
    assert others["kinds"][0]["ssd_bytes_read"] > own["kinds"][0]["ssd_bytes_read"]


def test_late_read_delays_a_step_by_what_exceeds_its_slack():
    read = late_reads.Event(0, late_reads.READ, 0, slack_ns=0, rest_ns=1e9, size_bytes=MB)
    use = late_reads.Event(10, late_reads.USE, 0, slack_ns=5, rest_ns=0)
    always = late_reads.Delay(one_in=1, late_ns=7)
    assert late_reads.lateness_ns([read, use], 1, always) == pytest.approx(2)
    assert late_reads.lateness_ns([read, use], 1024, always) == pytest.approx(2)
    early = dataclasses.replace(use, slack_ns=7)
    assert late_reads.lateness_ns([read, early], 1024, always) == 0


def test_ops_that_waited_for_a_read_anyway_catch_up():
    read = late_reads.Event(0, late_reads.READ, 0, slack_ns=0, rest_ns=1e9, size_bytes=MB)
    late = late_reads.Event(5, late_reads.USE, 0, slack_ns=0, rest_ns=3)
    another = late_reads.Event(6, late_reads.USE, 1, slack_ns=0, rest_ns=3)
    always = late_reads.Delay(one_in=1, late_ns=7)
    assert late_reads.lateness_ns([read, late, another], 1, always) == pytest.approx(7 - 3)


def test_rank_that_waits_for_a_collective_anyway_catches_up():
    """The rank waits for 3 when nothing is late; the network has 5 to spare."""
    read = late_reads.Event(0, late_reads.READ, 0, slack_ns=0, rest_ns=1e9, size_bytes=MB)
    use = late_reads.Event(1, late_reads.USE, 0, slack_ns=0, rest_ns=0)
    issue = late_reads.Event(2, late_reads.ISSUE, 0, slack_ns=5, rest_ns=0)
    wait = late_reads.Event(3, late_reads.WAIT, 0, slack_ns=0, rest_ns=3)
    always = late_reads.Delay(one_in=1, late_ns=7)
    assert late_reads.lateness_ns([read, use, issue, wait], 1, always) == pytest.approx(7 - 3)


def test_read_at_the_end_of_a_step_is_used_in_the_next_one():
    """Of a step of 100: a read ends at 90, and its tensor is used at 5 and at 80."""
    ops = [op(reads=[0], duration_ns=75), op(reads=[0], duration_ns=20)]
    read = {"tensor": 0, "size_bytes": MB, "start_ns": 70.0, "end_ns": 90.0, "queued_ns": 0.0}
    run = {"step_ns": 100.0, "starts_ns": [5.0, 80.0], "stalls_ns": [5.0, 0.0], "reads": [read]}
    one = job.Job(trace_of(ops, 1), [], [])
    events = late_reads.events_of(one, {"kinds": [run]})
    uses = [(event.time_ns, event.slack_ns) for event in events if event.what == late_reads.USE]
    assert uses == [(5.0, 15.0)]


def late_steps(ranks, collectives_beside=True, late_ns=100.0):
    """A step of 50 reads without slack; a collective follows each or none."""
    events = []
    for k, time_ns in enumerate(range(0, 5000, 100)):
        read = late_reads.Event(time_ns, late_reads.READ, k, 0, 1e9, size_bytes=MB)
        events += [read, late_reads.Event(time_ns + 1, late_reads.USE, k, 0, 0)]
        if collectives_beside:
            events.append(late_reads.Event(time_ns + 2, late_reads.ISSUE, k, 0, 1e9))
            events.append(late_reads.Event(time_ns + 3, late_reads.WAIT, k, 0, 0))
    return late_reads.lateness_ns(events, ranks, late_reads.Delay(1000, late_ns))


def test_each_collective_adds_the_delay_of_the_latest_rank():
    """The mean is that of the largest of N delays, for each of 50 reads."""
    for ranks in (1, 64, 1024):
        expected_ns = 50 * (1 - 0.999**ranks) * 100
        assert late_steps(ranks) == pytest.approx(expected_ns, rel=0.15)


def test_ranks_that_do_not_meet_lose_less():
    assert late_steps(1024, collectives_beside=False) < 0.5 * late_steps(1024)


def test_read_is_late_when_one_of_its_requests_is():
    delay = late_reads.Delay(one_in=100, late_ns=1)
    assert delay.probability(2 * late_reads.CHUNK_BYTES) == pytest.approx(1 - 0.99**2)


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


def test_striping_waits_for_a_slow_drive_until_the_plan_knows_it():
    def rate(share):
        return sum(drive["write_bytes_per_second"] for drive in share.hardware()["drives"])

    whole = rate(node.shared(8))
    assert rate(node.waiting_for_slow_drive(node.shared(8), 0.25)) == pytest.approx(whole / 4)
    assert rate(node.with_slow_drive(node.shared(8), 0.25)) == pytest.approx(7.25 / 8 * whole)


def test_hybrid_states_cross_nodes_only_as_sums():
    hybrid = layouts.LLAMA_70B_HYBRID
    assert hybrid.group(network.GATHER, 1024) == network.Group(8, 1)
    assert hybrid.group(network.SUM, 1024) == network.Group(128, 128)
    assert layouts.LLAMA_70B_FSDP.group(network.GATHER, 1024) == network.Group(1024, 128)


def steps(step_ns=2e9):
    step = {"step_ns": step_ns, "ideal_ns": 1e9, "compute_ns": 5e8, "kinds": []}
    return {case.key: step for case in cases.every()}


def late():
    return {name: [1e7] * len(cases.LATE_RANKS) for name in cases.DELAYS}


def test_page_has_every_job():
    text = page.text_of(steps(), late())
    speed = f"{layouts.TOKENS_PER_RANK / 2:,.0f} (50 %)"
    assert text.count(speed) == len(cases.EQUAL)
    assert text.count("(x 1.00)") == len(cases.FAULTY)
    assert "{{" not in text


def test_figures_have_every_job():
    drawn = figures.drawn(steps(), late())
    network_lines = drawn["network"].axes[0].lines
    assert len(network_lines) == len(cases.NETWORK_LINES)
    assert all(set(line.get_ydata()) == {0.25} for line in network_lines)
    late_lines = drawn["late-reads"].axes[0].lines
    assert [list(line.get_xdata()) for line in late_lines] == [list(cases.LATE_RANKS)] * 3
    assert list(late_lines[0].get_ydata()) == [0.01] * len(cases.LATE_RANKS)


def test_page_says_what_does_not_fit():
    refused = {cases.EQUAL[0].key: {"refused": "no tier has room"}}
    assert "| no: no tier has room |" in page.text_of(steps() | refused, late())


def test_keys_of_cases_differ():
    wanted = [*cases.EQUAL, *cases.FAULTY, *cases.NETWORKED]
    for one, other in itertools.combinations(wanted, 2):
        assert (one.key == other.key) == (one == other)
