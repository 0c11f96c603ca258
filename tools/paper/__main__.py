"""Writes docs/evaluation.md and its figures: the paper's evaluation, predicted from traces.

PYTHONPATH=tools python -m paper [--fresh]: results are kept under build/paper by what they were
made from (the trace, the machine, the command), so that a second run takes seconds and an
interrupted one goes on.
"""

import argparse
import shutil
import sys
import time
from pathlib import Path

from paper import cases, document, figures, measures
from paper.cached import Cache

BUILD = cases.ROOT / "build" / "paper"
DOCUMENT = cases.ROOT / "docs" / "evaluation.md"
IMAGES = cases.ROOT / "docs" / "images" / "evaluation"


def stages():
    """(case, name, function of a trace's path), in the order in which they are run."""
    for case in cases.CASES:
        yield case, "characterization", measures.characterization
        for system in cases.SYSTEMS:
            yield case, system.key, lambda trace, s=system: measures.performance(trace, s)
        yield case, "bandwidth", measures.against_bandwidth
        yield case, "grid", measures.against_drives_and_host


def ingredients_of(case, name):
    options = next((system.options for system in cases.SYSTEMS if system.key == name), ())
    swept = (measures.BANDWIDTHS, measures.HOST_MEMORIES, measures.SLICES)
    source = cases.trace_of(case).path
    return [name, options, swept, source, cases.HARDWARE, measures.TERAIO]


def gather(cache):
    """The results of all stages, by case and name; systems have a table of their own."""
    results = {case.key: {"systems": {}} for case in cases.CASES}
    systems = {system.key for system in cases.SYSTEMS}
    planned = list(stages())
    for number, (case, name, make) in enumerate(planned, 1):
        print(f"[{number}/{len(planned)}] {case.model}: {name} ...", end="", flush=True)
        began = time.perf_counter()
        trace = cases.trace_of(case).path
        result, kept = cache.get(
            f"{case.key}-{name}", ingredients_of(case, name), lambda m=make, t=trace: m(t)
        )
        print(" kept" if kept else f" {time.perf_counter() - began:.1f} s", flush=True)
        place = results[case.key]["systems"] if name in systems else results[case.key]
        place[name] = result
    return results


def publish(results, folder):
    figures.draw_all(results, folder)
    IMAGES.mkdir(parents=True, exist_ok=True)
    for picture in sorted(folder.glob("*.svg")):
        shutil.copyfile(picture, IMAGES / picture.name)
    DOCUMENT.write_text(document.text_of(results, Path("images") / IMAGES.name))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fresh", action="store_true", help="forget the results that were kept")
    options = parser.parse_args()
    if options.fresh:
        shutil.rmtree(BUILD, ignore_errors=True)
    if not measures.TERAIO.exists():
        print(f"make paper: {measures.TERAIO} is not there: run `make build` first")
        return 1
    results = gather(Cache(BUILD))
    publish(results, BUILD / "figures")
    print(f"wrote {DOCUMENT.relative_to(cases.ROOT)} and {len(list(IMAGES.glob('*.svg')))} figures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
