"""`teraio run`: runs an unchanged training script within a device budget.

Wrong input ends the command with one line on stderr and exit code 2, if possible before torch is
imported. Once the script runs, the exit code and the traceback are those of the script.
"""

import os
import sys
from pathlib import Path

from teraio.arguments import (
    RECOMPUTE_CHOICES,
    Parser,
    check_json,
    check_limits,
    check_output,
    check_seconds,
    check_size,
    program_of,
    program_words,
)
from teraio.directories import directories_of_ranks
from teraio.errors import Error
from teraio.ranks import PLACEHOLDER, find_ranks
from teraio.timelines import DEFAULT_STEPS, parse_steps
from teraio.units import parse_write_budget

_EPILOG = """\
Sizes are written 1.5GB, 800MiB, 1200000000; the budget also as 40% (of the device's memory).
All words after the script's name are passed to the script.

Under torchrun (torchrun --nproc-per-node 2 -m teraio run ...) each process is a rank with a device
of its own. --host-limit, --ssd-capacity and --write-budget are those of the machine. Every rank
gets an equal share of them, and of each drive that several ranks use. {local_rank} in the name of a
directory or file stands for the rank's number: --ssd /mnt/nvme{local_rank} gives each rank a drive
of its own.
"""


# Files that the command writes.
_OUTPUTS = ("--save-trace", "--save-plan", "--save-timeline", "--verify")


def command_parser():
    parser = Parser(
        "run",
        required="--device-budget SIZE ",
        description="Trains with an unchanged script within a budget of device memory.",
        epilog=_EPILOG,
    )
    parser.add_limits(
        "device memory that the run may use (default on a GPU: 92 %% of what is free)"
    )
    add = parser.add_argument
    add(
        "--device",
        default="cpu",
        help="cpu (default), cuda (a rank's own GPU) or cuda:1",
    )
    add("--ssd", action="append", metavar="DIR", help="a directory on a drive; give one per drive")
    add(
        "--ssd-capacity",
        default="0",
        metavar="SIZE",
        help="space to use on the drives (default: chosen from the budget and the free space)",
    )
    add("--checksum", action="store_true", help="check all bytes that are read from the drives")
    add(
        "--io-timeout",
        metavar="SECONDS",
        help="leave a drive alone that has not answered a request for so long (default: wait)",
    )
    add(
        "--write-budget",
        metavar="RATE",
        help="the most that plans may write to the drives, e.g. 2TB/day",
    )
    add(
        "--local-rank",
        metavar="N",
        help="the number of this process on the machine (default: $LOCAL_RANK)",
    )
    add(
        "--local-world-size",
        metavar="N",
        help="the number of processes that share the machine (default: $LOCAL_WORLD_SIZE, else 1)",
    )
    plan = parser.add_mutually_exclusive_group()
    plan.add_argument("--plan", metavar="FILE", help="execute this plan instead of making one")
    plan.add_argument(
        "--save-plan", metavar="FILE", help="write the plan when the script has ended"
    )
    add("--save-trace", metavar="FILE", help="write the trace when the script has ended")
    add(
        "--save-timeline",
        metavar="FILE",
        help="write what happened when, for ui.perfetto.dev, when the script has ended; ranks may "
        "share the file",
    )
    add(
        "--timeline-steps",
        metavar="A:B",
        help="the steps in it, e.g. 10:13; default: --timeline-steps=-3: for the last three",
    )
    add("--report", metavar="DIR", help="write a report of the run to this directory")
    add("--quiet", action="store_true", help="show no status line")
    add("--policy", choices=["planned", "on-demand"], default="planned", help="default: planned")
    add(
        "--recompute",
        choices=RECOMPUTE_CHOICES,
        default="all",
        help="tensors that a plan may discard and make again with the same bits (default: all)",
    )
    add(
        "--verify-replays",
        action="store_true",
        help="check that tensors that are made again have the bits that were discarded",
    )
    add(
        "--verify",
        metavar="FILE",
        help="compare with the hashes in this file, or write it if it is missing",
    )
    parser.add_program()
    return parser


def run(arguments):
    """Executes `teraio run` and returns its exit code. What the script raises passes through.

    Args:
        arguments: the words of the command line after `run`.
    """
    parser = command_parser()
    options = parser.parse_args(arguments)
    try:
        program = _checked(options)
        session = _offload(options).enter_until_exit()
    except (Error, ImportError) as error:
        return parser.failure(error, 2)
    return _run_and_save(program, session, options)


def _checked(options):
    """Returns the program of valid options, and puts the rank's number into their paths.

    Raises:
        teraio.Error: an option cannot be used, or no program is named.
    """
    program_words(options)
    ranks = find_ranks(options.local_rank, options.local_world_size)
    options.plan = ranks.named(options.plan)
    for option in ("--report", "--save-plan", "--save-trace", "--verify"):
        _name_output(options, option, ranks)
    options.save_timeline = ranks.named(options.save_timeline)
    if options.device_budget is None and options.device == "cpu":
        raise Error(
            "--device-budget is missing: on the CPU it has no default. Expected a size such as 8GB "
            "or 40%"
        )
    check_limits(options)
    check_size("--ssd-capacity", options.ssd_capacity)
    if options.write_budget is not None:
        _check_write_budget(options.write_budget)
    if options.io_timeout is not None:
        check_seconds("--io-timeout", options.io_timeout)
    if options.plan:
        check_json("--plan", options.plan, "teraio-plan/1", "teraio-plan/2")
    for option in _OUTPUTS:
        path = getattr(options, _attribute(option))
        if path:
            check_output(option, Path(path))
    if options.timeline_steps is not None:
        _check_timeline_steps(options)
    _check_conflicts(options)
    if options.verify and Path(options.verify).exists():
        check_json("--verify", options.verify)
    if options.report:
        _check_output_directory("--report", Path(options.report))
    directories_of_ranks(options.ssd, ranks)
    return program_of(options)


