"""Timelines of runs: several in one file.

A timeline is a file of Chrome trace events on Unix time, as torch.profiler writes them too, which
ui.perfetto.dev opens.
"""

import contextlib
import fcntl
import json
import os
import tempfile
from pathlib import Path

from teraio.errors import Error
from teraio.files.atomic_file import replace_text
from teraio.files.json_file import read_json


def merge_timelines(paths, output):
    """Merges timelines into one file, where they line up in time.

    The files may be timelines of runs (`teraio run --save-timeline`) and traces of torch.profiler
    (`profile.export_chrome_trace`), of one process or of several on one machine.

    Args:
        paths: a list of the files to merge; compressed if the name ends in .gz.
        output: the path of the merged file, which is compressed if its name ends in .gz.

    Raises:
        teraio.Error: a file is not a timeline, or none is given.
        OSError: a file cannot be written.
    """
    is_list = not isinstance(paths, (str, os.PathLike))
    documents = [_read(path) for path in paths] if is_list else []
    if not documents:
        raise Error(f'the timelines to merge are "{paths}": expected a list of one or more paths')
    _write(_merged(documents), output)


def add_to_timeline(path, save, since):
    """Saves the timeline of one rank of several, which write to the same file.

    Args:
        path: the file of all ranks.
        save: a function that saves this rank's timeline at the path that it gets.
        since: seconds since the epoch. A file that is older is of another run, and is replaced.
    """
    directory = Path(path).absolute().parent
    with _locked(directory), tempfile.TemporaryDirectory(dir=directory) as folder:
        own = Path(folder) / "timeline.json"
        result = save(own)
        others = [path] if os.path.exists(path) and os.path.getmtime(path) >= since else []
        merge_timelines([*others, own], path)
    return result


@contextlib.contextmanager
def _locked(directory):
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read(path):
    document = read_json(path)
    if not isinstance(document.get("traceEvents"), list):
        raise Error(f'{path}: field "traceEvents": expected a list')
    if not isinstance(document.get("baseTimeNanoseconds"), int):
        raise Error(
            f'{path}: field "baseTimeNanoseconds": expected the Unix time that the file begins '
            "with, as timelines of runs and traces of torch.profiler have it"
        )
    return document


def _merged(documents):
    base_ns = min(_first_ns(document) for document in documents)
    merged = {key: value for document in documents for key, value in document.items()}
    merged |= {"baseTimeNanoseconds": base_ns, "traceEvents": []}
    used = set()
    next_flow = 0
    for document in documents:
        processes = _numbers_of_devices(document["traceEvents"], used)
        shift_ns = document["baseTimeNanoseconds"] - base_ns
        first_flow = next_flow
        for event in document["traceEvents"]:
            moved = _moved(event, shift_ns, processes, first_flow)
            next_flow = max(next_flow, 1 + _flow(moved))
            # The first file with a process names it: torch.profiler calls each one "python".
            if moved.get("name") != "process_name" or moved.get("pid") not in used:
                merged["traceEvents"].append(moved)
        used |= {event.get("pid") for event in document["traceEvents"]} | set(processes.values())
    return merged


def _first_ns(document):
    """Returns the Unix time of the first event.

    A merged file counts from there. A trace of torch.profiler counts from weeks before: there,
    microseconds in double precision are not exact to the nanosecond, and spans that meet overlap.
    """
    times_us = (event["ts"] for event in document["traceEvents"] if "ts" in event)
    return document["baseTimeNanoseconds"] + _nanoseconds(min(times_us, default=0))


def _nanoseconds(time_us):
    return round(time_us * 1000)


def _flow(event):
    """Returns the number of the flow, an arrow, that the event belongs to, or -1."""
    is_flow = event.get("ph") in ("s", "t", "f") and isinstance(event.get("id"), int)
    return event["id"] if is_flow else -1


def _moved(event, shift_ns, processes, first_flow):
    moved = dict(event)
    if "ts" in moved:
        moved["ts"] = (_nanoseconds(moved["ts"]) + shift_ns) / 1000
    if moved.get("pid") in processes:
        moved["pid"] = processes[moved["pid"]]
    if _flow(moved) >= 0:
        moved["id"] += first_flow
    return moved


def _numbers_of_devices(events, used):
    """Returns new numbers for the GPUs of a trace whose numbers are in use.

    torch.profiler shows GPU 0 as the process 0. Those of two ranks are different GPUs.
    """
    devices = {
        event["pid"]
        for event in events
        if event.get("name") == "process_labels"
        and str(event.get("args", {}).get("labels", "")).startswith("GPU")
    }
    free = (number for number in range(1 << 22, 1 << 23) if number not in used)
    return {device: next(free) for device in sorted(devices & used, key=str)}


def _write(document, path):
    events = ",\n  ".join(json.dumps(event) for event in document.pop("traceEvents"))
    header = "".join(f" {json.dumps(key)}: {json.dumps(document[key])},\n" for key in document)
    replace_text(path, f'{{\n{header} "traceEvents": [\n  {events}\n ]\n}}\n')
