"""Carries fio to a machine without it, without its libraries for network storage.

The fio of Debian links to 80 MB of them and does not start when one is missing. A library of the
same name, whose functions end the program, replaces each one: measuring a local drive calls none of
them.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# The libraries that fio uses on a local drive; the target machine has the C library.
CARRIED = ("libz.", "libaio.", "libnuma.")
OF_THE_SYSTEM = ("libc.", "libm.", "libdl.", "libpthread.", "librt.", "ld-linux", "linux-vdso")
STARTER = """#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
LD_LIBRARY_PATH="$here/fio-libraries" exec "$here/fio-program" "$@"
"""


def carry(folder):
    """Copies fio to folder/bin; prints a message when fio is not installed here."""
    program = shutil.which("fio")
    if program is None:
        print("gpu-carry: no fio here: drives will not be compared with it", file=sys.stderr)
        return
    folder = folder / "bin"
    libraries = folder / "fio-libraries"
    libraries.mkdir(parents=True, exist_ok=True)
    shutil.copy(program, folder / "fio-program")
    wanted = symbols(program, "--undefined-only")
    for name, path in needed(program):
        if name.startswith(CARRIED):
            shutil.copyfile(path, libraries / name)
        elif not name.startswith(OF_THE_SYSTEM):
            make_stand_in(libraries / name, wanted & symbols(path, "--defined-only"))
    starter = folder / "fio"
    starter.write_text(STARTER)
    starter.chmod(0o755)
    # The loader reports that the stand-ins have no version.
    subprocess.run([starter, "--version"], check=True, capture_output=True)


def needed(program):
    """Yields (name, path) of the libraries that the program itself needs."""
    dynamic = output("readelf", "--dynamic", "--wide", program)
    asked = {line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "(NEEDED)" in line}
    for line in output("ldd", program).splitlines():
        name, _, found = line.strip().partition(" => ")
        if name in asked:
            yield name, found.rpartition(" (")[0]


def symbols(path, which):
    lines = output("nm", "--dynamic", which, path).splitlines()
    return {line.split()[-1].partition("@")[0] for line in lines}


def make_stand_in(path, functions):
    code = ["void abort(void);"]
    code += [f"void {name}(void) {{ abort(); }}" for name in sorted(functions)]
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "stand_in.c"
        source.write_text("\n".join(code) + "\n")
        command = ["gcc", "-shared", "-fPIC", "-fno-builtin", "-w", f"-Wl,-soname,{path.name}"]
        subprocess.run([*command, "-o", path, source], check=True)


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
