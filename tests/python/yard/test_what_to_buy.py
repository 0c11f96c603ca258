"""make what-to-buy: the machines, what they cost, and how the page describes a step."""

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
