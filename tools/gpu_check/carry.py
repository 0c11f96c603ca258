"""`make gpu-carry`: what `make gpu-check` needs and a bare machine lacks, in one folder.

    python tools/gpu_check/carry.py gpu-carry

Run it where the Debian packages are installed, then take the folder along with the sources:
    usr/    headers, libraries and CMake packages of PACKAGES, laid out as in /usr
    bin/    fio (see carry_fio.py)
    text.json.gz   what the measured models train on
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import carry_fio

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples"))

PACKAGES = (
    "libfmt-dev libspdlog-dev nlohmann-json3-dev zlib1g-dev liburing-dev libxxhash-dev"
    " libcli11-dev libgtest-dev libgmock-dev"
).split()
SUFFIXES = {".h", ".hpp", ".a", ".so", ".cmake"}


def files_of(package):
    """What the package has installed for a build."""
    listing = subprocess.run(["dpkg", "-L", package], check=True, capture_output=True, text=True)
    paths = [Path(line) for line in listing.stdout.splitlines()]
    return [
        path
        for path in paths
        if path.is_file() and path.suffix in SUFFIXES and "doc" not in path.parts
    ]


def is_needed(path):
    """Static libraries only where no shared one is: not all can become part of the extension."""
    return path.suffix != ".a" or not path.with_suffix(".so").exists()


def place_of(path):
    """Where below the folder: as in /usr, but headers for one architecture beside the others."""
    parts = list(path.parts[1:])
    if parts[:2] == ["usr", "include"] and parts[2].endswith("-linux-gnu"):
        del parts[2]
    return Path(*parts)


def names_of(library):
    """What it is asked for by: of a shared library also what programs and CMake packages say."""
    if library.suffix != ".so":
        return {library.name}
    dynamic = carry_fio.output("readelf", "--dynamic", "--wide", library)
    sonames = [line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "SONAME" in line]
    return {library.name, library.resolve().name, *sonames}


def copy_package(package, folder):
    for path in filter(is_needed, files_of(package)):
        for name in names_of(path):
            target = folder / place_of(path).with_name(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)  # what a link leads to, as old as it is


def carry(folder):
    shutil.rmtree(folder, ignore_errors=True)
    for package in PACKAGES:
        copy_package(package, folder)
    carry_fio.carry(folder)
    copy_text(folder / "text.json.gz")


def copy_text(path):
    from llama.corpus import python_docs_corpus

    shutil.copyfile(python_docs_corpus(ROOT / "build" / "demo" / "data"), path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder.absolute()
    try:
        carry(folder)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"gpu-carry: {error}", file=sys.stderr)
        return 1
    size_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size_bytes / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
