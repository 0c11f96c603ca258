"""Builds the extension, the command and the tests for the Python and the GPU of this machine."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import programs
import pytest
from workspace import ROOT

TARGETS = ("teraio_pytorch", "teraio", "device_tests", "storage_tests", "engine_tests")


@pytest.mark.timeout(0)  # nothing else can be done without it
def test_build(workspace):
    configure = ["cmake", "-S", ROOT, "-B", workspace.build, "-G", "Ninja"]
    configure += [f"-DPython_EXECUTABLE={sys.executable}", "-DTERAIO_BUILD_BENCHMARKS=OFF"]
    configure += [f"-DTERAIO_CUDA={'ON' if workspace.device == 'cuda' else 'AUTO'}"]
    configure += toolkit_options()
    if workspace.carry.is_dir():
        configure += [f"-DCMAKE_PREFIX_PATH={workspace.carry / 'usr'}"]
    programs.run(configure)
    programs.run(["cmake", "--build", workspace.build, "--target", *TARGETS])


def toolkit_options() -> list[str]:
    """CMake's options for a machine whose nvcc came without the CUDA runtime.

    PyTorch's wheels bring that library.
    """
    nvcc = shutil.which("nvcc", path=f"{os.environ['PATH']}:/usr/local/cuda/bin")
    if nvcc is None:
        return []
    toolkit = Path(nvcc).resolve().parents[1]
    folders = ("lib64", "lib", "targets/x86_64-linux/lib")
    if any((toolkit / folder / "libcudart_static.a").exists() for folder in folders):
        return []
    wheels = importlib.util.find_spec("nvidia")
    found = [
        library.parents[1]
        for place in (wheels.submodule_search_locations if wheels else [])
        for library in Path(place).glob("*/lib/libcudart_static.a")
    ]
    if not found:
        return []
    folder = found[-1]
    return [f"-DCMAKE_LIBRARY_PATH={folder / 'lib'}", f"-DCMAKE_INCLUDE_PATH={folder / 'include'}"]
