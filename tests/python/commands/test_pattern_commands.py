"""plan and simulate for a program whose steps differ: several traces with their shares."""

import json
import re

import pytest


def scaled(path, target, factor):
    """Writes the trace of a step whose ops take `factor` times as long, and returns its path."""
    trace = json.loads(path.read_text())
    trace["name"] = target.stem
    for op in trace["ops"]:
        op["duration_ns"] *= factor
    target.write_text(json.dumps(trace))
    return target


@pytest.fixture
def patterns(small, tmp_path):
    """`small` as a program with two patterns: 1 us and 9 us an op, and 1050 bytes of memory."""
    short = scaled(small[1], tmp_path / "short.json", 1)
    long = scaled(small[1], tmp_path / "long.json", 9)
    return ["--trace", short, long, *small[2:], "--device-budget", "1050"]


@pytest.fixture
def alone(small, tmp_path):
    """The options for one of the two."""
    return lambda name: ["--trace", tmp_path / name, *small[2:], "--device-budget", "1050"]


@pytest.fixture
def both(teraio, patterns):
    """What `teraio simulate --json` prints for the shares."""
    return lambda shares: json.loads(teraio("simulate", *patterns, "--shares", shares, "--json"))


def test_each_pattern_is_predicted_as_it_is_alone(teraio, both, alone, tmp_path):
    predicted = both("80,20")["patterns"]
    assert [each["share"] for each in predicted] == [0.8, 0.2]
    for each, name in zip(predicted, ("short.json", "long.json"), strict=True):
        assert each["trace"] == str(tmp_path / name)
        run = json.loads(teraio("simulate", *alone(name), "--json"))
        assert {key: each[key] for key in run} == run


def test_the_table_has_each_pattern_the_mean_and_the_life_of_the_drives(teraio, patterns):
    said = teraio("simulate", *patterns, "--shares", "80,20")
    assert re.search(r"^pattern +share +step +ideal +of ideal +replays +stalled +written +", said)
    assert re.search(r"^\S+short.json +80\.0 % .*B$", said, re.MULTILINE)
    assert re.search(r"^\S+long.json +20\.0 % .*B$", said, re.MULTILINE)
    assert re.search(r"^mean step +100\.0 % .*B$", said, re.MULTILINE)
    assert re.search(r"^SSD .*B$", said, re.MULTILINE)
    assert re.search(r"the drives last [0-9.e+-]+ years of training without a pause", said)


def edited(path, change):
    trace = json.loads(path.read_text())
    change(trace)
    path.write_text(json.dumps(trace))


@pytest.fixture
def roomy(patterns):
    """The same where everything of the long pattern fits."""

    def without_workspace(trace):
        trace["ops"][2]["workspace_bytes"] = 0
        trace["tensors"][1]["bytes"] = 400

    edited(patterns[2], without_workspace)
    return [*patterns, "--shares", "75,25"]


def test_changes_between_patterns_are_predicted(teraio, roomy):
    predicted = json.loads(teraio("simulate", *roomy, "--json"))
    short, long = predicted["patterns"]
    assert short["ssd_bytes_written"] > 0 and long["ssd_bytes_written"] == 0
    (change,) = predicted["changes"]
    assert change["traces"] == [short["trace"], long["trace"]]
    random = predicted["mean_in_random_order"]
    for key in ("step_ns", "ssd_bytes_written", "ssd_bytes_read"):
        mean = predicted["mean"][key]
        assert random[key] == pytest.approx(mean + 0.75 * 0.25 * change[key], abs=1)
    said = teraio("simulate", *roomy)
    assert re.search(r"^in random order +100\.0 % .*B$", said, re.MULTILINE)
    assert re.search(
        r"^a change from \S+short.json to \S+long.json and back takes .* more, .* B read$",
        said,
        re.MULTILINE,
    )
    assert re.search(r"the drives last \S+ years .*, \S+ years in random order", said)


def test_changes_between_programs_are_not_known(teraio, roomy):
    def rename_weight(trace):
        trace["tensors"][0]["name"] = "of another program"

    edited(roomy[2], rename_weight)
    said = teraio("simulate", *roomy)
    assert "is not known: the traces have no persistent tensor in common" in said
    assert "in random order" not in said
    predicted = json.loads(teraio("simulate", *roomy, "--json"))
    assert predicted["mean_in_random_order"] is None
    assert "no persistent tensor" in predicted["changes"][0]["unknown"]


