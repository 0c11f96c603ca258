"""Timelines as tables that SQL can query, under the names of Perfetto's trace processor: process,
thread, thread_slice, slice, args, flow, process_counter_track, counter, stats.

The program `trace_processor_shell` answers the queries where it is on the PATH. Elsewhere, SQLite
does, with those columns of these tables that the tests read. Times are nanoseconds.
"""

import contextlib
import gzip
import json
import shutil
import sqlite3


@contextlib.contextmanager
def open_timeline(path):
    """Gives the tables of a timeline, which must import without an error."""
    shell = shutil.which("trace_processor_shell")
    with contextlib.closing(PerfettoTables(path, shell) if shell else SqliteTables(path)) as tables:
        errors = tables.rows("SELECT name, value FROM stats WHERE severity <> 'info' AND value > 0")
        assert not errors, f"{path} imports with errors: {errors}"
        unfinished = tables.column("SELECT name FROM slice WHERE dur < 0")
        assert not unfinished, f"{path} has slices without an end: {unfinished}"
        yield tables


class Tables:
    """What the two kinds share: their `rows(query)` are tuples. Columns have different names."""

    def column(self, query):
        return [value for (value,) in self.rows(query)]

    def first(self, query):
        return self.column(query)[0]

    def process_names(self):
        return self.column("SELECT DISTINCT process_name AS name FROM thread_slice ORDER BY name")


class PerfettoTables(Tables):
    """Those of Perfetto's trace processor."""

    def __init__(self, path, shell):
        from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

        self._processor = TraceProcessor(str(path), config=TraceProcessorConfig(bin_path=shell))
        self._processor.query("INCLUDE PERFETTO MODULE slices.with_context")

    def rows(self, query):
        return [tuple(vars(row).values()) for row in self._processor.query(query)]

    def close(self):
        self._processor.close()


TABLES = """
    CREATE TABLE process (upid INTEGER PRIMARY KEY, pid UNIQUE, name);
    CREATE TABLE thread (utid INTEGER PRIMARY KEY, upid, tid, name, UNIQUE (upid, tid));
    CREATE TABLE slice (id INTEGER PRIMARY KEY, ts INTEGER, dur INTEGER, track_id, name,
        arg_set_id);
    CREATE INDEX slice_by_time ON slice (track_id, ts);
    CREATE TABLE args (arg_set_id, key, int_value INTEGER, string_value TEXT);
    CREATE TABLE flow_end (id, phase, track_id, ts INTEGER, slice);
    CREATE TABLE process_counter_track (id INTEGER PRIMARY KEY, upid, name, UNIQUE (upid, name));
    CREATE TABLE counter (ts INTEGER, track_id, value);
    CREATE VIEW thread_slice AS
        SELECT slice.*, thread.name AS thread_name, upid, pid, process.name AS process_name
        FROM slice JOIN thread ON track_id = utid JOIN process USING (upid);
    CREATE VIEW flow AS SELECT a.slice AS slice_out, b.slice AS slice_in
        FROM flow_end a JOIN flow_end b USING (id) WHERE a.phase = 's' AND b.phase = 'f';
    CREATE VIEW stats AS
        SELECT 'slice_spill_overlapping_complete_event' AS name, 'error' AS severity,
            COUNT(*) AS value
        FROM slice a JOIN slice b USING (track_id)
        WHERE a.ts < b.ts AND b.ts < a.ts + a.dur AND b.ts + b.dur > a.ts + a.dur
        UNION ALL SELECT 'flow_no_enclosing_slice', 'error', COUNT(*)
        FROM flow_end WHERE slice IS NULL;
"""


class SqliteTables(Tables):
    """Those that this file makes."""

    def __init__(self, path):
        self._tables = sqlite3.connect(":memory:")
        self._tables.executescript(TABLES)
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for event in json.loads(text)["traceEvents"]:
            self._add(event)
        self._bind_flows()

    def rows(self, query):
        return self._tables.execute(query).fetchall()

    def close(self):
        self._tables.close()

    def _add(self, event):
        kinds = {
            "M": self._add_name,
            "X": self._add_slice,
            "C": self._add_levels,
            "s": self._add_flow_end,
            "f": self._add_flow_end,
        }
        if event["ph"] in kinds:
            kinds[event["ph"]](event)

    def _bind_flows(self):
        """Finds the slice that each end of a flow belongs to: the innermost one at that time."""
        self._run("""UPDATE flow_end SET slice =
            (SELECT slice.id FROM slice WHERE slice.track_id = flow_end.track_id
             AND slice.ts <= flow_end.ts AND slice.ts + slice.dur >= flow_end.ts
             ORDER BY slice.ts DESC, slice.dur LIMIT 1)""")

    def _run(self, query, *values):
        return self._tables.execute(query, values)

    def _key(self, table, columns, *values):
        """Returns the key of the row with these values, which is added if there is none."""
        marks = ", ".join("?" * len(values))
        self._run(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})", *values)
        select = f"SELECT rowid FROM {table} WHERE ({columns}) = ({marks})"
        return self._run(select, *values).fetchone()[0]

    def _process(self, event):
        return self._key("process", "pid", event["pid"])

    def _thread(self, event):
        return self._key("thread", "upid, tid", self._process(event), event["tid"])

    def _add_name(self, event):
        if event["name"] == "process_name":
            values = event["args"]["name"], self._process(event)
            self._run("UPDATE process SET name = ? WHERE upid = ?", *values)
        elif event["name"] == "thread_name":
            values = event["args"]["name"], self._thread(event)
            self._run("UPDATE thread SET name = ? WHERE utid = ?", *values)

    def _add_slice(self, event):
        values = _ns(event["ts"]), _ns(event["dur"]), self._thread(event), event["name"]
        columns = "ts, dur, track_id, name"
        key = self._run(f"INSERT INTO slice ({columns}) VALUES (?, ?, ?, ?)", *values).lastrowid
        self._run("UPDATE slice SET arg_set_id = id WHERE id = ?", key)
        for name, value in event.get("args", {}).items():
            values = (None, value) if isinstance(value, str) else (value, None)
            if not isinstance(value, (list, dict)):
                self._run("INSERT INTO args VALUES (?, ?, ?, ?)", key, f"args.{name}", *values)

    def _add_levels(self, event):
        for name, value in event["args"].items():
            track = self._process(event), f"{event['name']} {name}"
            key = self._key("process_counter_track", "upid, name", *track)
            self._run("INSERT INTO counter VALUES (?, ?, ?)", _ns(event["ts"]), key, value)

    def _add_flow_end(self, event):
        # The numbers of flows are those of a kind.
        key = json.dumps([event.get("cat"), event["name"], event["id"]])
        values = key, event["ph"], self._thread(event), _ns(event["ts"])
        self._run("INSERT INTO flow_end VALUES (?, ?, ?, ?, NULL)", *values)


def _ns(time_us):
    return round(time_us * 1000)
