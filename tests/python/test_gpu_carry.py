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


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
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


def test_a_python_without_packages_imports_what_is_carried(tmp_path):
    carry.copy_python_packages(tmp_path / "carried")
    venv.create(tmp_path / "bare", symlinks=True)
    command = [tmp_path / "bare" / "bin" / "python", "-c"]
    command += ["import pytest, pytest_reportlog.plugin, pytest_timeout, xdist.plugin"]
    done = subprocess.run(command, env={"PYTHONPATH": str(tmp_path / "carried")})
    assert done.returncode == 0
