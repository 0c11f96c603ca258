"""Tables of the sweep: precision, micro-batch and checkpointing under each system."""

from evaluation import cases, tables


def values(results):
    """Returns the text of each value of the page, by its name."""
    return {
        "sweep": table_of(results),
        "best_of_sweep": best(results),
        "ratios_of_mixed": ratios(results, "ours-replay-mixed", ("zero-offload", "zero-infinity")),
        "ratios_of_ssd": ratios(results, "ours-replay-ssd", ("zero-infinity-ssd",)),
    }


def table_of(results):
    """Makes a row per step: tokens per second with unlimited memory and under each system."""
    rows = []
    for (precision, micro_batch, checkpointing), case in cases.SWEEP.items():
        if case.key not in results:
            continue
        runs = results[case.key]["systems"]
        fits = next(run for run in runs.values() if "refused" not in run)
        cells = [_tokens(runs[system.key]) for system in cases.SYSTEMS_OF_SWEEP]
        ideal = _tokens_per_second(fits["ideal_ns"])
        rows.append([cases.PRECISIONS[precision], micro_batch, checkpointing, ideal, *cells])
    names = [system.name for system in cases.SYSTEMS_OF_SWEEP]
    header = ["precision", "micro-batch", "checkpointing", "unlimited memory", *names]
    return tables.table(header, rows)


def best(results):
    """Makes a row per system: its fastest step in each precision, and which that is."""
    rows = []
    for system in cases.SYSTEMS_OF_SWEEP:
        cells = [_best_cell(results, system, precision) for precision in cases.PRECISIONS]
        rows.append([system.name, *cells])
    return tables.table(["system", *cases.PRECISIONS.values()], rows)


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
            parts.append(f"{min(of_others)[0] / min(of_ours)[0]:.2f} times ({name})")
    return ", ".join(parts)


def _best_cell(results, system, precision):
    fitting = _fitting(results, system, precision)
    if not fitting:
        return "does not fit"
    step_ns, micro_batch, checkpointing = min(fitting)
    speed = _tokens_per_second(step_ns)
    return f"{speed} (micro-batch {micro_batch}, {checkpointing})"


def _fitting(results, system, precision):
    """Returns (step time, micro-batch, checkpointing) of the steps that fit under the system."""
    return [
        (run["step_ns"], micro_batch, checkpointing)
        for (of, micro_batch, checkpointing), case in cases.SWEEP.items()
        if of == precision and case.key in results
        for run in [results[case.key]["systems"][system.key]]
        if "refused" not in run
    ]


def _tokens(run):
    return "does not fit" if "refused" in run else _tokens_per_second(run["step_ns"])


def _tokens_per_second(step_ns):
    tokens = next(iter(cases.SWEEP.values())).tokens_per_step  # equal for all
    return f"{tokens / step_ns * 1e9:,.0f}"
