"""`teraio probe --bench`: what scripts get of it, and what it says of a missing device."""

import json

import pytest

PHASES = ("read", "write", "both")
SMALL = ("--bench", "--seconds", "0.05", "--json")


def test_drives_are_measured_in_every_phase(teraio, tmp_path):
    report = json.loads(teraio("probe", "--ssd", tmp_path, "--size", "96MiB", *SMALL))
    assert [(each["path"], each["phase"]) for each in report["measured"]] == [
        ("ssd", phase) for phase in PHASES
    ]
    assert report["urgent_read"]["behind_writes_ns"] > 0
    assert report["memory_bytes"] < 64 << 20
    assert report["drives"][0]["bytes_written"] > 96 << 20
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_a_device_is_measured_with_every_tier(teraio, tmp_path):
    options = ("--device", "cpu", "--size", "384MiB")
    report = json.loads(teraio("probe", "--ssd", tmp_path, *options, *SMALL))
    paths = [(each["path"], each["phase"]) for each in report["measured"]]
    tiers = [(path, phase) for path in ("host", "ssd") for phase in PHASES]
    assert paths == [("bare", "both"), *tiers]
    for each in report["measured"]:
        # A short phase of both may end before one of them has moved anything.
        read, written = each["read_bytes_per_second"] > 0, each["write_bytes_per_second"] > 0
        possible = {"read": [(True, False)], "write": [(False, True)]}
        both = [(True, True), (True, False), (False, True)]
        assert (read, written) in possible.get(each["phase"], both), each
    assert report["drives"][0]["io_path"]


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "cuda:99"])
def test_a_device_that_is_not_there_is_named(teraio, tmp_path, device):
    said = teraio("probe", "--bench", "--ssd", tmp_path, "--device", device, fails=True)
    assert said.startswith("teraio: ") and "cuda" in said
