"""Builds what gpu-check runs, for the Python of a machine without a compiler.

PyTorch's headers, and the names in its libraries, are the same for every Python: those of the
environment serve, whatever its Python. The files need the C library of this system or a newer one.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

from prebuilt import (
    CUDA_RUNTIME,
    MADE_FOR,
    PROGRAMS,
    cuda_runtime,
    digest_of_sources,
    folder_of_torch,
    glibc,
    version_of_torch,
)

ROOT = Path(__file__).parents[2]
DEFAULT_PYTHON = "python3.12"
TARGETS = ("teraio_pytorch", *PROGRAMS)
# A program, the module beside the package, and that in a folder of the package: each finds lib/.
LIBRARY_PATH = "$ORIGIN/../lib;$ORIGIN/../../lib;$ORIGIN/../../../lib"
CARRIED = (
    *(f"bin/{program}" for program in PROGRAMS),
    *("python/teraio/_*", "python/teraio/torch_*/*.so", "testing/fake_cufile/*/*.so.0"),
)
OF_THE_SYSTEM = ("libc.", "libm.", "libdl.", "libpthread.", "librt.", "ld-linux", "linux-vdso")
OF_THE_COMPILER = ("libstdc++.", "libgcc_s.")
OF_TORCH = ("libtorch", "libc10", "libcudart.")

_FACTS = """
import json, os, sys, sysconfig
header = os.path.join(sysconfig.get_paths()["include"], "Python.h")
is_complete = os.path.exists(header)
print(json.dumps([sysconfig.get_config_var("SOABI") if is_complete else None, sys.executable]))
"""


class CannotBuild(Exception):
    """Something that the build needs is missing. The text names it."""


def carry(folder: Path, python: str) -> None:
    """Builds for `python`, a name or path, and fills `folder`.

    Raises CannotBuild, and CalledProcessError when a program fails, which has said why.
    """
    soabi, executable = facts_of(python)
    packages = folder_of_torch()
    if not cuda_runtime(packages).exists():
        version = version_of_torch(packages)
        raise CannotBuild(f"PyTorch {version} in {packages} has no {CUDA_RUNTIME} beside it")
    build = ROOT / f"build-carry-{soabi}"
    print(f"Building in {build} for {executable}")
    sources = digest_of_sources(ROOT)
    make(build, executable, packages)
    collect(build, folder)
    made_for = {"sources": sources, "python": soabi, "torch": version_of_torch(packages)}
    (folder / MADE_FOR).write_text(json.dumps(made_for | {"glibc": glibc()}, indent=1) + "\n")


def facts_of(python: str) -> tuple[str, str]:
    """Returns the name of the binary interface of a Python, and its path."""
    try:
        done = subprocess.run([python, "-c", _FACTS], capture_output=True, text=True)
    except OSError as error:
        raise CannotBuild(f"{python} cannot be started: {error.strerror}") from None
    if done.returncode != 0:
        raise CannotBuild(f"{python}: {(done.stderr.strip() or 'it fails').splitlines()[0]}")
    soabi, executable = json.loads(done.stdout)
    if soabi is None:
        raise CannotBuild(f"{executable} has no Python.h: install its package of headers")
    return soabi, executable


def make(build: Path, python: str, packages: Path) -> None:
    """Runs CMake and Ninja. They find the environment's PyTorch from another Python."""
    environment = os.environ | {"PYTHONPATH": str(packages)}
    options = [f"-DPython_EXECUTABLE={python}", "-DTERAIO_CUDA=ON"]
    options += ["-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON", f"-DCMAKE_INSTALL_RPATH={LIBRARY_PATH}"]
    configure = ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "--log-level=WARNING", *options]
    subprocess.run(configure, check=True, env=environment)
    subprocess.run(["cmake", "--build", build, "--target", *TARGETS], check=True, env=environment)


def collect(build: Path, folder: Path) -> None:
    """Copies what was built, stripped, and the libraries that it needs."""
    files = [path for pattern in CARRIED for path in build.glob(pattern) if is_carried(path)]
    libraries = {}
    for file in files:
        target = folder / file.relative_to(build)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target)
        if file.suffix != ".py":
            subprocess.run(["strip", "--strip-unneeded", target], check=True)
            libraries |= libraries_of(file)
    (folder / "lib").mkdir()
    for name, path in libraries.items():
        shutil.copyfile(path, folder / "lib" / name)


def is_carried(path: Path) -> bool:
    """Leaves out the links to Python files of the sources, and folders."""
    return path.is_file() and not path.is_symlink()


def libraries_of(file: Path) -> dict[str, str]:
    """Returns the paths, by name, of the libraries of Debian packages that a file needs."""
    found = {}
    for name, path in needed(file):
        if name.startswith((*OF_THE_SYSTEM, *OF_THE_COMPILER, *OF_TORCH)):
            continue
        found |= {name: path} | libraries_of(Path(path))
    return found


def needed(file):
    """Yields (name, path) of the libraries that the file itself needs."""
    dynamic = output("readelf", "--dynamic", "--wide", file)
    asked = {line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "(NEEDED)" in line}
    for line in output("ldd", file).splitlines():
        name, _, found = line.strip().partition(" => ")
        if name in asked:
            yield name, found.rpartition(" (")[0]


def output(*command) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
