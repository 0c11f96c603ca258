"""Timelines of runs: read as Perfetto reads them, and compared with what the session counts."""

import gzip
import json
import sqlite3

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


def tables_of(path):
    """The timeline as tables of the names and columns that Perfetto's trace processor gives them:
    process, thread, thread_track with slice, counter_track with counter. Times are nanoseconds."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    document = json.loads(text)
    tables = sqlite3.connect(":memory:")
    tables.executescript("""\
        CREATE TABLE process (upid INTEGER PRIMARY KEY, pid UNIQUE, name);
        CREATE TABLE thread (utid INTEGER PRIMARY KEY, upid, tid, name, UNIQUE (upid, tid));
        CREATE TABLE slice (ts INTEGER, dur INTEGER, utid, name, args);
        CREATE TABLE counter (ts INTEGER, upid, name, value);
    """)
    run = tables.execute

    def process_of(event):
        run("INSERT OR IGNORE INTO process (pid) VALUES (?)", [event["pid"]])
        return run("SELECT upid FROM process WHERE pid = ?", [event["pid"]]).fetchone()[0]

    def thread_of(event):
        key = [process_of(event), event["tid"]]
        run("INSERT OR IGNORE INTO thread (upid, tid) VALUES (?, ?)", key)
        return run("SELECT utid FROM thread WHERE upid = ? AND tid = ?", key).fetchone()[0]

    def nanoseconds(time_us):
        return round(time_us * 1000)

    for event in document["traceEvents"]:
        if event["ph"] == "M" and event["name"] == "process_name":
            name = [event["args"]["name"], process_of(event)]
            run("UPDATE process SET name = ? WHERE upid = ?", name)
        elif event["ph"] == "M" and event["name"] == "thread_name":
            name = [event["args"]["name"], thread_of(event)]
            run("UPDATE thread SET name = ? WHERE utid = ?", name)
        elif event["ph"] == "X":
            start_ns, end_ns = nanoseconds(event["ts"]), nanoseconds(event["ts"] + event["dur"])
            row = [start_ns, end_ns - start_ns, thread_of(event), event["name"]]
            run("INSERT INTO slice VALUES (?, ?, ?, ?, ?)", [*row, json.dumps(event.get("args"))])
        elif event["ph"] == "C":
            row = [nanoseconds(event["ts"]), process_of(event), event["name"]]
            run("INSERT INTO counter VALUES (?, ?, ?, ?)", [*row, *event["args"].values()])
    return tables


def first_of(tables, query, *values):
    return tables.execute(query, values).fetchone()[0]


def overlapping_slices(tables):
    """Slices of a thread that begin within another one and end after it: Perfetto drops them."""
    return first_of(
        tables,
        """SELECT COUNT(*) FROM slice a JOIN slice b ON a.utid = b.utid
           WHERE a.ts < b.ts AND b.ts < a.ts + a.dur AND b.ts + b.dur > a.ts + a.dur""",
    )


def train(steps, layers=6):
    import torch

    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(layers)])
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        model(torch.ones(8, 1024)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """All steps of a run, and what its session counts, after its end."""
    folder = tmp_path_factory.mktemp("run")
    drives = [folder / "drive0", folder / "drive1"]
    for drive in drives:
        drive.mkdir()
    with teraio.offload("40MB", ssd=drives, host_limit="20MB", timeline_steps="0:") as session:
        train(6)
    steps = session.save_timeline(folder / "timeline.json")
    assert steps == list(range(6))
    return tables_of(folder / "timeline.json"), session


def test_a_run_writes_the_last_steps(warm_python, tmp_path):
    (tmp_path / "train.py").write_text(TRAINING)
    words = ["--device-budget", "40MB", "--save-timeline", "timeline.json.gz", "train.py"]
    done = warm_python("-m", "teraio", "run", *words)
    assert done.code == 0, done
    assert "teraio: open timeline.json.gz in ui.perfetto.dev" in done.out
    tables = tables_of(tmp_path / "timeline.json.gz")
    assert [name for (name,) in tables.execute("SELECT name FROM process")] == ["train.py"]
    steps = "SELECT slice.name FROM slice JOIN thread USING (utid) WHERE thread.name = 'steps'"
    assert tables.execute(steps).fetchall() == [("step 4",), ("step 5",), ("step 6",)]
    assert overlapping_slices(tables) == 0


def test_bytes_add_up_to_those_that_the_session_counts(whole_run):
    tables, session = whole_run
    counters = session.counters()
    bytes_of = """SELECT COALESCE(SUM(args ->> 'bytes'), 0) FROM slice JOIN thread USING (utid)
                  WHERE thread.name = ?"""
    for drive in counters["ssd_drives"]:
        name = drive["name"]
        assert first_of(tables, bytes_of, f"SSD {name} to device") == drive["bytes_read"]
        assert first_of(tables, bytes_of, f"device to SSD {name}") == drive["bytes_written"]
    assert first_of(tables, bytes_of, "host to device") == counters["host_bytes_read"] > 0
    assert first_of(tables, bytes_of, "device to host") == counters["host_bytes_written"] > 0


def test_waits_add_up_to_those_that_the_session_counts(whole_run):
    tables, session = whole_run
    stalls_of = """SELECT COALESCE(SUM(dur), 0) FROM slice JOIN thread USING (utid)
                   WHERE thread.name = 'stall' AND args ->> 'cause' = ? AND ts >= ? AND ts < ?"""
    steps = tables.execute("""SELECT ts, ts + dur FROM slice JOIN thread USING (utid)
                              WHERE thread.name = 'steps' ORDER BY ts""")
    for (start_ns, end_ns), step in zip(steps, session.iterations(), strict=True):
        for cause in ("read", "memory"):
            shown_ns = first_of(tables, stalls_of, cause, start_ns, end_ns)
            assert shown_ns == step[f"stall_{cause}_ns"]
    assert sum(step["stall_read_ns"] for step in session.iterations()) > 0


def test_spans_of_a_row_nest_and_every_track_is_there(whole_run):
    tables, session = whole_run
    assert overlapping_slices(tables) == 0
    tracks = {name for (name,) in tables.execute("SELECT name FROM thread")}
    assert {"steps", "modules", "compute", "stall", "device to host", "drops"} <= tracks
    assert None not in tracks


def test_memory_is_that_of_the_session(whole_run):
    tables, session = whole_run
    levels = "SELECT value FROM counter WHERE name = 'device memory'"
    shown = {value for (value,) in tables.execute(levels)}
    assert {size_bytes for _, size_bytes in session.memory_timeline()} <= shown
    assert max(shown) <= max(step["device_peak_bytes"] for step in session.iterations())
    assert first_of(tables, "SELECT MAX(value) FROM counter WHERE name = 'offloaded tensors'") > 0


def test_torch_profiler_sees_the_same_ops_at_the_same_time(tmp_path):
    from torch.profiler import ProfilerActivity, profile

    ours, theirs, both = tmp_path / "ours.json", tmp_path / "theirs.json", tmp_path / "both.json.gz"
    with teraio.offload("40MB", timeline_steps="0:") as session:
        with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
            train(4)
        session.save_timeline(ours)
    profiler.export_chrome_trace(str(theirs))
    teraio.merge_timelines([ours, theirs], both)
    tables = tables_of(both)
    tables.executescript("""
        CREATE VIEW ours AS SELECT slice.* FROM slice JOIN thread USING (utid)
            WHERE thread.name = 'compute';
        CREATE VIEW theirs AS SELECT slice.* FROM slice JOIN thread USING (utid)
            WHERE thread.name LIKE 'thread % (%';
        CREATE INDEX by_name ON slice (name, ts);
    """)
    assert first_of(tables, "SELECT COUNT(*) FROM process WHERE TYPEOF(pid) = 'integer'") == 1
    assert first_of(tables, "SELECT COUNT(*) FROM ours") > 100
    # Each op lies within what the profiler has of it, which names no overload, and nothing of its
    # own. How exactly the clocks can be compared depends on the machine: 100 us are far more.
    alone = first_of(
        tables,
        """SELECT COUNT(*) FROM ours WHERE name NOT LIKE 'profiler::%' AND NOT EXISTS
           (SELECT 1 FROM theirs
            WHERE theirs.name = SUBSTR(ours.name, 1, INSTR(ours.name || '.', '.') - 1)
            AND theirs.ts < ours.ts + 100000
            AND theirs.ts + theirs.dur > ours.ts + ours.dur - 100000)""",
    )
    assert alone == 0


def test_ranks_of_a_machine_share_a_file(warm_ranks, tmp_path):
    (tmp_path / "train.py").write_text(RANKS_TRAINING)
    (tmp_path / "timeline.json").write_text("of an earlier run")
    outcomes = warm_ranks("train.py")
    assert [each.code for each in outcomes] == [0, 0], outcomes
    tables = tables_of(tmp_path / "timeline.json")
    names = tables.execute("SELECT name FROM process ORDER BY name")
    assert names.fetchall() == [("train.py, rank 0",), ("train.py, rank 1",)]
    assert overlapping_slices(tables) == 0
    # They ran at the same time.
    starts = tables.execute(
        "SELECT MIN(ts), MAX(ts) FROM slice JOIN thread USING (utid) GROUP BY upid ORDER BY upid"
    ).fetchall()
    assert max(first for first, _ in starts) < min(last for _, last in starts)


def test_gpus_of_two_ranks_stay_apart(tmp_path):
    for rank in (0, 1):
        gpu = {"pid": 0, "tid": 7}
        events = [
            {"ph": "M", "name": "process_labels", **gpu, "args": {"labels": "GPU 0"}},
            {"ph": "X", "name": "kernel", **gpu, "ts": 1.0, "dur": 2.0},
            {"ph": "s", "name": "launch", "id": 5, "pid": 100 + rank, "tid": 1, "ts": 0.5},
            {"ph": "f", "name": "launch", "id": 5, **gpu, "ts": 1.0},
        ]
        document = {"baseTimeNanoseconds": 10**18 + 1000 * rank, "traceEvents": events}
        (tmp_path / f"{rank}.json").write_text(json.dumps(document))
    teraio.merge_timelines([tmp_path / "0.json", tmp_path / "1.json"], tmp_path / "both.json")
    events = json.loads((tmp_path / "both.json").read_text())["traceEvents"]
    kernels = [event for event in events if event["name"] == "kernel"]
    assert [event["ts"] for event in kernels] == [1.0, 2.0]
    assert len({event["pid"] for event in kernels}) == 2
    flows = [(event["ph"], event["id"]) for event in events if event["name"] == "launch"]
    assert flows[0][1] == flows[1][1] != flows[2][1] == flows[3][1]


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
    with pytest.raises(teraio.Error, match="missing.json does not exist"):
        teraio.merge_timelines([tmp_path / "missing.json"], tmp_path / "merged.json")


def test_a_session_without_a_timeline_says_what_it_needs(tmp_path):
    with teraio.offload("40MB") as session, pytest.raises(teraio.Error, match="timeline_steps"):
        session.save_timeline(tmp_path / "timeline.json")
    with teraio.offload("40MB", timeline_steps="100:") as session:
        train(1)
        with pytest.raises(teraio.Error, match="no op has run in the steps"):
            session.save_timeline(tmp_path / "timeline.json")


def test_a_script_that_fails_leaves_its_last_steps(warm_python, tmp_path):
    (tmp_path / "train.py").write_text(TRAINING + "raise RuntimeError('no more data')\n")
    words = ["--device-budget", "40MB", "--save-timeline", "timeline.json", "train.py"]
    done = warm_python("-m", "teraio", "run", *words)
    assert done.code == 1 and "no more data" in done.err
    assert "ended by RuntimeError; timeline saved to timeline.json" in done.err
    assert first_of(tables_of(tmp_path / "timeline.json"), "SELECT COUNT(*) FROM slice") > 100
