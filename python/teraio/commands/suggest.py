"""The command `teraio suggest`: how to train a script on this machine."""

import contextlib
import dataclasses
import json
import os
import sys
import tempfile
from pathlib import Path

from teraio.commands.arguments import Parser, program_of, program_words
from teraio.dry_run.options import add_script_options, check_script_options, dry_run_of
from teraio.dry_run.trace_files import save_traces
from teraio.errors import Error
from teraio.files.json_file import check_json
from teraio.options import add_arguments, check, flag, parsed
from teraio.units import parse_size

_EPILOG = """\
The script runs on fake tensors until an iteration of its training loop has repeated, as in a dry
run. Drives that have not been used before are measured, which writes at most 2 GB to each. The
suggestion is a prediction; no step of the script has been measured.
"""


def command_parser():
    parser = Parser(
        "suggest",
        description="Suggests how to train a script on this machine: the budget, the drives, what "
        "a step takes, and the `teraio run` line.",
        epilog=_EPILOG,
    )
    budget = "device memory for the run (default: 92 % of what is free)"
    add_arguments(parser, "device_budget", "host_limit", "device", device_budget=budget)
    parser.set_defaults(host_limit=None)
    add = parser.add_argument
    add(
        "--accelerator",
        metavar="NAME|FILE",
        help="predict for this device, which need not be there: a known name or an accelerator "
        "file (default: the device itself; a CPU is measured once)",
    )
    add_arguments(parser, "ssd")
    add(
        "--hardware",
        metavar="FILE",
        help="the drives and host memory of this file, instead of this machine's",
    )
    add(
        "--rated-writes",
        metavar="SIZE",
        help="rated writes of each drive, such as 1200TB (default: from a table of models)",
    )
    add_arguments(parser, "recompute")
    add_script_options(parser)
    add(
        "--least-budget",
        action="store_true",
        help="find the least device budget with which the script runs, and end: nothing is "
        "measured, and no file that the script writes stays",
    )
    add("--json", action="store_true", help="print one JSON object, and all else on stderr")
    parser.add_program()
    return parser


def suggest(arguments):
    """Executes `teraio suggest` and returns its exit code. What the script raises passes through.

    Wrong input ends the command with one line on stderr and exit code 2 before the script runs.
    When there is no way to train within the limits, it ends with one line and exit code 1.

    Args:
        arguments: the words of the command line after `suggest`.
    """
    parser = command_parser()
    options = parser.parse_args(arguments)
    try:
        with _stdout_to_stderr(options.json):
            program = _checked(options)
    except Error as error:
        return parser.failure(error, 2)
    try:
        with _stdout_to_stderr(options.json):
            find = _least_budget if options.least_budget else _suggestion
            suggestion = find(program, options)
    except Error as error:
        return parser.failure(error, 1)
    print(json.dumps(suggestion.to_json(), indent=1) if options.json else suggestion.text())
    return 0


def _checked(options):
    from teraio.directories import ssd_directories
    from teraio.suggest.device import find_device

    program = program_of(options)
    options.words = (["-m"] if options.module else []) + program_words(options)
    options.host_limit_given = options.host_limit is not None
    options.host_limit = options.host_limit or 0
    check(vars(options), flag, "device_budget", "host_limit")
    check_script_options(options)
    if options.hardware:
        parsed("--hardware", check_json, options.hardware, "teraio-hardware/1")
        options.hardware = Path(options.hardware).resolve()
    elif options.ssd:
        ssd_directories(options.ssd)
    if options.rated_writes:
        parsed("--rated-writes", parse_size, options.rated_writes)
    options.device = find_device(options.device, options.accelerator, options.world_size)
    return program


def _least_budget(program, options):
    from teraio.suggest.least_budget import find_least_budget

    return find_least_budget(program, options)


def _suggestion(program, options):
    from teraio.dry_run.summary import reservations
    from teraio.suggest.suggestion import Suggester

    device = options.device
    run = dry_run_of(options, device.accelerator, measure=device.measure)
    directory = os.getcwd()
    run.execute(program)
    options.device = dataclasses.replace(device, accelerator=run.accelerator)
    os.chdir(directory)
    with tempfile.TemporaryDirectory() as scratch:
        traces = save_traces(run, run.log.patterns(), Path(scratch, "pattern.json"))
        return Suggester(options, run, traces, reservations(run)).suggestion()


@contextlib.contextmanager
def _stdout_to_stderr(is_wanted):
    """Sends what this process and its children print to stderr, so that stdout is JSON alone."""
    if not is_wanted:
        yield
        return
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(stdout, 1)
        os.close(stdout)