def _check_write_budget(text):
    try:
        parse_write_budget(text)
    except Error as error:
        raise Error(f"--write-budget: {error}") from None


def _check_timeline_steps(options):
    if not options.save_timeline:
        raise Error("--timeline-steps: no timeline is saved. Expected --save-timeline FILE too")
    try:
        parse_steps(options.timeline_steps)
    except Error as error:
        raise Error(f"--timeline-steps: {error}") from None


def _check_conflicts(options):
    if options.policy == "on-demand" and (options.plan or options.save_plan):
        option = "--plan" if options.plan else "--save-plan"
        raise Error(f"{option}: there is no plan with --policy on-demand. Leave one of the two out")
    files = [getattr(options, _attribute(option)) for option in _OUTPUTS]
    paths = [Path(file).resolve() for file in files if file]
    for path in paths:
        if paths.count(path) > 1:
            names = ", ".join(_OUTPUTS[:-1]) + " and " + _OUTPUTS[-1]
            raise Error(f"{path} is given twice: expected different files for {names}")


def _name_output(options, option, ranks):
    """Puts the rank's number into the path of an option.

    Raises:
        teraio.Error: several ranks would write to the path.
    """
    name = _attribute(option)
    path = getattr(options, name)
    if path and ranks.count > 1 and PLACEHOLDER not in path:
        raise Error(
            f"{option}: {path} would be written by {ranks.count} ranks: "
            f"put {PLACEHOLDER} into its name"
        )
    setattr(options, name, ranks.named(path))


def _attribute(option):
    return option.strip("-").replace("-", "_")


def _check_output_directory(option, path):
    existing = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if not existing.is_dir():
        raise Error(f"{option}: {existing} is not a directory")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise Error(f"{option}: {existing} is not writable: choose another directory")


def _offload(options):
    from teraio import offload  # imports torch

    return offload(
        options.device_budget,
        ssd=options.ssd,
        host_limit=options.host_limit,
        ssd_capacity=options.ssd_capacity,
        checksum=options.checksum,
        io_timeout=options.io_timeout,
        write_budget=options.write_budget,
        device=options.device,
        plan=options.plan,
        policy=options.policy,
        recompute=options.recompute,
        verify_replays=options.verify_replays,
        verify=options.verify,
        report=options.report,
        timeline_steps=options.save_timeline and (options.timeline_steps or DEFAULT_STEPS),
        status_line=not options.quiet,
        local_rank=options.local_rank,
        local_world_size=options.local_world_size,
    )


def _run_and_save(program, session, options):
    """Runs the program, saves the files that the options name, and returns the exit code.

    The exit code is the script's own, or 1 if that is 0 and a file could not be saved or the hashes
    differ. What the script raises passes through after the files have been saved, if possible.
    """
    process = os.getpid()
    try:
        program.run()
        code = None
    except SystemExit as exit:
        code = exit.code
    except BaseException as error:
        if os.getpid() == process:
            _save_early(session, options, type(error).__name__)
        raise
    if os.getpid() != process:
        return code  # in a child that the script has forked; its parent saves the files
    if code:
        _save_early(session, options, "SystemExit")
        return code
    failures = [line for line, is_saved in _saved(session, options) if not is_saved]
    for line in failures:
        print(f"teraio run: {line}", file=sys.stderr)
    if options.save_timeline and not failures:
        print(f"teraio: open {options.save_timeline} in ui.perfetto.dev")
    if options.report:
        print(f"teraio: `teraio report {options.report}` makes a page about this run")
    return 0 if _verify(session, options.verify) and not failures else 1


def _save_early(session, options, reason):
    """Saves what can be saved when the script has ended early, and prints one line about it."""
    lines = [line for line, _ in _saved(session, options)]
    if options.verify:
        lines.append(f"nothing compared with {options.verify}")
    if lines:
        print(f"teraio run: ended by {reason}; " + "; ".join(lines), file=sys.stderr)


def _saved(session, options):
    """Saves each file that the options name, and yields (message, whether it was saved)."""
    wanted = [
        ("trace", options.save_trace, lambda path: session.trace().save(path)),
        ("plan", options.save_plan, lambda path: session.plan().save(path)),
        ("timeline", options.save_timeline, session.save_timeline),
        ("report", options.report, lambda path: session.save_report()),
    ]
    for what, path, save in wanted:
        if not path:
            continue
        try:
            save(path)
            yield f"{what} saved to {path}", True
        except (Error, OSError) as error:
            yield f"no {what} saved to {path}: {error}", False


def _verify(session, path):
    """Compares the hashes with the file `path`, or writes it, and prints one line about it.

    Returns:
        False if the hashes differ or the file cannot be used; True otherwise, also without a path.
    """
    if not path:
        return True
    is_first = not os.path.exists(path)
    try:
        session.verify()
    except (Error, OSError) as error:
        print(f"teraio run: {error}", file=sys.stderr)
        return False
    print(
        f"teraio: hashes written to {path}" if is_first else f"teraio: bits equal those of {path}"
    )
    return True
