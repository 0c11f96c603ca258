"""Timelines of runs: read as Perfetto reads them, and compared with what the session counts."""

import json
import os
from collections import defaultdict

import pytest

import teraio

TRAINING = """\
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(6)])
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(7):
    model(torch.ones(8, 1024)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""

RANKS_TRAINING = """\
import sys
import teraio, torch
torch.distributed.init_process_group("gloo", init_method=sys.argv[1])
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(3)])
optimizer = torch.optim.SGD(model.parameters())
with teraio.offload("20MB", save_timeline="timeline.json"):
    for _ in range(3):
        model(torch.ones(8, 512)).square().mean().backward()
        for parameter in model.parameters():
            torch.distributed.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()
"""


def train(steps, layers=6):
    import torch

    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(layers)])
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        model(torch.ones(8, 1024)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.fixture(scope="module")
def whole_run(open_timeline, tmp_path_factory):
    """All steps of a run, and what its session counts, after its end."""
    folder = tmp_path_factory.mktemp("run")
    drives = [folder / "drive0", folder / "drive1"]
    for drive in drives:
        drive.mkdir()
    with teraio.offload("40MB", ssd=drives, host_limit="20MB", timeline_steps="0:") as session:
        train(6)
    steps = session.save_timeline(folder / "timeline.json")
    assert steps == list(range(6))
    return open_timeline(folder / "timeline.json"), session


def test_a_run_writes_the_last_steps(warm_python, open_timeline, tmp_path):
    (tmp_path / "train.py").write_text(TRAINING)
    words = ["--device-budget", "40MB", "--save-timeline", "timeline.json.gz", "train.py"]
    done = warm_python("-m", "teraio", "run", *words)
    assert done.code == 0, done
    assert "teraio: open timeline.json.gz in ui.perfetto.dev" in done.out
    tables = open_timeline(tmp_path / "timeline.json.gz")
    assert tables.process_names() == ["train.py"]
    steps = "SELECT name FROM thread_slice WHERE thread_name = 'steps' ORDER BY ts"
    assert tables.column(steps) == ["step 4", "step 5", "step 6"]


def test_bytes_add_up_to_those_that_the_session_counts(whole_run):
    tables, session = whole_run
    counters = session.counters()
    moved = """SELECT thread_name, SUM(int_value) FROM thread_slice JOIN args USING (arg_set_id)
               WHERE key = 'args.bytes' GROUP BY thread_name"""
    bytes_of = defaultdict(int, tables.rows(moved))
    for drive in counters["ssd_drives"]:
        name = drive["name"]
        assert bytes_of[f"SSD {name} to device"] == drive["bytes_read"]
        assert bytes_of[f"device to SSD {name}"] == drive["bytes_written"]
    assert bytes_of["host to device"] == counters["host_bytes_read"] > 0
    assert bytes_of["device to host"] == counters["host_bytes_written"] > 0


def test_waits_add_up_to_those_that_the_session_counts(whole_run):
    tables, session = whole_run
    stalls = tables.rows("""SELECT string_value, ts, dur FROM thread_slice
                            JOIN args USING (arg_set_id)
                            WHERE thread_name = 'stall' AND key = 'args.cause'""")
    steps = tables.rows("""SELECT ts, ts + dur AS end_ts FROM thread_slice
                           WHERE thread_name = 'steps' ORDER BY ts""")
    for (start_ns, end_ns), step in zip(steps, session.iterations(), strict=True):
        shown_ns = {"read": 0, "memory": 0}
        for cause, stall_start_ns, stall_ns in stalls:
            if start_ns <= stall_start_ns < end_ns:
                shown_ns[cause] += stall_ns
        assert shown_ns["read"] == step["stall_read_ns"]
        assert shown_ns["memory"] == step["stall_memory_ns"]
    assert sum(step["stall_read_ns"] for step in session.iterations()) > 0


def test_every_track_is_there(whole_run):
    tables, _ = whole_run
    tracks = set(tables.column("SELECT thread_name FROM thread_slice"))
    assert {"steps", "modules", "compute", "stall", "device to host", "drops"} <= tracks
    assert None not in tracks


def test_memory_is_that_of_the_session(whole_run):
    tables, session = whole_run
    levels = """SELECT value FROM counter JOIN process_counter_track AS track ON track_id = track.id
                WHERE name = """
    shown = set(tables.column(levels + "'device memory bytes'"))
    assert {size_bytes for _, size_bytes in session.memory_timeline()} <= shown
    assert max(shown) <= max(step["device_peak_bytes"] for step in session.iterations())
    assert max(tables.column(levels + "'offloaded tensors bytes'")) > 0


def test_torch_profiler_sees_the_same_ops_at_the_same_time(open_timeline, tmp_path):
    from torch.profiler import ProfilerActivity, profile

    recorded, profiled, both = (
        tmp_path / "recorded.json",
        tmp_path / "profiled.json",
        tmp_path / "both.json.gz",
    )
    with teraio.offload("40MB", timeline_steps="0:") as session:
        with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
            train(4)
        session.save_timeline(recorded)
    profiler.export_chrome_trace(str(profiled))
    teraio.merge_timelines([recorded, profiled], both)
    tables = open_timeline(both)
    spans = "SELECT name, ts, ts + dur AS end_ts FROM thread_slice WHERE thread_name "
    profiled_by_name = defaultdict(list)
    for name, start_ns, end_ns in tables.rows(spans + "LIKE 'thread % (%'"):
        profiled_by_name[name].append((start_ns, end_ns))
    shown = tables.rows(f"{spans} = 'compute' AND pid = {os.getpid()}")
    assert len(shown) > 100
    # Each op lies within what the profiler has of it, which names no overload, and nothing of its
    # own. How exactly the clocks can be compared depends on the machine: 100 us are far more.
    slack_ns = 100_000
    alone = [
        name
        for name, start_ns, end_ns in shown
        if not name.startswith("profiler::")
        and not any(
            start < start_ns + slack_ns and end > end_ns - slack_ns
            for start, end in profiled_by_name[name.partition(".")[0]]
        )
    ]
    assert alone == []
    assert "python" not in tables.process_names()
    # The profiler's arrows lead from ops of the forward pass to those of the backward pass.
    assert tables.first("SELECT COUNT(*) FROM flow") > 0


def test_ranks_of_a_machine_share_a_file(warm_ranks, open_timeline, tmp_path):
    (tmp_path / "train.py").write_text(RANKS_TRAINING)
    (tmp_path / "timeline.json").write_text("of an earlier run")
    outcomes = warm_ranks("train.py")
    assert [each.code for each in outcomes] == [0, 0], outcomes
    tables = open_timeline(tmp_path / "timeline.json")
    assert tables.process_names() == ["train.py, rank 0", "train.py, rank 1"]
    # They ran at the same time.
    starts = tables.rows("SELECT MIN(ts), MAX(ts) FROM thread_slice GROUP BY upid")
    assert max(first for first, _ in starts) < min(last for _, last in starts)


def test_spans_that_meet_do_not_overlap_in_a_merged_file(open_timeline, tmp_path):
    recorded, profiled = tmp_path / "recorded.json", tmp_path / "profiled.json"
    meeting = [{"ph": "X", "name": "op", "ts": k * 333.333, "dur": 333.333} for k in range(1000)]
    early = {"ph": "X", "name": "early", "ts": 4_760_460_172_291.336, "dur": 1.5}  # 55 days
    for path, base_ns, events in (
        (profiled, 10**18, [early]),
        (recorded, 10**18 + 4_760_460_172_301_337, meeting),
    ):
        events = [event | {"pid": 1, "tid": 1} for event in events]
        path.write_text(json.dumps({"baseTimeNanoseconds": base_ns, "traceEvents": events}))
    teraio.merge_timelines([recorded, profiled], tmp_path / "both.json")
    tables = open_timeline(tmp_path / "both.json")
    starts_ns = tables.column("SELECT ts FROM slice ORDER BY ts")
    assert [start_ns - starts_ns[0] for start_ns in starts_ns[1:3]] == [10_001, 10_001 + 333_333]


def test_gpus_and_launches_of_ranks_stay_apart(open_timeline, tmp_path):
    merged = tmp_path / "merged.json"
    for rank in range(3):
        gpu, cpu = {"pid": 0, "tid": 7}, {"pid": 100 + rank, "tid": 1}
        flow = {"cat": "ac2g", "name": "ac2g", "id": 5}
        events = [
            {"ph": "M", "name": "process_labels", **gpu, "args": {"labels": "GPU 0"}},
            {"ph": "X", "name": f"launch by {rank}", **cpu, "ts": 0.5, "dur": 0.25},
            {"ph": "X", "name": f"kernel of {rank}", **gpu, "ts": 1.0, "dur": 2.0},
            {"ph": "s", **flow, **cpu, "ts": 0.5},
            {"ph": "f", **flow, **gpu, "ts": 1.0, "bp": "e"},
        ]
        document = {"baseTimeNanoseconds": 10**18 + 1000 * rank, "traceEvents": events}
        own = tmp_path / f"{rank}.json"
        own.write_text(json.dumps(document))
        teraio.merge_timelines([own] if rank == 0 else [merged, own], merged)
    tables = open_timeline(merged)
    kernels = "SELECT name, ts, upid FROM thread_slice WHERE name LIKE 'kernel%' ORDER BY ts"
    names, starts_ns, gpus = zip(*tables.rows(kernels), strict=True)
    assert names == ("kernel of 0", "kernel of 1", "kernel of 2")
    assert [start_ns - starts_ns[0] for start_ns in starts_ns] == [0, 1000, 2000]
    assert len(set(gpus)) == 3
    flows = """SELECT launch.name AS launch, kernel.name AS kernel FROM flow
               JOIN slice AS launch ON slice_out = launch.id
               JOIN slice AS kernel ON slice_in = kernel.id ORDER BY launch"""
    assert tables.rows(flows) == [
        ("launch by 0", "kernel of 0"),
        ("launch by 1", "kernel of 1"),
        ("launch by 2", "kernel of 2"),
    ]


@pytest.mark.parametrize("text", ["3", "5:5", "7:3", "-3:-1", "-2:8", "a:b", "1:2:3"])
def test_steps_that_are_none_are_refused(text):
    with pytest.raises(teraio.Error, match=f'the steps of the timeline are "{text}": expected'):
        teraio.offload("40MB", timeline_steps=text)


def test_a_file_that_is_no_timeline_is_named(tmp_path):
    timeline, trace = tmp_path / "timeline.json", tmp_path / "trace.json"
    timeline.write_text('{"traceEvents": []}')
    trace.write_text('{"ops": []}')
    with pytest.raises(teraio.Error, match='timeline.json: field "baseTimeNanoseconds": expected'):
        teraio.merge_timelines([timeline], tmp_path / "merged.json")
    with pytest.raises(teraio.Error, match='trace.json: field "traceEvents": expected a list'):
        teraio.merge_timelines([trace], tmp_path / "merged.json")
    for none in ([], "tl.json"):
        with pytest.raises(teraio.Error, match="expected a list of one or more paths"):
            teraio.merge_timelines(none, tmp_path / "merged.json")
    with pytest.raises(teraio.Error, match="missing.json does not exist"):
        teraio.merge_timelines([tmp_path / "missing.json"], tmp_path / "merged.json")


def test_a_merged_file_does_not_replace_a_timeline(warm_python, tmp_path):
    (tmp_path / "own.json").write_text('{"baseTimeNanoseconds": 1, "traceEvents": []}')
    words = ["merge-timelines", "own.json", "--output", "own.json"]
    outcome = warm_python("-m", "teraio", *words)
    assert outcome.code == 1 and "--output: own.json is given twice" in outcome.err


def test_a_session_without_a_timeline_says_what_it_needs(tmp_path):
    with teraio.offload("40MB") as session, pytest.raises(teraio.Error, match="timeline_steps"):
        session.save_timeline(tmp_path / "timeline.json")
    with teraio.offload("40MB", timeline_steps="100:") as session:
        train(1)
        with pytest.raises(teraio.Error, match="no op has run in the steps"):
            session.save_timeline(tmp_path / "timeline.json")


def test_a_script_that_fails_leaves_its_last_steps(warm_python, open_timeline, tmp_path):
    (tmp_path / "train.py").write_text(TRAINING + "raise RuntimeError('no more data')\n")
    words = ["--device-budget", "40MB", "--save-timeline", "timeline.json", "train.py"]
    done = warm_python("-m", "teraio", "run", *words)
    assert done.code == 1 and "no more data" in done.err
    assert "ended by RuntimeError; timeline saved to timeline.json" in done.err
    assert open_timeline(tmp_path / "timeline.json").first("SELECT COUNT(*) FROM slice") > 100
