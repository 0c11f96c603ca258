"""`teraio report`: the page about a run, made from what the run wrote, and read in a browser."""

import gzip
import json
import re
import shutil

import numpy
import pytest

import teraio
from teraio.report import Report, change_points, progress
from teraio.report.memory_levels import memory_levels
from teraio.report.modules import Modules
from teraio.report.prediction import predict
from teraio.report.residency import DEVICE, DRIVES, READING, WRITING, residency
from teraio.report.run_directory import read_run_directory
from teraio.report.summary import facts
from teraio.report.timeline import Timeline
from teraio.watch import environment
from teraio_figures.timeline import COMPUTE, SSD_READ

TRAINING = """\
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(6)])
optimizer = torch.optim.AdamW(model.parameters())
for rows in [8] * 7 + [4]:
    model(torch.ones(rows, 1024)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
PAGE_BYTES_MAX = 10_000_000


@pytest.fixture(scope="module")
def run_directory(warm_server, tmp_path_factory):
    """The directory of a run in about a third of the memory that it needs."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "train.py").write_text(TRAINING)
    words = ["--device-budget", "40MB", "--verify", "hashes.json", "--report", "report", "train.py"]
    for _ in range(2):  # the first one writes the hashes
        [done] = warm_server.run([(["-m", "teraio", "run", *words], {})], folder)
        assert done.returncode == 0, done
    assert "`teraio report report` makes a page about this run" in done.stdout
    return folder / "report"


@pytest.fixture(scope="module")
def page_path(warm_server, run_directory):
    """The page about that run."""
    [done] = warm_server.run([(["-m", "teraio", "report", run_directory], {})], run_directory)
    assert done.returncode == 0, done
    assert done.stdout == f"teraio report: {run_directory}/report.html\n"
    return run_directory / "report.html"


@pytest.fixture
def report(warm_python):
    """Runs `python -m teraio report ARGUMENTS...`."""
    return lambda *arguments: warm_python("-m", "teraio", "report", *arguments)


def text_of(page):
    """The words of a page, without its scripts and styles."""
    text = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


def test_the_run_writes_what_the_report_needs(run_directory):
    run = json.loads((run_directory / "run.json").read_text())
    assert run["format"] == "teraio-run/1"
    assert run["settings"]["device_budget_bytes"] == 40_000_000
    assert run["versions"]["teraio"] and run["versions"]["PyTorch"]
    assert run["machine"]["cores"] > 0
    assert run["prediction"]["device_budget_bytes"] < 40_000_000
    assert run["started_at"] <= run["ended_at"]  # in seconds
    trace = json.loads(gzip.decompress((run_directory / "trace.json.gz").read_bytes()))
    plan = json.loads(gzip.decompress((run_directory / "plan.json.gz").read_bytes()))
    assert plan["trace"] == trace["name"]
    hardware = json.loads((run_directory / "hardware.json").read_text())
    assert [each["name"] for each in hardware["drives"]] == [
        each["name"] for each in run["share"]["drives"]
    ]


def test_page_answers_the_questions_of_a_new_user(page_path, run_directory):
    page = page_path.read_text()
    assert len(page) < PAGE_BYTES_MAX
    text = text_of(page)
    run = json.loads((run_directory / "run.json").read_text())
    assert "It works: the training needs" in text and "ran in 40.0 MB" in text
    assert re.search(r"A step takes [0-9.]+ m?s(\.|:)", text)
    for words in (
        "Predicted, not measured: where the plan has",
        "step, measured",
        "step, predicted",
        "compute alone (ideal)",
        "written per step",
        "drive wear per day",
        "ops that followed a plan 100 %",
        f"plan in force from step {run['prediction']['plan_from_step']}",
        "predicted with op times of step",
        "What would help",
        "twice the device memory",
        "Stalls by module",
        "optimizer state",
        "0.weight.exp_avg",
        "Steps by mode and pattern",
        run["share"]["drives"][0]["directory"],
        run["versions"]["PyTorch"],
        run["machine"]["processor"],
    ):
        assert words in text, words
    for name in ("memory", "channels", "places", "steps"):
        figure = re.search(rf'id="data-{name}">(.*?)</script>', page, re.DOTALL)[1]
        assert json.loads(figure)["data"], name


def test_page_names_what_made_a_step_differ(page_path):
    text = text_of(page_path.read_text())
    assert "aten::linear: inputs of 16.4 kB instead of 32.8 kB 1 " in text
    assert "train.py:5 in &lt;module&gt;" in text


