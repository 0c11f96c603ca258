"""Makes the trace of a case: a dry run of its script, reduced to kernels."""

import gzip
import json
from pathlib import Path

from evaluation import cases, kernels, retime
from evaluation.command import teraio
from teraio import accelerator

PACKAGE = cases.ROOT / "python" / "teraio"
BUILT_PACKAGE = cases.ROOT / "build" / "python" / "teraio"
ACCELERATOR = "h100-nvl"


def dry_run(case, path):
    """Writes the trace of the case to `path`, as gzipped JSON.

    Raises CommandFailed when the dry run fails; `path` is then left as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"partial-{path.name}")
    try:
        teraio("dry-run", "--save-trace", partial, *command_of(case))
        _finish(partial, case)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def rescale(case, fp32, path):
    """Writes the trace of the case in TF32, given the path of the trace of the step in fp32."""
    device = accelerator.load(ACCELERATOR)
    given = retime.Rates.of(device, products="float32", attention="float32")
    wanted = retime.Rates.of(device, products="tensorfloat32", attention="float32")
    write(retime.retimed(read(fp32), given, wanted) | {"name": case.title}, path)


def read(path):
    """Returns the JSON value of a gzipped trace file."""
    return json.loads(gzip.decompress(path.read_bytes()))


def write(trace, path):
    """Writes the JSON value of a trace as a gzipped file, always as the same bytes."""
    path.write_bytes(gzip.compress(json.dumps(trace).encode(), compresslevel=3, mtime=0))


def command_of(case):
    """Returns the arguments of `teraio dry-run` for four steps of the case, as strings."""
    sizes = {
        "--accumulation": case.micro_batches,
        "--micro-batch": case.micro_batch,
        "--sequence-length": case.sequence_length,
        "--steps": 4,
    }
    words = ["--accelerator", ACCELERATOR]
    if case.ranks > 1:
        words += ["--world-size", case.ranks, "--rank", case.rank]
        if case.script != cases.LLAMA_PIPELINE:
            sizes["--tensor-parallel"] = case.ranks
    words += [case.script, *case.options]
    for name, value in sizes.items():
        words += [name, value]
    return [str(word) for word in words]


def dependencies(case):
    """Returns the files that the trace of the case depends on, sorted."""
    return dependencies_of(case.script)


def dependencies_of(script):
    """Returns the files that a dry run of the script depends on, sorted."""
    modules = cases.LLAMA.parent.glob("llama/*.py")
    dry_run_files = PACKAGE.joinpath("dry_run").rglob("*")
    extensions = BUILT_PACKAGE.glob("torch_*/_C.so")
    files = [script, *modules, *dry_run_files, *extensions, Path(kernels.__file__)]
    return sorted(path for path in files if path.is_file() and path.suffix != ".pyc")


def origin(case):
    """Describes the origin of the trace of a case, for the document."""
    script = case.script.relative_to(cases.ROOT)
    kind = "pipeline" if case.script == cases.LLAMA_PIPELINE else "tensor"
    return (
        f"a dry run of `{script} {' '.join(case.options)}` as rank {case.rank} of {case.ranks} "
        f"({kind} parallel)"
    )


def _finish(path, case):
    """Sets the title and the step size of the case in its trace, and keeps only kernels."""
    facts = {"name": case.title, "tokens_per_step": case.tokens_per_step}
    write(kernels.only_kernels(read(path) | facts), path)
