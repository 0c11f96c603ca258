"""plan, simulate and explain: what they print, write and refuse, as other tools see it."""

import gzip
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TRACES = ROOT / "tests" / "data" / "traces"

RUN_FIELDS = {
    "ideal_ns",
    "step_ns",
    "fraction_of_ideal",
    "replay_ns",
    "stall_ns",
    "stall_by_cause",
    "ssd_bytes_written",
    "ssd_bytes_read",
    "host_bytes_written",
    "host_bytes_read",
    "device_peak_bytes",
    "host_peak_bytes",
    "ssd_peak_bytes",
}


def given(trace, hardware):
    return ["--trace", TRACES / f"{trace}.json.gz", "--hardware", TRACES / f"{hardware}.json"]


VIT = given("VIT-1280", "a100_g10")
VIT_ON_DRIVES = [*VIT, "--host-limit", "0"]


def plan_file(folder, *migrations):
    """A plan for `small`; migrations as (tensor, action, trigger, deadline)."""
    fields = ["tensor", "action", "trigger_op", "deadline_op"]
    listed = [dict(zip(fields, m, strict=True)) | {"tier": "ssd"} for m in migrations]
    path = folder / "plan.json"
    path.write_text(json.dumps({"format": "teraio-plan/1", "trace": "small", "migrations": listed}))
    return path


def test_plan_prints_what_it_promises(teraio, tmp_path):
    said = teraio("plan", *VIT, "--recompute", "off", "--out", tmp_path / "plan.json")
    assert re.search(r"fits by moving; the least device memory is [0-9.]+ .B", said)
    assert re.search(r"step [0-9.]+ s, ideal [0-9.]+ s: [0-9.]+ % of ideal", said)
    assert re.search(r"no plan is faster than [0-9.]+ s: at most [0-9.]+ % from the best", said)
    assert re.search(r"^bound by ", said, re.MULTILINE)
    assert re.search(r"[0-9]+ migrations, planned in [0-9.]+ m?s", said)
    assert re.search(r"written +read +peak", said)
    for row in ("device", "host", "SSD"):
        assert re.search(rf"^{row} .*B$", said, re.MULTILINE)


TIGHT_VIT = given("VIT-1280", "a100_g10_half")


def test_plans_with_replays_are_made_simulated_and_explained(teraio, tmp_path):
    plan = tmp_path / "plan.json"
    said = teraio("plan", *TIGHT_VIT, "--recompute", "cheap", "--out", plan)
    assert re.search(r"[0-9.]+ m?s of it for [0-9]+ replays, which make discarded tensors", said)
    assert re.search(r"no plan is faster than [0-9.]+ s, none without replays than [0-9.]+ s", said)
    written = json.loads(plan.read_text())
    assert written["format"] == "teraio-plan/2"
    actions = {m["action"]: set(m) for m in written["migrations"]}
    for action in ("discard", "recompute"):
        assert actions[action] == {"tensor", "action", "trigger_op", "deadline_op"}
    run = json.loads(teraio("simulate", *TIGHT_VIT, "--plan", plan, "--json"))
    assert run["replay_ns"] > 0
    assert run["fraction_of_ideal"] > 0.9
    assert run["step_ns"] == run["ideal_ns"] + run["replay_ns"] + run["stall_ns"]
    said = teraio("explain", *TIGHT_VIT, "--plan", plan)
    assert re.search(r"^no replays ", said, re.MULTILINE)


def test_recompute_all_is_the_plan_without_the_option(teraio, tmp_path):
    said = teraio("plan", *TIGHT_VIT, "--out", tmp_path / "a.json")
    assert "which make discarded tensors" in said
    teraio(
        "plan", *TIGHT_VIT, "--recompute", "all", "--prefer", "speed", "--out", tmp_path / "b.json"
    )
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_plan_is_the_same_each_time_plain_and_compressed(teraio, tmp_path):
    for name in ("a.json", "b.json", "c.json.gz"):
        teraio("plan", *VIT, "--out", tmp_path / name)
    plan = (tmp_path / "a.json").read_bytes()
    assert (tmp_path / "b.json").read_bytes() == plan
    assert gzip.decompress((tmp_path / "c.json.gz").read_bytes()) == plan


