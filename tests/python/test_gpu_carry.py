"""`make gpu-carry`: what it puts into its folder."""

import importlib
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "gpu_check"
sys.path.append(str(TOOL))

carry = importlib.import_module("carry")
carry_fio = importlib.import_module("carry_fio")


def test_headers_of_one_architecture_stand_beside_the_others():
    path = Path("/usr/include/x86_64-linux-gnu/zconf.h")
    assert carry.place_of(path) == Path("usr/include/zconf.h")
    library = Path("/usr/lib/x86_64-linux-gnu/libz.a")
    assert carry.place_of(library) == Path("usr/lib/x86_64-linux-gnu/libz.a")


def test_a_shared_library_comes_under_every_name_as_a_file(tmp_path, monkeypatch):
    system = tmp_path / "usr" / "lib"
    system.mkdir(parents=True)
    library = system / "libx.so.1.2"
    (tmp_path / "x.c").write_text("int x(void) { return 1; }")
    make = ["gcc", "-shared", "-Wl,-soname,libx.so.1", "-o", library, tmp_path / "x.c"]
    subprocess.run(make, check=True)
    (system / "libx.so").symlink_to(library)  # straight to it, as some packages do
    monkeypatch.setattr(carry, "files_of", lambda package: [system / "libx.so"])
    monkeypatch.setattr(carry, "place_of", lambda path: Path(path.name))
    carry.copy_package("libx-dev", tmp_path / "carried")
    found = sorted((tmp_path / "carried").iterdir())
    assert [path.name for path in found] == ["libx.so", "libx.so.1", "libx.so.1.2"]
    assert all(path.read_bytes() == library.read_bytes() for path in found)
    assert not any(path.is_symlink() for path in found)


def test_a_static_library_is_left_where_a_shared_one_is(tmp_path):
    (tmp_path / "liby.so").touch()
    assert not carry.is_needed(tmp_path / "liby.a")
    assert carry.is_needed(tmp_path / "liby.so")
    assert carry.is_needed(tmp_path / "libgtest.a")


@pytest.mark.skipif(not shutil.which("fio"), reason="missing: fio")
def test_fio_measures_a_drive_without_the_libraries_for_networks(tmp_path):
    carry_fio.carry(tmp_path)
    carried = {path.name for path in (tmp_path / "bin" / "fio-libraries").iterdir()}
    assert any(name.startswith("libaio.") for name in carried)
    command = [
        *(tmp_path / "bin" / "fio", "--name=x", "--rw=write", "--size=1M", "--bs=64k"),
        *(f"--filename={tmp_path}/file", "--output-format=json"),
    ]
    environment = {"PATH": os.defpath, "HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["jobs"][0]["write"]["io_bytes"] == 1 << 20


@pytest.fixture
def bare_machine(tmp_path):
    """A Python with no packages but a plugin that no pytest can use, and programs that succeed."""
    venv.create(tmp_path / "bare", symlinks=True)
    (packages,) = (tmp_path / "bare" / "lib").glob("python3*/site-packages")
    (packages / "hostile.py").write_text("raise RuntimeError('this plugin was loaded')")
    (packages / "hostile-1.0.dist-info").mkdir()
    (packages / "hostile-1.0.dist-info" / "METADATA").write_text("Name: hostile\nVersion: 1.0\n")
    entry_point = "[pytest11]\nhostile = hostile\n"
    (packages / "hostile-1.0.dist-info" / "entry_points.txt").write_text(entry_point)
    (tmp_path / "build" / "bin").mkdir(parents=True)
    for name in ("teraio", "device_tests"):
        program = tmp_path / "build" / "bin" / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    return tmp_path / "bare" / "bin" / "python"


def test_the_checks_run_with_a_python_that_has_no_packages(tmp_path, bare_machine):
    carry.copy_python_packages(tmp_path / "carry" / "python")
    command = [bare_machine, "-E", TOOL / "gpu_check.py", "--out", tmp_path / "out"]
    command += ["--build", tmp_path / "build", "--carry", tmp_path / "carry"]
    command += ["--parts", "checks", "-k", "machine or test_device"]  # the latter in a worker
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    content = json.loads((tmp_path / "out" / "report.json").read_text())
    outcomes = {result["name"]: result["outcome"] for result in content["results"]}
    assert outcomes["test_machine.py::test_gpu_is_found"] == "passed"
    assert outcomes["test_layers.py::test_device"] == "passed"


def test_without_carried_packages_the_missing_one_is_named(tmp_path, bare_machine):
    command = [bare_machine, "-E", TOOL / "gpu_check.py", "--carry", tmp_path / "nothing"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 1
    assert "No module named 'pytest" in done.stderr and "make gpu-carry" in done.stderr
