"""Writes docs/evaluation.md and its figures: the paper's evaluation, predicted from traces.

PYTHONPATH=. python -m evaluation [--fresh]: traces and results are kept under build/paper by what
they were made from (the script, the trace, the machine, the command), so that a second run takes
seconds and an interrupted one goes on.
"""

import argparse
import functools
import shutil
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from evaluation import analyses, cases, document, figures, traces
from evaluation.cached import Cache
from evaluation.command import TERAIO, Refused

BUILD = cases.ROOT / "build" / "paper"
DOCUMENT = cases.ROOT / "docs" / "evaluation.md"
IMAGES = cases.ROOT / "docs" / "images" / "evaluation"
WORKERS = 2


@dataclass(frozen=True)
class Job:
    """Something that a case's trace is asked; `depends_on` is what the answer depends on too."""

    case: cases.Case
    name: str
    measure: object
    depends_on: tuple = ()

    def run(self, trace, cache):
        """(the answer, whether it was kept, seconds)"""
        began = time.perf_counter()
        ingredients = [self.name, *self.depends_on, trace, cases.HARDWARE, TERAIO]
        make = functools.partial(self.measure, trace)
        result, kept = cache.get(f"{self.case.key}-{self.name}", ingredients, make)
        return result, kept, time.perf_counter() - began


def jobs_of(case):
    """Of a case that every figure has, of one that Figure 7 has, of one that Figure 1 has."""
    if case in cases.CASES or case in cases.STAGES:
        yield Job(case, "characterization", analyses.characterization)
    else:
        yield Job(case, "characterization", analyses.memory, ("memory alone",))
    if case in cases.STAGES:
        return
    is_everywhere = case in cases.CASES
    measure = analyses.performance if is_everywhere else analyses.step
    for system in cases.SYSTEMS if is_everywhere else cases.SYSTEMS_OF_SETTINGS:
        of_system = functools.partial(measure, system=system)
        yield Job(case, system.key, of_system, (*system.options, analyses.SLICES))
    if is_everywhere:
        yield Job(case, "bandwidth", analyses.against_bandwidth, (analyses.BANDWIDTHS,))
        yield Job(case, "grid", analyses.against_drives_and_host, (analyses.HOST_MEMORIES,))


def gather(wanted, folder):
    """The results of all jobs by case. Raises Refused when a dry run fails."""
    cache = Cache(folder / "results")
    with ProcessPoolExecutor(WORKERS) as pool:
        sources = traces_of(wanted, folder / "traces", pool)
        return results_of(sources, cache, pool)


def traces_of(wanted, folder, pool):
    """(case, Source) of each case, in order. Raises Refused, after all others, when one fails."""
    futures = {pool.submit(traces.trace_of, case, folder): case for case in wanted}
    sources, failed = {}, []
    for number, future in enumerate(as_completed(futures), 1):
        case = futures[future]
        step = f"{case.model}, {case.batch}"
        try:
            sources[case.key] = future.result()
            said = sources[case.key].path.name
        except Refused as refused:
            failed.append(step)
            said = f"failed: {refused}"
        print(f"trace {number}/{len(futures)}  {step}: {said}", flush=True)
    if failed:
        raise Refused(f"{len(failed)} of {len(wanted)} dry runs failed: {'; '.join(failed)}")
    return [(case, sources[case.key]) for case in wanted]


def results_of(sources, cache, pool):
    """What the jobs make of the traces; systems have a table of their own."""
    systems = {system.key for system in cases.SYSTEMS}
    results = {case.key: {"rests_on": source.rests_on, "systems": {}} for case, source in sources}
    futures = {
        pool.submit(job.run, source.path, cache): job
        for case, source in sources
        for job in jobs_of(case)
    }
    for number, future in enumerate(as_completed(futures), 1):
        job = futures[future]
        result, kept, seconds = future.result()
        of_case = results[job.case.key]
        (of_case["systems"] if job.name in systems else of_case)[job.name] = result
        took = "kept" if kept else f"{seconds:.1f} s"
        said = f"{job.case.model}, {job.case.batch}: {job.name}  {took}"
        print(f"{number}/{len(futures)}  {said}", flush=True)
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
    try:
        results = gather([*cases.CASES, *cases.settings(), *cases.STAGES], BUILD)
    except Refused as refused:
        print(f"make paper: {refused}; what was made is kept", file=sys.stderr)
        return 1
    publish(results, BUILD / "figures")
    print(f"wrote {DOCUMENT.relative_to(cases.ROOT)} and {len(list(IMAGES.glob('*.png')))} figures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
