"""`make gpu-carry`: collects in a folder what `make gpu-check` needs and a bare machine lacks.

    python tools/gpu_check/carry.py gpu-carry

Run it with the Python of the environment, on a machine that has the Debian packages. Then copy the
folder together with the sources. It contains:

    usr/           headers, libraries and CMake packages of PACKAGES, laid out as in /usr
    python/        PYTHON_PACKAGES with their requirements, in the versions of the environment
    prebuilt/      the extension and the programs for the Python of --python (see carry_build.py)
    text.json.gz   the training text of the measured models
"""

import argparse
import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

import carry_build
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples"))

PACKAGES = (
    "libfmt-dev libspdlog-dev nlohmann-json3-dev zlib1g-dev liburing-dev libxxhash-dev"
    " libcli11-dev libgtest-dev libgmock-dev"
).split()
PYTHON_PACKAGES = ("pytest", "pytest-xdist", "pytest-timeout", "pytest-reportlog")
ADVICE = (
    "gpu-check will build on the machine with the GPU, which takes minutes of its time. "
    "GPU_PYTHON= names the Python to build for: that machine's version, with its headers"
)
SUFFIXES = {".h", ".hpp", ".a", ".so", ".cmake"}


def files_of(package):
    """Returns the files of a Debian package that a build needs."""
    listing = subprocess.run(["dpkg", "-L", package], check=True, capture_output=True, text=True)
    paths = [Path(line) for line in listing.stdout.splitlines()]
    return [
        path
        for path in paths
        if path.is_file() and path.suffix in SUFFIXES and "doc" not in path.parts
    ]


def is_needed(path):
    """Rejects static libraries beside shared ones: not all can be linked into the extension."""
    return path.suffix != ".a" or not path.with_suffix(".so").exists()


def place_of(path):
    """Returns the path in the folder, as in /usr, with architecture folders of headers merged."""
    parts = list(path.parts[1:])
    if parts[:2] == ["usr", "include"] and parts[2].endswith("-linux-gnu"):
        del parts[2]
    return Path(*parts)


def names_of(library):
    """Returns the names by which programs and CMake packages find a library."""
    if library.suffix != ".so":
        return {library.name}
    dynamic = carry_build.output("readelf", "--dynamic", "--wide", library)
    sonames = [line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "SONAME" in line]
    return {library.name, library.resolve().name, *sonames}


def copy_package(package, folder):
    for path in filter(is_needed, files_of(package)):
        for name in names_of(path):
            target = folder / place_of(path).with_name(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)  # follows links and keeps the modification time


def with_requirements(names) -> list[importlib.metadata.Distribution]:
    """Returns the installed distributions of these names, and all that they require on this Python.

    Raises PackageNotFoundError when one is missing.
    """
    found, pending = {}, list(names)
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found[name] = importlib.metadata.distribution(name)
        for requirement in map(Requirement, found[name].requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                pending.append(requirement.name)
    return list(found.values())


def copy_python_packages(folder):
    """Copies PYTHON_PACKAGES so that they are importable from `folder`. They are pure Python."""
    for distribution in with_requirements(PYTHON_PACKAGES):
        for file in distribution.files:
            if ".." not in file.parts and file.suffix != ".pyc":  # no scripts in bin/
                target = folder / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(distribution.locate_file(file), target)


def carry(folder, python):
    shutil.rmtree(folder, ignore_errors=True)
    for package in PACKAGES:
        copy_package(package, folder)
    copy_python_packages(folder / "python")
    copy_text(folder / "text.json.gz")
    carry_what_is_built(folder / "prebuilt", python)


def copy_text(path):
    from llama.corpus import python_docs_corpus

    shutil.copyfile(python_docs_corpus(ROOT / "build" / "demo" / "data"), path)


def carry_what_is_built(folder, python):
    """Builds for `python`, or for the default where there is one: without, the machine builds."""
    try:
        carry_build.carry(folder, python or carry_build.DEFAULT_PYTHON)
    except carry_build.CannotBuild as error:
        if python:
            raise
        print(f"gpu-carry: nothing is prebuilt: {error}. {ADVICE}", file=sys.stderr)


def megabytes(folder):
    size_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{folder}: {size_bytes / 1e6:.1f} MB"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", help="the Python to build for, with its headers")
    options = parser.parse_args()
    folder = options.folder.absolute()
    try:
        carry(folder, options.python)
    except (
        OSError,
        subprocess.CalledProcessError,
        importlib.metadata.PackageNotFoundError,
        carry_build.CannotBuild,
    ) as error:
        print(f"gpu-carry: {error}", file=sys.stderr)
        return 1
    print("\n".join(megabytes(path) for path in (folder, folder / "prebuilt") if path.exists()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
