"""The options about the script of a dry run, which several commands have."""

from teraio.errors import Error


def add_script_options(parser):
    """Adds --world-size, --rank, --assume and --steps; see check_script_options()."""
    add = parser.add_argument
    add("--world-size", type=int, default=1, metavar="N", help="number of processes (default: 1)")
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
    """Checks the options of add_script_options().

    Raises:
        teraio.Error: a value cannot be used. The message names the option.
    """
    from teraio.dry_run.value_policy import parse_assumption

    if not 0 <= options.rank < options.world_size:
        raise Error(f"--rank is {options.rank}: expected 0 to {options.world_size - 1}")
    if options.steps is not None and options.steps < 2:
        raise Error(f"--steps is {options.steps}: expected at least 2, because a step must repeat")
    for assumption in options.assume:
        parse_assumption(assumption)
