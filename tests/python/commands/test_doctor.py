"""`teraio doctor`: what people and scripts get of it."""

import json
from pathlib import Path

import pytest

TERAIO = Path(__file__).parents[3] / "build" / "bin" / "teraio"


@pytest.fixture
def teraio(execute):
    return lambda *words: execute(TERAIO, *words)


def test_doctor_describes_a_usable_directory(teraio, tmp_path):
    outcome = teraio("doctor", "--ssd", tmp_path, "--json")
    assert outcome.code == 0, outcome
    (directory,) = json.loads(outcome.out)["directories"]
    assert directory["is_usable"] is True
    assert directory["free_bytes"] > 0
    assert directory["gpu_direct_mode"] == "off" or not directory["gpu_direct_problem"]
    assert {"file_system", "has_direct_io", "has_io_uring"} <= directory.keys()
    assert directory["has_registered_buffers"] or directory["registered_buffers_problem"]
    assert list(tmp_path.iterdir()) == []


def test_doctor_takes_directories_with_and_without_the_option(teraio, tmp_path):
    places = [tmp_path / name for name in ("a", "b", "c")]
    for place in places:
        place.mkdir()
    a, b, c = places
    for words in ([a, b, c], ["--ssd", a, "--ssd", b, "--ssd", c], [a, "--ssd", b, c]):
        shown = json.loads(teraio("doctor", "--json", *words).out)["directories"]
        assert sorted(each["directory"] for each in shown) == [str(place) for place in places]


def test_doctor_tells_where_host_memory_lies(teraio, tmp_path):
    node = tmp_path / "sys/devices/system/node"
    node.mkdir(parents=True)
    (node / "has_memory").write_text("0-1\n")
    on_drive = tmp_path / "drive"
    on_drive.mkdir()
    options = ["--ssd", on_drive, "--sysfs", tmp_path / "sys"]
    assert json.loads(teraio("doctor", "--json", *options).out)["numa_nodes"] == [0, 1]
    said = teraio("doctor", *options).out
    assert "2 with memory (0, 1)" in said
    assert "transparent: no; reserved: 0 free" in said


def test_doctor_fails_for_scripts_and_still_tells_of_the_others(teraio, tmp_path):
    outcome = teraio("doctor", "--ssd", tmp_path / "absent", "--ssd", tmp_path)
    assert outcome.code == 1
    assert "NO: ssd directory" in outcome.out and "expected an existing directory" in outcome.out
    assert "GPUDirect Storage" in outcome.out


def verdict(said):
    return said[said.index("\nVerdict: ") + 1 :].splitlines()


def test_doctor_ends_with_a_verdict_and_the_next_command(teraio, tmp_path):
    lines = verdict(teraio("doctor", tmp_path).out)
    assert lines[0] == "Verdict: The directory can hold tensors."
    assert lines[-1] == f"Next: teraio suggest --ssd {tmp_path} train.py"
    places = [tmp_path / name for name in ("a", "b", "absent")]
    for place in places[:2]:
        place.mkdir()
    lines = verdict(teraio("doctor", *places).out)
    assert lines[0] == "Verdict: 2 of 3 directories can hold tensors."
    assert any("2 directories share the drive" in line for line in lines)
    assert f"--ssd {places[0]} --ssd {places[1]} train.py" in lines[-1]


def test_doctor_asks_for_another_directory_where_none_can_be_used(teraio):
    assert verdict(teraio("doctor", "/dev/shm").out) == [
        "Verdict: No directory can hold tensors.",
        "Next: teraio doctor --ssd DIR, with a directory on a drive",
    ]


def test_doctor_names_a_bad_value(teraio, tmp_path):
    outcome = teraio("doctor", "--ssd", tmp_path, "--rated-writes", "much")
    assert outcome.code == 2
    assert "much" in outcome.err
