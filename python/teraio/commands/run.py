"""`teraio run`: runs an unchanged training script within a device budget.

Wrong input ends the command with one line on stderr and exit code 2, if possible before torch is
imported. Once the script runs, the exit code and the traceback are those of the script.
"""

import os
import sys
from pathlib import Path

from teraio.commands.arguments import Parser, program_of
from teraio.commands.trial import Trial
from teraio.errors import Error, MissingBudget
from teraio.options import add_arguments, checked, flag, parsed
from teraio.ranks import PLACEHOLDER, find_ranks

_EPILOG = """\
Sizes are written 1.5GB, 800MiB, 1200000000; the budget also as 40% (of the device's memory).
All words after the script's name are passed to the script. A value that begins with a dash needs an
equals sign: --timeline-steps=-5: for the last five steps.

Under torchrun (torchrun --nproc-per-node 2 -m teraio run ...) each process is a rank with a device
of its own. --host-limit, --ssd-capacity and --write-budget are those of the machine. Every rank
gets an equal share of them, and of each drive that several ranks use. {local_rank} in the name of a
directory or file stands for the rank's number: --ssd /mnt/nvme{local_rank} gives each rank a drive
of its own.
"""


# Files that the command writes, and the session does not.
_OUTPUTS = ("save_trace", "save_plan")


def command_parser():
    parser = Parser(
        "run",
        required="--device-budget SIZE ",
        description="Trains with an unchanged script within a budget of device memory.",
        epilog=_EPILOG,
    )
    add_arguments(parser, "device_budget", "host_limit", "device", "ssd", "ssd_capacity")
    add_arguments(parser, "checksum", "io_timeout", "write_budget")
    add_arguments(parser, "local_rank", "local_world_size")
    plan = parser.add_mutually_exclusive_group()
    add_arguments(plan, "plan")
    plan.add_argument(
        "--save-plan", metavar="FILE", help="write the plan when the script has ended"
    )
    add = parser.add_argument
    add("--save-trace", metavar="FILE", help="write the trace when the script has ended")
    add_arguments(parser, "save_timeline", "timeline_steps", "report")
    add("--quiet", action="store_true", help="show no status line")
    add_arguments(parser, "policy", "recompute", "effort", "verify_replays", "verify")
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
        program, session_options = _checked(options)
        options.device = session_options["device"]
        trial = Trial(options)
        session = _session_of(session_options).enter_until_exit()
    except MissingBudget as error:  # on the CPU
        options.device = "cpu"
        return parser.failure(f"{error}; {Trial(options).sentence()}", 2)
    except (Error, ImportError) as error:
        return parser.failure(error, 2)
    return _run_and_save(program, session, options, trial)


def _checked(options):
    """Returns the program and the session's options, and puts the rank's number into their paths.

    Raises:
        teraio.Error: an option cannot be used, or no program is named.
    """
    program = program_of(options)
    ranks = find_ranks(options.local_rank, options.local_world_size)
    for name in ("report", "save_plan", "save_trace", "verify"):
        _check_ranks(name, getattr(options, name), ranks)
    for name in ("report", "save_timeline", "verify", *_OUTPUTS):
        setattr(options, name, parsed(flag(name), ranks.named, getattr(options, name)))
    if options.report:
        _check_output_directory("--report", Path(options.report))
    if options.timeline_steps is not None and not options.save_timeline:
        raise Error("--timeline-steps: no timeline is saved. Expected --save-timeline FILE too")
    if options.save_plan and options.policy == "on-demand":
        raise Error(
            "--save-plan: there is no plan with --policy on-demand. Leave one of the two out"
        )
    outputs = {flag(name): getattr(options, name) for name in _OUTPUTS}
    session = checked(vars(options), flag, outputs, [program.path])
    return program, session | {"save_timeline": None, "status_line": not options.quiet}


def _check_ranks(name, path, ranks):
    """Raises teraio.Error if several ranks would write to the path."""
    if path and ranks.count > 1 and PLACEHOLDER not in path:
        raise Error(
            f"{flag(name)}: {path} would be written by {ranks.count} ranks: "
            f"put {PLACEHOLDER} into its name"
        )


def _check_output_directory(option, path):
    existing = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if not existing.is_dir():
        raise Error(f"{option}: {existing} is not a directory")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise Error(f"{option}: {existing} is not writable: choose another directory")


def _session_of(options):
    from teraio.session import session_of  # imports torch

    return session_of(options)


def _run_and_save(program, session, options, trial):
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
            trial.tell_after_traceback(error, session.device_budget_bytes)
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
    return 0 if _verify(session, options) and not failures else 1


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


def _verify(session, options):
    """Compares the hashes with the file of --verify, or writes it, and prints one line about it.
    The report gets to know that they are equal.

    Returns:
        False if the hashes differ or the file cannot be used; True otherwise, also without a path.
    """
    path = options.verify
    if not path:
        return True
    is_first = not os.path.exists(path)
    try:
        session.verify()
        if options.report and not is_first:
            from teraio.watch.run_writer import add_bits  # imports torch

            add_bits(options.report, "the bits of another run (SHA-256)")
    except (Error, OSError) as error:
        print(f"teraio run: {error}", file=sys.stderr)
        return False
    print(
        f"teraio: hashes written to {path}" if is_first else f"teraio: bits equal those of {path}"
    )
    return True
