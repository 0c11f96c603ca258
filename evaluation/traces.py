"""Where the trace of a case comes from. Nothing else knows."""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

from evaluation import cases
from evaluation.cached import content_key
from evaluation.command import teraio
from evaluation.kernels import only_kernels

PACKAGE = cases.ROOT / "python" / "teraio"
EXTENSION = cases.ROOT / "build" / "python" / "teraio" / "_C.so"
ACCELERATOR = "h100-nvl"
RANKS = 2


@dataclass(frozen=True)
class Source:
    """A trace file, and what it rests on, in words for the document."""

    path: Path
    rests_on: str


def trace_of(case, folder):
    """The Source of a case: a dry run of its script, kept in `folder`. Raises Refused."""
    command = dry_run_command(case)
    path = folder / f"{case.key}-{content_key([*command, *ingredients(case)])}.json.gz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f"partial-{path.name}"
        try:
            teraio("dry-run", "--save-trace", partial, *command)
            finish(partial, case)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    return Source(path, rests_on(case))


def ingredients(case):
    """The files that a dry run's outcome depends on."""
    modules = cases.LLAMA.parent.glob("llama/*.py")
    dry_run = [path for path in PACKAGE.joinpath("dry_run").rglob("*") if path.suffix != ".pyc"]
    kernels = Path(only_kernels.__code__.co_filename)
    files = [case.script, *modules, kernels, *dry_run, EXTENSION]
    return sorted(path for path in files if path.is_file())


def finish(path, case):
    """Names the trace after its case, and makes it what is planned."""
    trace = json.loads(gzip.decompress(path.read_bytes()))
    trace |= {"name": f"{case.model}, {case.batch}", "tokens_per_step": case.tokens_per_step}
    text = json.dumps(only_kernels(trace))
    path.write_bytes(gzip.compress(text.encode(), compresslevel=3, mtime=0))


def rests_on(case):
    """In words: what was run, as what."""
    script = case.script.relative_to(cases.ROOT)
    kind = "pipeline" if case.script == cases.LLAMA_PIPELINE else "tensor"
    return (
        f"a dry run of `{script} {' '.join(case.options)}` as rank {case.rank} of {RANKS} "
        f"({kind} parallel)"
    )


def dry_run_command(case):
    sizes = {
        "--accumulation": case.micro_batches,
        "--micro-batch": case.micro_batch,
        "--sequence-length": case.sequence_length,
        "--steps": 4,
    }
    if case.script != cases.LLAMA_PIPELINE:
        sizes["--tensor-parallel"] = RANKS
    words = ["--accelerator", ACCELERATOR, "--world-size", RANKS, "--rank", case.rank, case.script]
    words += case.options
    for name, value in sizes.items():
        words += [name, value]
    return [str(word) for word in words]