def test_page_needs_no_network(page_path):
    page = page_path.read_text()
    assert "default-src 'none'" in page
    assert not re.search(r'<(script|link|img|iframe)[^>]*(src|href)="', page)


def test_predicted_memory_agrees_with_the_simulator(run_directory):
    directory = read_run_directory(run_directory)
    predicted = predict(directory)
    places = residency(directory.trace, predicted.timeline)
    levels = memory_levels(directory.trace, predicted.timeline, places)
    assert levels.of_kind.sum(axis=0).max() == predicted.totals["device_peak_bytes"]
    assert levels.natural.max() > 2 * levels.of_kind.sum(axis=0).max()
    for each in predicted.timeline.transfers:
        spans = places[each.tensor]
        kinds = {place for _, _, place in spans}
        assert kinds <= {DEVICE, DRIVES, READING, WRITING}
        if each.action == "prefetch" and each.start_s >= 0:
            assert (each.start_s, READING) in [(start, place) for start, _, place in spans]
    for spans in places.values():
        for (_, end, _), (start, _, _) in zip(spans, spans[1:], strict=False):
            assert end == start


def test_a_read_that_begins_in_the_step_before_begins_with_the_op_there():
    def event(row, start_us, duration_us, **details):
        return {"ph": "X", "tid": row, "ts": start_us, "dur": duration_us, "args": details}

    # In seconds, 0.212867602 - 0.001754306 is not the float 0.211113296.
    read = {"tensor": 1, "action": "prefetch", "bytes": 600}
    events = [
        event(COMPUTE, 0, 211113.296, op=0),
        event(COMPUTE, 211113.296, 1754.306, op=1),
        event(SSD_READ, -1754.306, 2000, **read),
    ]
    op = {"name": "an_op", "reads": [1], "writes": [], "frees": []}
    trace = {"tensors": [{"id": 1, "bytes": 600, "persistent": True}], "ops": [op, op]}
    timeline = Timeline(events, step_s=0.212867602)
    *_, (start_s, _, place) = residency(trace, timeline)[1]
    assert place == READING
    assert start_s == timeline.op_start_s[1]


def test_ops_belong_to_the_modules_of_their_parameters(run_directory):
    trace = read_run_directory(run_directory).trace
    modules = Modules(trace)
    assert {"0", "1", "5"} <= set(modules.of_op)
    ids = {each.get("name"): each["id"] for each in trace["tensors"]}
    assert modules.of_tensor[ids["3.weight"]] == modules.of_tensor[ids["3.weight.exp_avg"]] == "3"


def test_a_run_without_a_plan_is_reported_too(report, warm_python, tmp_path):
    (tmp_path / "train.py").write_text(TRAINING.replace("range(8)", "range(3)"))
    words = ["--device-budget", "40MB", "--policy", "on-demand", "--report", "report", "train.py"]
    assert warm_python("-m", "teraio", "run", *words).code == 0
    assert not (tmp_path / "report" / "plan.json.gz").exists()
    outcome = report("report")
    assert outcome.code == 0, outcome
    text = text_of((tmp_path / "report" / "report.html").read_text())
    assert "without a plan: tensors moved on demand" in text
    assert "Leave out --policy on-demand" in text


def test_a_run_without_a_step_is_reported_too(report, warm_python, tmp_path):
    (tmp_path / "train.py").write_text("print('no training here')")
    words = ["--device-budget", "40MB", "--report", "report", "train.py"]
    assert warm_python("-m", "teraio", "run", *words).code == 0
    assert report("report").code == 0
    assert "No training step has ended" in text_of((tmp_path / "report/report.html").read_text())


def test_a_plan_of_another_trace_is_told_on_the_page(report, run_directory, tmp_path):
    shutil.copytree(run_directory, tmp_path / "mixed")
    path = tmp_path / "mixed" / "plan.json.gz"
    plan = json.loads(gzip.decompress(path.read_bytes())) | {"trace": "another"}
    path.write_bytes(gzip.compress(json.dumps(plan).encode()))
    assert report("mixed").code == 0
    text = text_of((tmp_path / "mixed" / "report.html").read_text())
    assert re.search(r"The step could not be predicted: .*plan\.json\.gz.*another", text)
    assert "Steps by mode and pattern" in text


