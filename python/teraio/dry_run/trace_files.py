"""The trace files of a dry run, one per pattern, and the options that name them to commands."""


def save_traces(run, patterns, path):
    """Writes the trace of each pattern of a `DryRun` and returns the paths.

    Args:
        run: the `DryRun`.
        patterns: the `Pattern`s of its log.
        path: a `pathlib.Path`. Several traces go to numbered names: job-1.json, job-2.json ...
    """
    stem, dot, suffix = path.name.partition(".json")
    paths = [path]
    if len(patterns) > 1:
        paths = [path.with_name(f"{stem}-{n}{dot}{suffix}") for n in range(1, len(patterns) + 1)]
    for pattern, target in zip(patterns, paths, strict=True):
        run.save_trace(pattern, target)
    return paths


def trace_options(traces, patterns):
    """Returns the words that name the traces and their shares to `teraio plan`."""
    shares = ",".join(str(pattern.step_count) for pattern in patterns)
    return ["--trace", *traces, "--shares", shares]
