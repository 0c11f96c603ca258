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
from paper.command import TERAIO
from paper.traces import trace_of

BUILD = cases.ROOT / "build" / "paper"
DOCUMENT = cases.ROOT / "docs" / "evaluation.md"
IMAGES = cases.ROOT / "docs" / "images" / "evaluation"


def stages():
    """(name, function of a trace's path, what it depends on beside the trace) of each case."""
    yield "characterization", measures.characterization, ()
    for system in cases.SYSTEMS:
        measure = lambda trace, system=system: measures.performance(trace, system)  # noqa: E731
        yield system.key, measure, (*system.options, measures.SLICES)
    yield "bandwidth", measures.against_bandwidth, (measures.BANDWIDTHS,)
    yield "grid", measures.against_drives_and_host, (measures.HOST_MEMORIES,)


def gather(cache):
    """The results of all stages by case, of the cases that there is a trace of."""
    results = {}
    for number, case in enumerate(cases.CASES, 1):
        print(f"[{number}/{len(cases.CASES)}] {case.model}: trace ...", end="", flush=True)
        source = trace_of(case, BUILD / "traces")
        print(f" {source.path.name}" if source else " none", flush=True)
        if source:
            results[case.key] = results_of(case, source, cache)
    return results


def results_of(case, source, cache):
    """What the stages make of one trace; systems have a table of their own."""
    systems = {system.key for system in cases.SYSTEMS}
    results = {"rests_on": source.rests_on, "systems": {}}
    for name, measure, options in stages():
        print(f"    {name} ...", end="", flush=True)
        began = time.perf_counter()
        ingredients = [name, *options, source.path, cases.HARDWARE, TERAIO]
        result, kept = cache.get(
            f"{case.key}-{name}", ingredients, lambda m=measure: m(source.path)
        )
        print(" kept" if kept else f" {time.perf_counter() - began:.1f} s", flush=True)
        place = results["systems"] if name in systems else results
        place[name] = result
    return results


def publish(results, folder):
    figures.draw_all(results, folder)
    IMAGES.mkdir(parents=True, exist_ok=True)
    for picture in sorted(folder.glob("*.png")):
        shutil.copyfile(picture, IMAGES / picture.name)
    DOCUMENT.write_text(document.text_of(results, Path("images") / IMAGES.name))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fresh", action="store_true", help="forget the results that were kept")
    options = parser.parse_args()
    if options.fresh:
        shutil.rmtree(BUILD, ignore_errors=True)
    if not TERAIO.exists():
        print(f"make paper: {TERAIO} is not there: run `make build` first", file=sys.stderr)
        return 1
    results = gather(Cache(BUILD / "results"))
    publish(results, BUILD / "figures")
    print(f"wrote {DOCUMENT.relative_to(cases.ROOT)} and {len(list(IMAGES.glob('*.png')))} figures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
