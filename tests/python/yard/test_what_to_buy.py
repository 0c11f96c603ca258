"""make what-to-buy: the machines, what they cost, and how the page describes a step."""

from evaluation import traces
from evaluation.what_to_buy import offers, page, steps

MACHINES = offers.machines()


def run(step_s=10.0, written=10**12, stall_s=5.0):
    return {
        "step_ns": step_s * 1e9,
        "stall_ns": stall_s * 1e9,
        "ideal_ns": (step_s - stall_s) * 1e9,
        "ssd_bytes_written": written,
        "ssd_bytes_read": written,
        "stall_by_cause": {"memory": stall_s * 1e9, "read": 0, "write": 0},
    }


def test_page_names_what_does_not_fit():
    refused = {"refused": "no tier has room for 9 bytes that leave at op 1: host holds 9, SSD 0"}
    systems = {
        "teraio": run(),
        "zero-offload": refused,
        "zero-infinity": run(step_s=20.0),
    }
    text = page.text_of({"A model": {m.key: systems for m in MACHINES}}, MACHINES)
    assert text.count("| no: host memory is full |") == len(MACHINES)
    assert f"{steps.TOKENS_PER_STEP / 20:,.0f} |" in text
    assert f"| {steps.TOKENS_PER_STEP / 10:,.0f} | 50 % |" in text
    systems["zero-offload"] = {"refused": "op 3 (x) needs 9 bytes, the device budget is 8"}
    text = page.text_of({"A model": {m.key: systems for m in MACHINES}}, MACHINES)
    assert text.count("| no: the device is full |") == len(MACHINES)


def test_each_device_has_the_trace_of_the_one_dry_run(tmp_path):
    step = steps.Step("8B (Llama3)", "b200", checkpointing=False)
    assert step.on_reference.accelerator == steps.REFERENCE
    assert str(step.on_reference.command()[1]) == steps.REFERENCE
    dry_run, path = tmp_path / "dry_run.json.gz", tmp_path / "b200.json.gz"
    op = {"name": "aten::add", "duration_ns": 10**6, "reads": [], "writes": [], "frees": []}
    traces.write({"name": "reference", "ops": [op], "tensors": []}, dry_run)
    steps.change_device(step, dry_run, path)
    trace = traces.read(path)
    assert trace["name"] == "8b-b200"
    assert trace["ops"][0]["duration_ns"] == round(10**6 * 1008 / 7700)


def test_hardware_of_every_machine_has_its_drives_and_host_memory():
    for each in MACHINES:
        hardware = each.hardware()
        assert len(hardware["drives"]) == each.drives
        assert hardware["host"]["capacity_bytes"] < each.host_memory_gb * 10**9
