"""fio for a machine that has none, without the libraries that it needs for storage over networks.

Debian's fio is linked to 80 MB of them and does not start when one is missing. Each is replaced by
a library of the same name whose functions end the program: nothing that measures a local drive
calls one.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# What fio uses on a local drive; the C library's parts are the target machine's own.
CARRIED = ("libz.", "libaio.", "libnuma.")
OF_THE_SYSTEM = ("libc.", "libm.", "libdl.", "libpthread.", "librt.", "ld-linux", "linux-vdso")
STARTER = """#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
LD_LIBRARY_PATH="$here/fio-libraries" exec "$here/fio-program" "$@"
"""


def carry(folder):
    """Puts fio into folder/bin; says so and goes on where there is none."""
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
    # It says of every stand-in that this has no version.
    subprocess.run([starter, "--version"], check=True, capture_output=True)


def needed(program):
    """(name, path) of the libraries that the program itself asks for."""
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
