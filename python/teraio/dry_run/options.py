"""The options about the script of a dry run, which several commands have."""

from teraio.errors import Error


def add_script_options(parser):
    """Adds the options about the script; see check_script_options()."""
    add = parser.add_argument
    add(
        "--world-size",
        type=int,
        metavar="N",
        help="number of processes; the script has the environment that torchrun gives one of them "
        "(default: a single process without a launcher)",
    )
    add("--rank", type=int, default=0, metavar="R", help="the process to dry-run (default: 0)")
    add(
        "--assume",
        action="append",
        default=[],
        metavar="[FILE:LINE=]VALUE",
        help="the value that the script gets where it reads a tensor's value",
    )
    add(
        "--steps",
        type=int,
        metavar="N",
        help="execute N optimizer steps, which may differ, and predict the mean step",
    )


def check_script_options(options):
    """Checks the options of add_script_options(), and replaces some by what they stand for.

    `world_size` becomes a number, and `has_launcher` tells whether it was given.

    Raises:
        teraio.Error: a value cannot be used. The message names the option.
    """
    from teraio.dry_run.value_policy import parse_assumption

    options.has_launcher = options.world_size is not None
    options.world_size = options.world_size if options.has_launcher else 1
    if options.world_size < 1:
        raise Error(f"--world-size is {options.world_size}: expected at least 1")
    if not 0 <= options.rank < options.world_size:
        raise Error(f"--rank is {options.rank}: expected 0 to {options.world_size - 1}")
    if options.steps is not None and options.steps < 2:
        raise Error(f"--steps is {options.steps}: expected at least 2, because a step must repeat")
    for assumption in options.assume:
        parse_assumption(assumption)


def dry_run_of(options, accelerator, is_trial=False, **more):
    """Returns the `DryRun` that checked options describe, on an `Accelerator`; see there."""
    from teraio.dry_run.runner import DryRun
    from teraio.dry_run.value_policy import ValuePolicy

    return DryRun(
        accelerator,
        ValuePolicy(options.assume, selects_all=is_trial),
        world_size=options.world_size,
        rank=options.rank,
        steps=options.steps,
        has_launcher=options.has_launcher,
        is_trial=is_trial,
        **more,
    )