def test_simulate_gives_the_fields_of_the_interface(teraio, open_timeline, tmp_path):
    plan, timeline = tmp_path / "plan.json.gz", tmp_path / "timeline.json"
    teraio("plan", *VIT, "--recompute", "off", "--out", plan)
    run = json.loads(teraio("simulate", *VIT, "--plan", plan, "--json", "--timeline", timeline))
    assert set(run) == RUN_FIELDS
    assert run["step_ns"] == run["ideal_ns"] + run["stall_ns"]
    assert sum(run["stall_by_cause"].values()) == run["stall_ns"]
    tables = open_timeline(timeline)
    assert tables.process_names() == ["simulated step of g10-VIT-b1280"]
    stalls = """SELECT string_value, SUM(dur) AS ns FROM thread_slice JOIN args USING (arg_set_id)
                WHERE thread_name = 'stall' AND key = 'args.cause' GROUP BY string_value"""
    by_cause = {cause: ns for cause, ns in run["stall_by_cause"].items() if ns > 0}
    assert dict(tables.rows(stalls)) == by_cause
    moved = """SELECT SUM(int_value) FROM thread_slice JOIN args USING (arg_set_id)
               WHERE thread_name = 'host to device' AND key = 'args.bytes'"""
    assert tables.first(moved) == run["host_bytes_read"]
    assert tables.first("SELECT MAX(value) FROM counter") == run["device_peak_bytes"]


def test_explain_gives_json(teraio, tmp_path):
    teraio("plan", *VIT_ON_DRIVES, "--out", tmp_path / "plan.json")
    given = [*VIT_ON_DRIVES, "--plan", tmp_path / "plan.json"]
    said = json.loads(teraio("explain", *given, "--json"))
    run = json.loads(teraio("simulate", *given, "--json"))
    for field in ("step_ns", "ideal_ns", "stall_ns", "stall_by_cause", "replay_ns"):
        assert said[field] == run[field]
    assert said["bound_ns"] <= said["step_ns"]
    assert said["binding"].startswith("bound by ")
    for shares in (said["phases"], said["stall_by_transfer"]):
        assert sum(share["stall_ns"] for share in shares) == run["stall_ns"]
    assert sum(phase["compute_ns"] for phase in said["phases"]) == run["ideal_ns"]
    steps = {change["what"]: change["step_ns"] for change in said["changes"]}
    assert steps["nothing changed"] == run["step_ns"]
    assert steps["twice the device memory"] < run["step_ns"]

    brief = json.loads(teraio("explain", *given, "--json", "--brief"))
    del said["bound_ns"]
    said["changes"] = [each for each in said["changes"] if each["what"] != "nothing changed"]
    assert brief == said


def test_a_write_budget_is_kept_and_its_least_is_named(teraio, tmp_path):
    plan = ["--recompute", "off", "--out", tmp_path / "plan.json"]
    said = teraio("plan", *VIT_ON_DRIVES, "--write-budget", "1GB", *plan, fails=True)
    assert "a write budget of 1000000000 bytes per iteration is too small" in said
    least = re.search(r"the least that would do is (\d+)", said).group(1)
    said = teraio("plan", *VIT_ON_DRIVES, "--write-budget", least, *plan)
    assert re.search(r"writes [0-9.]+ GB of the [0-9.]+ GB allowed", said)
    checked = ["simulate", *VIT_ON_DRIVES, "--plan", tmp_path / "plan.json", "--json"]
    written = json.loads(teraio(*checked, "--write-budget", least))["ssd_bytes_written"]
    assert written <= int(least)
    refused = teraio(*checked, "--write-budget", str(written - 1), fails=True)
    assert f"write budget: {written} bytes written to the SSDs, {written - 1} allowed" in refused


def test_algorithm_1_shows_its_rounds(teraio, small, tmp_path):
    plan = ["plan", *small, "--device-budget", "1050", "--out", tmp_path / "plan.json"]
    said = teraio(*plan, "--policy", "algorithm1", "--rounds", tmp_path / "rounds.csv")
    assert "of ideal" in said
    header, *rounds = (tmp_path / "rounds.csv").read_text().splitlines()
    assert header == "round,tensor,first_op,next_use_op,tier,benefit_byte_ns,cost_ns"
    assert rounds[0].startswith("0,7,1,4,ssd,")
    assert "expected --policy algorithm1" in teraio(*plan, "--rounds", "r.csv", fails=True)


@pytest.mark.parametrize(
    ("migrations", "expected"),
    [
        (
            [(7, "drop", 1, 2), (7, "prefetch", 3, 4)],
            "drop without copy: migrations[0] (drop of te",
        ),
        (
            [(7, "offload", 1, 2)],
            "7 is offloaded when op 0 (an_op) uses it, since migrations[0] (offload",
        ),
        ([(8, "offload", 1, 2)], "tensor not alive: migrations[0] (offload of tensor 8 at op 1"),
        ([], "device memory: op 1 (an_op) needs 500 bytes more beside 600"),
    ],
)
def test_an_invalid_plan_names_rule_migration_and_op(teraio, small, tmp_path, migrations, expected):
    small = [*small, "--device-budget", "1050"]
    plan = plan_file(tmp_path, *migrations)
    for command in ("simulate", "explain"):
        assert expected in teraio(command, *small, "--plan", plan, fails=True)


