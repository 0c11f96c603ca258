"""Tables of the sweep: precision, micro-batch and checkpointing under each system."""

from evaluation import cases, tables


def values(results):
    """Returns the text of each value of the page, by its name."""
    return {
        "sweep": table_of(results),
        "ratios_of_mixed": ratios(results, "ours-replay-mixed", ("zero-offload", "zero-infinity")),
        "ratios_of_ssd": ratios(results, "ours-replay-ssd", ("zero-infinity-ssd",)),
    }


def table_of(results):
    """Makes a row per step: tokens per second with unlimited memory and under each system. The best
    step of a system in a precision is bold."""
    best_ns = {
        (system.key, precision): min(_fitting(results, system, precision), default=None)
        for system in cases.SYSTEMS_OF_SWEEP
        for precision in cases.PRECISIONS
    }
    rows = []
    for (precision, micro_batch, checkpointing), case in cases.SWEEP.items():
        if case.key not in results:
            continue
        runs = results[case.key]["systems"]
        fits = next(run for run in runs.values() if "refused" not in run)
        cells = [
            _tokens(runs[system.key], best_ns[system.key, precision])
            for system in cases.SYSTEMS_OF_SWEEP
        ]
        ideal = _tokens_per_second(fits["ideal_ns"])
        rows.append([cases.PRECISIONS[precision], micro_batch, checkpointing, ideal, *cells])
    names = [system.name for system in cases.SYSTEMS_OF_SWEEP]
    header = ["precision", "micro-batch", "checkpointing", "unlimited memory", *names]
    return tables.table(header, rows)


def ratios(results, ours, others):
    """Says how much faster the best step of a system is than that of the best of the others.

    Returns e.g. "1.07 times (fp32), 1.28 times (TF32)"; precisions without a step are left out.
    """
    parts = []
    for precision, name in cases.PRECISIONS.items():
        of_others = [
            step for key in others for step in _fitting(results, cases.system(key), precision)
        ]
        of_ours = _fitting(results, cases.system(ours), precision)
        if of_others and of_ours:
            parts.append(f"{min(of_others) / min(of_ours):.2f} times ({name})")
    return ", ".join(parts)


def _fitting(results, system, precision):
    """Returns the times of the steps that fit under the system, in nanoseconds."""
    return [
        run["step_ns"]
        for (of, *_), case in cases.SWEEP.items()
        if of == precision and case.key in results
        for run in [results[case.key]["systems"][system.key]]
        if "refused" not in run
    ]


def _tokens(run, best_ns):
    if "refused" in run:
        return "does not fit"
    speed = _tokens_per_second(run["step_ns"])
    return f"**{speed}**" if run["step_ns"] == best_ns else speed


def _tokens_per_second(step_ns):
    tokens = next(iter(cases.SWEEP.values())).tokens_per_step  # equal for all
    return f"{tokens / step_ns * 1e9:,.0f}"