def test_plans_of_patterns_are_written_and_simulated(teraio, patterns, both, tmp_path):
    plans = [tmp_path / "short.plan.json", tmp_path / "long.plan.json"]
    said = teraio("plan", *patterns, "--shares", "80,20", "--out", *plans)
    assert re.search(r"^\S+short.json +\d+ B +[0-9.]+ us +\d+ +[0-9.]+ .?s$", said, re.MULTILINE)
    assert [json.loads(plan.read_text())["trace"] for plan in plans] == ["short", "long"]
    simulate = ["simulate", *patterns, "--shares", "80,20"]
    assert said.endswith(teraio(*simulate, "--plan", *plans))
    assert json.loads(teraio(*simulate, "--plan", *plans, "--json")) == both("80,20")


def test_a_timeline_is_written_for_each_pattern(teraio, patterns, open_timeline, tmp_path):
    timelines = [tmp_path / "short.timeline.json", tmp_path / "long.timeline.json"]
    teraio("simulate", *patterns, "--shares", "1,1", "--timeline", *timelines)
    length = "SELECT MAX(ts + dur) FROM slice"
    lengths = [open_timeline(path).first(length) for path in timelines]
    assert lengths[1] > 4 * lengths[0]


def test_policies_are_compared_by_the_mean_step(teraio, patterns, both):
    said = teraio("plan", *patterns, "--shares", "75,25", "--policy", "teraio,zero-offload")
    assert re.match(r"mean step of 75\.0 % \S+short.json, 25\.0 % \S+long.json on small mach", said)
    mean = both("75,25")["mean"]
    step = re.search(r"^teraio +([0-9.]+) us +([0-9.]+) %", said, re.MULTILINE)
    assert float(step.group(1)) == pytest.approx(mean["step_ns"] / 1e3, abs=0.51)
    assert float(step.group(2)) == pytest.approx(100 * mean["fraction_of_ideal"], abs=0.051)
    assert re.search(r"^ideal: memory without limit +15 us +100.0 %", said, re.MULTILINE)
    assert re.search(r"^zero-offload: \S+short.json: ", said, re.MULTILINE)


@pytest.mark.parametrize(
    ("shares", "complaint"),
    [
        ("80", 'expected 2 shares such as 80,20, one per trace, found "80"'),
        ("80,10,10", 'expected 2 shares such as 80,20, one per trace, found "80,10,10"'),
        ("80,", 'expected numbers that are not negative such as 80,20, found ""'),
        ("80,-20", 'expected numbers that are not negative such as 80,20, found "-20"'),
        ("most,some", 'expected numbers that are not negative such as 80,20, found "most"'),
        ("80,inf", 'expected numbers that are not negative such as 80,20, found "inf"'),
        ("0,0", 'expected a finite sum above 0, found "0,0"'),
    ],
)
def test_wrong_shares_are_named(teraio, patterns, shares, complaint):
    said = teraio("simulate", *patterns, "--shares", shares, fails=True)
    assert said == f"teraio: --shares: {complaint}\n"


def test_several_traces_need_shares_and_a_file_each(teraio, patterns, tmp_path):
    said = teraio("simulate", *patterns, fails=True)
    assert 'expected 2 shares such as 80,20, one per trace, found ""' in said
    shared = [*patterns, "--shares", "1,1"]
    for option in ("--plan", "--timeline"):
        said = teraio("simulate", *shared, option, tmp_path / "one.json", fails=True)
        assert said == f"teraio: {option}: expected one file per trace, 2 in all, found 1\n"
    for option in (["--out", "p.json"], ["--out", "p.json", "q.json", "--rounds", "r.csv"]):
        said = teraio("plan", *shared, "--policy", "algorithm1", *option, fails=True)
        assert f"{option[-2]}: expected one file per trace, 2 in all, found 1" in said


def test_a_pattern_that_cannot_fit_is_named(teraio, patterns, tmp_path):
    def enlarge_workspace(trace):
        trace["ops"][2]["workspace_bytes"] = 2000

    edited(patterns[2], enlarge_workspace)
    said = teraio("simulate", *patterns, "--shares", "80,20", fails=True)
    assert said.startswith(f"teraio: {patterns[2]}: op 2 (an_op) needs 2000 bytes at once")


def test_simulate_without_a_plan_executes_what_plan_makes(teraio, small, tmp_path):
    options = [*small, "--device-budget", "1050"]
    teraio("plan", *options, "--effort", "best", "--out", tmp_path / "plan.json")
    executed = teraio("simulate", *options, "--plan", tmp_path / "plan.json")
    assert teraio("simulate", *options, "--effort", "best") == executed


def test_one_share_of_one_trace_is_all_of_it(teraio, small):
    options = [*small, "--device-budget", "1050"]
    assert teraio("simulate", *options, "--shares", "7") == teraio("simulate", *options)
