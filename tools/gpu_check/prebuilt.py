"""What `make gpu-carry` has built, so that a machine with a GPU needs no compiler.

The folder is laid out as a build folder, without the Python files. Its shared libraries are found
relative to what needs them, in lib/. MADE_FOR tells what the files fit.
"""

import hashlib
import importlib.util
import json
import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

MADE_FOR = "made_for.json"
TEST_PROGRAMS = ("device_tests", "storage_tests", "engine_tests", "runtime_tests")
PROGRAMS = ("teraio", *TEST_PROGRAMS)
CUDA_RUNTIME = "libcudart.so.13"
SOURCES = ("cmake", "src", "pytorch", "cli", "testing", "tests")
SUFFIXES = {".cpp", ".h", ".cmake", ".in", ".map"}
START_SECONDS = 120


def digest_of_sources(root: Path) -> str:
    """Returns a hash of the names and the contents of all files that a build compiles or reads."""
    files = [path for name in SOURCES for path in (root / name).rglob("*") if is_source(path)]
    digest = hashlib.sha256()
    for path in sorted([root / "CMakeLists.txt", *files]):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def is_source(path: Path) -> bool:
    return path.suffix in SUFFIXES or path.name == "CMakeLists.txt"


def folder_of_torch() -> Path:
    """Returns the folder in which this Python finds PyTorch; without it, one that has nothing."""
    found = importlib.util.find_spec("torch")
    return Path(found.origin).parents[1] if found and found.origin else Path(os.devnull)


def version_of_torch(packages: Path) -> str:
    """Returns the version of the PyTorch in a folder, such as "2.11.0+cu130"; empty without one.

    It does not import PyTorch, which takes seconds.
    """
    file = packages / "torch" / "version.py"
    return str(runpy.run_path(str(file))["__version__"]) if file.exists() else ""


def cuda_runtime(packages: Path) -> Path:
    """Returns where a wheel of PyTorch in this folder has its CUDA runtime."""
    return packages / "nvidia" / "cu13" / "lib" / CUDA_RUNTIME


def glibc() -> str:
    """Returns the version of the C library, such as "2.36"."""
    return os.confstr("CS_GNU_LIBC_VERSION").split()[-1]


def facts_of_this_machine(root: Path, packages: Path) -> dict:
    """Returns what decides whether prebuilt files fit. `root` has the sources."""
    return {
        "sources": digest_of_sources(root),
        "python": sysconfig.get_config_var("SOABI"),
        "torch": version_of_torch(packages),
        "glibc": glibc(),
        "cuda_runtime": cuda_runtime(packages).exists(),
    }


def misfits(made_for: dict, machine: dict) -> list[str]:
    """Returns the reasons for which files that were made for one machine do not fit another."""
    reasons = []
    if made_for["sources"] != machine["sources"]:
        reasons.append("they are of other sources than these")
    if made_for["python"] != machine["python"]:
        reasons.append(f"they are for {made_for['python']}, and this Python is {machine['python']}")
    if made_for["torch"] != machine["torch"]:
        here = f"is {machine['torch']}" if machine["torch"] else "is missing"
        reasons.append(f"they are for PyTorch {made_for['torch']}, which here {here}")
    if not machine["cuda_runtime"]:
        reasons.append(f"PyTorch has no {CUDA_RUNTIME} beside it here")
    if numbers(made_for["glibc"]) > numbers(machine["glibc"]):
        reasons.append(f"they need glibc {made_for['glibc']}, and this is {machine['glibc']}")
    return reasons


def numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def place_where_they_fit(carried: Path, folder: Path, root: Path, packages: Path) -> str:
    """Makes `folder` of the carried files, as a build of `root` would be, when they fit.

    `packages` is the folder that contains PyTorch. Returns an empty text, or why they do not fit;
    there is no `folder` then.
    """
    shutil.rmtree(folder, ignore_errors=True)
    if not (carried / MADE_FOR).exists():
        return f"there are no prebuilt files in {carried}"
    try:
        made_for = json.loads((carried / MADE_FOR).read_text())
        reasons = misfits(made_for, facts_of_this_machine(root, packages))
        if reasons:
            return f"the prebuilt files do not fit: {'; '.join(reasons)}"
        place(carried, folder, root, packages)
    except (OSError, ValueError, KeyError) as error:  # as when a file was lost on the way
        shutil.rmtree(folder, ignore_errors=True)
        return f"the prebuilt files are incomplete: {error}"
    return ""


def place(carried: Path, folder: Path, root: Path, packages: Path) -> None:
    """Completes a copy of the files with the Python files of the sources and PyTorch's runtime."""
    shutil.copytree(carried, folder)
    for program in PROGRAMS:  # a copy from another machine may have lost its mode
        (folder / "bin" / program).chmod(0o755)
    package = Path("python", "teraio")
    for path in (root / package).iterdir():
        if path.name != "__pycache__":
            (folder / package / path.name).symlink_to(path)
    figures = Path("python", "teraio_figures")
    (folder / figures).symlink_to(root / figures)
    (folder / "lib" / CUDA_RUNTIME).symlink_to(cuda_runtime(packages))


def failure_to_start(folder: Path, environment: dict[str, str]) -> str:
    """Starts each program of a build folder, and loads its extension with these variables.

    Returns what went wrong first, in one line, or an empty text.
    """
    tests = [[folder / "bin" / name, "--gtest_list_tests"] for name in TEST_PROGRAMS]
    loading = [sys.executable, "-c", "import teraio.core, teraio.units"]
    for command in [*tests, [folder / "bin" / "teraio", "--version"], loading]:
        failure = failure_of([str(word) for word in command], os.environ | environment)
        if failure:
            return failure
    return ""


def failure_of(command: list[str], environment: dict[str, str]) -> str:
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=START_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    last = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
    return f"{Path(command[0]).name}: {last}"
