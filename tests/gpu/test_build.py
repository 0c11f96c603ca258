"""Makes the extension, the command and the tests for the Python and the GPU of this machine.

What `make gpu-carry` has built is used where it fits; otherwise they are built here.
"""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import prebuilt
import programs
import pytest
from workspace import ROOT


@pytest.mark.timeout(0)  # nothing else can be done without it
def test_build(workspace, record_property):
    reason = reason_to_build(workspace)
    record_property("note", f"built here: {reason}" if reason else "prebuilt")
    if reason:
        print(reason)
        build(workspace)


def reason_to_build(workspace) -> str:
    """Lets the checks use the prebuilt files. Returns why they cannot, or an empty text."""
    folder = workspace.prebuilt
    carried = workspace.carry / "prebuilt"
    reason = prebuilt.place_where_they_fit(carried, folder, ROOT, prebuilt.folder_of_torch())
    if reason:
        return reason
    failure = prebuilt.failure_to_start(folder, workspace.environment)
    if failure:
        shutil.rmtree(folder)
        return f"the prebuilt files do not start here: {failure}"
    return ""


def build(workspace) -> None:
    configure = ["cmake", "-S", ROOT, "-B", workspace.build, "-G", "Ninja"]
    configure += [f"-DPython_EXECUTABLE={sys.executable}"]
    configure += [f"-DTERAIO_CUDA={'ON' if workspace.device == 'cuda' else 'AUTO'}"]
    configure += toolkit_options()
    if workspace.carry.is_dir():
        configure += [f"-DCMAKE_PREFIX_PATH={workspace.carry / 'usr'}"]
    programs.run(configure)
    targets = ("teraio_pytorch", *prebuilt.PROGRAMS)
    programs.run(["cmake", "--build", workspace.build, "--target", *targets])


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