def test_tensors_that_were_made_again_are_a_fact(run_directory):
    directory = read_run_directory(run_directory)
    assert "tensors made again" not in {fact.name for fact in facts(directory, [])}
    directory.run["counters"] |= {"discards": 1200, "replay_ns": 3_000_000}
    [fact] = [fact for fact in facts(directory, []) if fact.name == "tensors made again"]
    assert (fact.value, fact.note) == ("1,200", "3.0 ms for their ops over the whole run")


@pytest.mark.full
def test_two_runs_side_by_side(report, run_directory, tmp_path):
    other = tmp_path / "faster"
    shutil.copytree(run_directory, other)
    run = json.loads((other / "run.json").read_text())
    for step in run["steps"]:
        step["seconds"] /= 2
    run["settings"]["host_limit_bytes"] = 10**9
    (other / "run.json").write_text(json.dumps(run))
    outcome = report(run_directory, other, "--output", tmp_path / "two.html")
    assert outcome.code == 0, outcome
    page = (tmp_path / "two.html").read_text()
    text = text_of(page)
    assert "The steps of faster take 50 % less time" in text
    assert re.search(r"step, measured [0-9.]+ m?s [0-9.]+ m?s -50.0 %", text)
    assert "host limit 0 B 1.00 GB" in text
    figure = json.loads(re.search(r'id="data-steps">(.*?)</script>', page, re.DOTALL)[1])
    assert [each["name"] for each in figure["data"]] == ["report", "faster"]


def test_results_to_share_name_no_path_host_or_user(report, run_directory, tmp_path):
    """Every name of the run is one that can be found again, down to those of its machine."""
    mine = tmp_path / "run_of_alice"
    shutil.copytree(run_directory, mine)
    run = json.loads((mine / "run.json").read_text())
    assert run["bits"] == "the bits of another run (SHA-256)"
    [drive] = run["share"]["drives"]
    private = [drive["name"], drive["directory"], "train.py", "report", "hashes.json"]
    assert "train.py" in run["command"] and run["settings"]["verify"] == "hashes.json"
    run["machine"] |= {"name": "host_of_alice", "drives": ["Samsung SSD 990 PRO 2TB"]}
    run["versions"]["kernel"] = "Linux 6.8.12-alice"
    run["user"] = "alice"  # a field of the future
    (mine / "run.json").write_text(json.dumps(run))
    outcome = report("--share", mine)
    assert (outcome.code, outcome.out) == (0, f"teraio report: {mine}/results.md\n"), outcome
    text = (mine / "results.md").read_text()
    told = text.replace("`teraio report --share`", "")
    assert [word for word in (*private, "alice", "host_of", str(tmp_path)) if word in told] == []
    median = [fact.value for fact in facts(read_run_directory(mine), []) if "measured" in fact.name]
    for line in (
        f"| processor | {run['machine']['processor']} |",
        "| drives | Samsung SSD 990 PRO 2TB |",
        f"| PyTorch | {run['versions']['PyTorch']} |",
        "| kernel | Linux 6.8.12 |",
        "| recompute | all |",
        "| device budget | 40.0 MB |",
        f"| step, measured | {median[0]} (median of",
        "| losses, parameters, optimizer states | the bits of another run (SHA-256) |",
    ):
        assert line in text, (line, text)
    del run["share"]
    (mine / "run.json").write_text(json.dumps(run))
    assert "has a file that no run writes so: KeyError" in report("--share", mine).err
    assert "2 directories given" in report("--share", mine, mine).err


def test_drives_tell_their_models(tmp_path, monkeypatch):
    (tmp_path / "nvme0n1" / "device").mkdir(parents=True)
    (tmp_path / "nvme0n1" / "device" / "model").write_text("Samsung SSD 990 PRO 2TB  \n")
    monkeypatch.setattr(environment, "BLOCK_DEVICES", tmp_path)
    drives = [{"name": "nvme0n1"}, {"name": "vda"}]
    assert environment.machine("cpu", drives)["drives"] == ["Samsung SSD 990 PRO 2TB"]
    assert "drives" not in environment.machine("cpu", drives[1:])


