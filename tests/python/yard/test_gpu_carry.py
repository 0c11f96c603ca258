"""`make gpu-carry`: what it puts into its folder."""

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).resolve().parents[3] / "tools" / "gpu_check"
sys.path.append(str(TOOL))

carry = importlib.import_module("carry")
carry_build = importlib.import_module("carry_build")
prebuilt = importlib.import_module("prebuilt")


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