def test_policies_are_compared_beside_bound_and_ideal(teraio, tmp_path):
    policies = ["on-demand", "on-demand-lru", "zero-offload", "zero-infinity", "activations-only"]
    policies += ["g10", "algorithm1", "teraio"]
    said = teraio("plan", *VIT, "--policy", ",".join(policies))
    assert said.startswith("g10-VIT-b1280 on ")
    header, _, *rows = said.splitlines()[2:]
    assert re.match(r"policy +step +of ideal +stalled +written +read +host peak +planned", header)
    assert [row.split("  ")[0] for row in rows[: len(policies)]] == policies
    assert re.search(r"^bound: no plan without replays is faster +[0-9.]+ s +", said, re.MULTILINE)
    assert re.search(r"^ideal: memory without limit +[0-9.]+ s +100.0 %$", said, re.MULTILINE)
    plan = tmp_path / "plan.json"
    alone = teraio("plan", *VIT, "--policy", "g10", "--out", plan)
    step, share = re.search(r"^step ([0-9.]+ s), .*: ([0-9.]+) %", alone, re.MULTILINE).groups()
    assert re.search(rf"^g10 +{re.escape(step)} +{re.escape(share)} %", said, re.MULTILINE)


def test_a_comparison_says_that_it_writes_no_plan(teraio, small, tmp_path):
    both = ["plan", *small, "--policy", "teraio,algorithm1"]
    for option in ("--out", "--rounds"):
        said = teraio(*both, option, tmp_path / "file", fails=True)
        assert f"{option}: expected one policy with it, --policy names 2: no plan is" in said
    assert not (tmp_path / "file").exists()
    said = teraio("plan", *small, fails=True)
    assert "--out: expected one file per trace, 1 in all, found 0" in said
    said = teraio("plan", *small, "--policy", "teraio,best", fails=True)
    assert "expected activations-only, algorithm1, g10" in said and 'found "best"' in said


def test_no_output_takes_the_place_of_an_input(teraio, small, tmp_path):
    _, trace, _, hardware = small
    inputs = [Path(trace).read_bytes(), Path(hardware).read_bytes()]
    out = tmp_path / "out.json"
    for command in (
        ["plan", *small, "--out", trace],
        ["plan", *small, "--out", Path(hardware).parent / "." / Path(hardware).name],
        ["plan", *small, "--out", out, "--rounds", out],
        ["simulate", *small, "--timeline", trace],
    ):
        said = teraio(*command, fails=True)
        assert f"{command[-1]} is given twice: expected a file that is neither an input" in said
    assert inputs == [Path(trace).read_bytes(), Path(hardware).read_bytes()]
    assert not out.exists()


@pytest.mark.parametrize("seconds", ["-3", "0", "nan", "inf"])
def test_a_time_limit_is_a_number_above_0(teraio, small, seconds, tmp_path):
    options = ["--time-limit", seconds, "--out", tmp_path / "plan.json"]
    said = teraio("plan", *small, *options, fails=True)
    assert f'--time-limit: expected a number above 0, found "{seconds}"' in said


def test_explain_tells_where_time_goes_and_what_would_help(teraio, tmp_path):
    plan = tmp_path / "plan.json"
    teraio("plan", *VIT_ON_DRIVES, "--recompute", "off", "--out", plan)
    explain = ["explain", *VIT_ON_DRIVES, "--plan", plan]
    said = teraio(*explain, "--effort", "fast", "--write-curve")
    for words in (
        "phase",
        "waiting for",
        "bound by",
        "one more drive",
        "64 GB more host memory",
        "10 % more device memory",
    ):
        assert re.search(rf"^{words} ", said, re.MULTILINE), said
    curve = said[said.index("write budget") :].splitlines()[2:]
    assert len(curve) >= 3


def test_a_time_limit_leaves_the_best_plan_so_far(teraio, tmp_path):
    plan = tmp_path / "plan.json.gz"
    l8 = given("l8", "h100_ssd")
    teraio("plan", *l8, "--effort", "best", "--time-limit", "0.001", "--out", plan)
    run = json.loads(teraio("simulate", *l8, "--plan", plan, "--json"))
    assert run["fraction_of_ideal"] > 0.9
