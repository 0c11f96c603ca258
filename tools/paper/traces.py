"""Where the trace of a case comes from. Nothing else knows."""

from dataclasses import dataclass
from pathlib import Path

from paper import cases
from paper.cached import content_key
from paper.command import TERAIO, Refused, teraio

KEPT = cases.ROOT / "tests" / "data" / "traces"
ACCELERATOR = "h100-nvl"
RANKS = 2

_MODELLED = (
    "modelled by hand: the ops of one rank of two (tensor parallel, fp32, AdamW), each timed by a "
    "roofline of an H100 NVL (45 TFLOP/s, 3 TB/s of memory, all-reduce at 200 GB/s)"
)


@dataclass(frozen=True)
class Source:
    """A trace file, and what it rests on, in words for the document."""

    path: Path
    rests_on: str


def trace_of(case, folder):
    """The Source of a case: a dry run of its script where `teraio` has that command, else the trace
    that is kept with the tests; None where there is neither. Dry runs are kept in `folder`.
    """
    refusal = ""
    if has_dry_run():
        try:
            return dry_run_of(case, folder)
        except Refused as refused:
            refusal = f"; a dry run was refused ({refused})"
    kept = KEPT / f"{case.key}.json.gz"
    return Source(kept, _MODELLED + refusal) if kept.exists() else None


def has_dry_run():
    return " dry-run " in teraio("--help")


def dry_run_of(case, folder):
    command = dry_run_command(case)
    sources = sorted(case.script.parent.rglob("*.py"))
    path = folder / f"{case.key}-{content_key([*command, *sources, TERAIO])}.json.gz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f"partial-{path.name}"
        try:
            teraio("dry-run", "--save-trace", partial, *command)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    script = case.script.relative_to(cases.ROOT)
    return Source(
        path,
        f"a dry run of `{script} {' '.join(case.options)}` (rank 0 of {RANKS}, tensor parallel, "
        f"fp32, AdamW; ops timed by the roofline of the accelerator file {ACCELERATOR})",
    )


def dry_run_command(case):
    sizes = {
        "--tensor-parallel": RANKS,
        "--accumulation": case.micro_batches,
        "--micro-batch": case.micro_batch,
        "--sequence-length": case.sequence_length,
        "--steps": 3,
    }
    words = ["--accelerator", ACCELERATOR, "--world-size", RANKS, "--rank", 0, case.script]
    words += case.options
    for name, value in sizes.items():
        words += [name, value]
    return [str(word) for word in words]
