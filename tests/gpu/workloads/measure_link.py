"""Measures what the engine moves between a device and its tiers, and what the machine can do.

    measure_link.py --teraio build-gpu/bin/teraio --device cuda --ssd DIR --out link.json

Device and host: `teraio probe --bench` (the engine's host tier, and bare copies between pinned
memory and the device in both directions at once).
Device and drive: the engine's ssd tier with the device's memory, in turns with fio on the same
directory.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

from storage import PHASES, fio


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--teraio", type=Path, required=True, help="the command")
    add("--device", choices=("cpu", "cuda"), default="cuda")
    add("--ssd", type=Path, required=True, help="directory on the drive")
    add("--out", type=Path, required=True)
    add("--rounds", type=int, default=2)
    add("--seconds", type=float, default=0.7, help="of each measurement")
    add("--size", type=int, default=1 << 30, help="bytes to move about in")
    return parser.parse_args(argv)


def bench(options):
    """Runs `teraio probe --bench`.

    Returns bytes per second by (path, phase), both directions together, and the whole report.
    """
    command = [options.teraio, "probe", "--bench", "--json", "--device", options.device]
    command += ["--ssd", options.ssd, "--seconds", options.seconds, "--size", options.size]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"probe --bench ended with {done.returncode}: {done.stderr.strip()}")
    report = json.loads(done.stdout)
    rates = {
        (each["path"], each["phase"]): each["read_bytes_per_second"]
        + each["write_bytes_per_second"]
        for each in report["measured"]
    }
    return rates, report


def fio_rates(options):
    """Returns the rates of fio by (path, phase), and the reason where fio cannot run."""
    if shutil.which("fio") is None:
        return {}, "fio is not installed"
    rates = {}
    for phase in PHASES:
        try:
            rates["fio", phase] = fio(options, options.ssd, phase)[0]
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            return rates, f"fio: {getattr(error, 'stderr', b'') or error}"
    return rates, ""


def rows_of(rounds):
    """Returns a row for each path of the engine, phase and reference: medians over the rounds."""
    rows = []
    for path, reference in (("host", "bare"), ("ssd", "fio")):
        for phase in PHASES:
            pairs = [
                (rates[path, phase], rates[reference, phase])
                for rates in rounds
                if (path, phase) in rates and (reference, phase) in rates
            ]
            if pairs:
                rows.append(row_of(path, phase, reference, pairs))
    return rows


def row_of(path, phase, reference, pairs):
    return {
        "path": path,
        "phase": phase,
        "against": reference,
        "value": median(value for value, _ in pairs),
        "reference": median(theirs for _, theirs in pairs),
        "ratio": median(value / theirs for value, theirs in pairs),
    }


def main(argv=None):
    options = parse_arguments(argv)
    rounds, missing = [], ""
    for number in range(1, options.rounds + 1):
        print(f"round {number}", flush=True)
        rates, report = bench(options)
        theirs, why_not = fio_rates(options)
        rounds.append(rates | theirs)
        missing = missing or why_not
        found = {
            "rows": rows_of(rounds),
            "rounds": [{" ".join(key): value for key, value in r.items()} for r in rounds],
            "no_fio": missing,
            "ssd_io_path": report["drives"][0]["io_path"],
            "gpu_direct_off": report["drives"][0]["gpu_direct_off"],
        }
        options.out.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
