"""`make gpu-carry`: what it puts into its folder."""

import importlib
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[3] / "tools" / "gpu_check"
sys.path.append(str(TOOL))

carry = importlib.import_module("carry")
carry_build = importlib.import_module("carry_build")
prebuilt = importlib.import_module("prebuilt")

MACHINE = {
    "sources": "abc",
    "python": "cpython-312-x86_64-linux-gnu",
    "torch": "2.11.0+cu130",
    "glibc": "2.39",
    "cuda_runtime": True,
}


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
    text = (tmp_path / "out" / "report.txt").read_text()
    assert "test_machine.py::test_gpu_is_found PASSED" in text
    assert re.search(r"PASSED \S*test_layers\.py::test_device", text)


def test_without_carried_packages_the_missing_one_is_named(tmp_path, bare_machine):
    command = [bare_machine, "-E", TOOL / "gpu_check.py", "--carry", tmp_path / "nothing"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 1
    assert "No module named 'pytest" in done.stderr and "make gpu-carry" in done.stderr


def test_prebuilt_files_fit_a_machine_with_a_newer_c_library():
    assert prebuilt.misfits(MACHINE | {"glibc": "2.9"}, MACHINE) == []


@pytest.mark.parametrize(
    ("fact", "value", "reason"),
    [
        ("sources", "abd", "they are of other sources than these"),
        ("python", "cpython-313t-x86_64-linux-gnu", "this Python is cpython-313t-x86_64-linux-gnu"),
        ("torch", "2.11.0+cpu", "they are for PyTorch 2.11.0+cu130, which here is 2.11.0+cpu"),
        ("torch", "", "they are for PyTorch 2.11.0+cu130, which here is missing"),
        ("cuda_runtime", False, "PyTorch has no libcudart.so.13 beside it here"),
        ("glibc", "2.4", "they need glibc 2.39, and this is 2.4"),
    ],
)
def test_each_reason_for_which_prebuilt_files_do_not_fit_is_told(fact, value, reason):
    (found,) = prebuilt.misfits(MACHINE, MACHINE | {fact: value})
    assert reason in found


@pytest.mark.parametrize(
    ("name", "content", "is_source"),
    [
        ("src/a.cpp", "int b;", True),
        ("src/b.h", "int a;", True),
        ("tests/engine/CMakeLists.txt", "", True),
        ("tests/gpu/test_a.py", "", False),
        ("tests/data/a.json", "", False),
    ],
)
def test_the_digest_of_the_sources_tells_every_change_of_them(tmp_path, name, content, is_source):
    (tmp_path / "src").mkdir()
    (tmp_path / "CMakeLists.txt").touch()
    (tmp_path / "src" / "a.cpp").write_text("int a;")
    before = prebuilt.digest_of_sources(tmp_path)
    assert before == prebuilt.digest_of_sources(tmp_path)
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(content)
    assert (prebuilt.digest_of_sources(tmp_path) != before) == is_source


def test_what_was_built_is_carried_with_its_libraries_and_no_other(tmp_path):
    build, folder = tmp_path / "build", tmp_path / "prebuilt"
    (tmp_path / "x.c").write_text("int x(void) { return 1; }")
    module = build / "python" / "teraio" / "torch_2_11_cuda13" / "_C.so"
    module.parent.mkdir(parents=True)
    options = ["-Wl,--no-as-needed", "-lz", "-lstdc++"]
    subprocess.run(["gcc", "-shared", "-o", module, tmp_path / "x.c", *options], check=True)
    (build / "python" / "teraio" / "_build_info.py").touch()
    (build / "python" / "teraio" / "__init__.py").symlink_to(tmp_path / "x.c")
    (build / "bin").mkdir()
    shutil.copy(module, build / "bin" / "device_tests")
    shutil.copy(module, build / "bin" / "plan_tests")
    carry_build.collect(build, folder)
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    package = "python/teraio"
    assert found == {"bin/device_tests", "lib/libz.so.1", f"{package}/_build_info.py"} | {
        f"{package}/torch_2_11_cuda13/_C.so"
    }