def test_bad_input_is_refused_in_one_line(report, run_directory, tmp_path):
    def refused(*arguments, code=1):
        outcome = report(*arguments)
        assert outcome.code == code and outcome.out == "", outcome
        assert outcome.err.startswith("teraio report: ") and outcome.err.count("\n") == 1
        return outcome.err

    assert "nowhere does not exist" in refused("nowhere")
    (tmp_path / "empty").mkdir()
    assert "empty has no run.json" in refused("empty")
    assert "3 directories given" in refused("a", "b", "c", code=2)
    assert "--nonsense" in refused("a", "--nonsense", code=2)
    assert "is a directory" in refused(run_directory, "--output", tmp_path)
    assert "missing does not exist" in refused(run_directory, "--output", "missing/page.html")
    data = run_directory / "run.json"
    assert f"{data} is given twice" in refused(run_directory, "--output", data)
    damaged = tmp_path / "damaged"
    shutil.copytree(run_directory, damaged)
    (damaged / "trace.json.gz").write_bytes(b"no gzip")
    assert "trace.json.gz cannot be read" in refused("damaged")
    (damaged / "run.json").write_text("{}")
    assert 'run.json: field "format": expected "teraio-run/1"' in refused("damaged")


@pytest.mark.full
def test_values_that_no_run_writes_are_refused_in_one_line(run_directory, tmp_path):
    """Each field of run.json is missing, or a number, in a run of its own."""
    damaged = tmp_path / "damaged"
    shutil.copytree(run_directory, damaged)
    run = json.loads((damaged / "run.json").read_text())
    refused = set()
    for field in run.keys() - {"format"}:
        for changed in (run | {field: -1}, {name: run[name] for name in run if name != field}):
            (damaged / "run.json").write_text(json.dumps(changed))
            try:
                Report(damaged)
            except teraio.Error as error:
                assert str(error).startswith(f"{damaged} has a file that no run writes so")
                refused.add(field)
    assert refused >= {"counters", "machine", "settings", "stall_by_cause_seconds", "steps"}


def test_only_what_takes_long_is_told(capsys, monkeypatch):
    with progress.told_if_slow("waiting"):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 0)
    told = ""
    with progress.told_if_slow("waiting"):
        while not told:
            told = capsys.readouterr().err
    assert told == "teraio report: waiting ...\n"


def test_means_of_rectangles():
    at = numpy.array([0.0, 1.0, 2.0, 4.0])
    assert change_points.means(at, [0.5, 3], [1.5, 4], [2, 1]).tolist() == [1, 1, 0.5]
    assert change_points.means(at, [], [], []).tolist() == [0, 0, 0]


def test_reduced_levels_keep_their_peaks():
    levels = numpy.zeros((2, 10_000))
    levels[0, 5000], levels[1, 7321] = 3, 9
    kept = change_points.peaks(levels, 100)
    assert len(kept) <= 100 and {0, 5000, 7321} <= set(kept.tolist())


def test_edges_are_exact_while_there_are_few():
    assert change_points.edges(numpy.array([3, 1, 1, 9]), 0, 5, 10).tolist() == [0, 1, 3, 5]
    assert len(change_points.edges(numpy.arange(10_000), 0, 10_000, 50)) == 50


@pytest.fixture
def drawn(opened):
    """Opens a page and draws every chart; gives the tab."""

    def drawn(page, **options):
        tab = opened(page, **options)
        for chart in tab.locator(".chart").all():
            chart.scroll_into_view_if_needed()
            chart.locator(".main-svg").first.wait_for()
        return tab

    return drawn


def x_range(tab, name):
    return tab.evaluate(f"document.getElementById('chart-{name}').layout.xaxis.range")


@pytest.mark.full
def test_charts_are_drawn_and_zoom_together(drawn, page_path):
    tab = drawn(page_path)
    first, last = x_range(tab, "places")
    tab.get_by_role("group", name="Where the largest").get_by_text("Zoom in").click()
    assert x_range(tab, "places") == pytest.approx([first + last / 4, last * 3 / 4])
    tab.wait_for_function(
        "document.getElementById('chart-memory').layout.xaxis.range[0] > 0"
    )  # the other charts of the step follow
    assert x_range(tab, "channels") == x_range(tab, "places") == x_range(tab, "memory")
    tab.locator("#chart-places").hover()
    told = tab.locator("#place-details").inner_text()
    assert re.search(r"\(.*, .*B\), module .* At .*: .*\. Next use in ", told), told


@pytest.mark.full
def test_everybody_can_read_the_page(drawn, everybody_can_read, page_path, screen):
    tab = drawn(page_path, **screen)
    for summary in tab.locator("summary").all():
        summary.click()
    everybody_can_read(tab)
