"""The command `teraio dry-run`: predicts a training script's memory and time on another device."""

import subprocess
import tempfile
from pathlib import Path

from teraio.arguments import (
    RECOMPUTE_CHOICES,
    Parser,
    check_json,
    check_limits,
    check_output,
    program_of,
)
from teraio.errors import Error
from teraio.native_command import command_path

_EPILOG = """\
All words after the script's name are passed to the script. The dry run ends the script when an
iteration of its training loop has repeated: three steps are enough for most scripts.
"""


def _parser():
    parser = Parser(
        "dry-run",
        description="Predicts a training script's memory and time on a device, without the device.",
        epilog=_EPILOG,
    )
    parser.add_limits("device memory to plan with, instead of all of the device's")
    add = parser.add_argument
    add(
        "--accelerator",
        default="h100-nvl",
        metavar="NAME|FILE",
        help="the device: a known name or an accelerator file (default: h100-nvl)",
    )
    add("--hardware", metavar="FILE", help="plan the step for the drives and host of this machine")
    add(
        "--recompute",
        choices=RECOMPUTE_CHOICES,
        default="off",
        help="tensors that the plan may discard and make again with the same bits (default: off)",
    )
    add("--world-size", type=int, default=1, metavar="N", help="number of processes (default: 1)")
    add("--rank", type=int, default=0, metavar="R", help="the process to dry-run (default: 0)")
    add(
        "--assume",
        action="append",
        default=[],
        metavar="[FILE:LINE=]VALUE",
        help="the value that the script gets where it reads a tensor's value",
    )
    add("--save-trace", metavar="FILE", help="write the trace to this file (.json or .json.gz)")
    add("--calibrate", metavar="FILE", help="measure this CPU, write its accelerator file, and end")
    return parser


def dry_run(arguments):
    """Executes `teraio dry-run` and returns its exit code. What the script raises passes through.

    Wrong input ends the command with one line on stderr and exit code 2 before the script runs. A
    script that a dry run cannot execute ends it with one line and exit code 1.

    Args:
        arguments: the words of the command line after `dry-run`.
    """
    parser = _parser()
    options = parser.parse(arguments)
    try:
        if options.calibrate:
            return _calibrate(options)
        program = _checked(options)
    except Error as error:
        return parser.failure(error, 2)
    try:
        return _run_and_report(program, options)
    except Error as error:
        return parser.failure(error, 1)


def _checked(options):
    from teraio.dry_run.accelerator import load
    from teraio.dry_run.value_policy import parse_assumption

    program = program_of(options)
    options.accelerator = load(options.accelerator)
    if not 0 <= options.rank < options.world_size:
        raise Error(f"--rank is {options.rank}: expected 0 to {options.world_size - 1}")
    for assumption in options.assume:
        parse_assumption(assumption)
    if options.save_trace:
        check_output("--save-trace", Path(options.save_trace))
    check_limits(options)
    if options.hardware:
        check_json("--hardware", options.hardware, "teraio-hardware/1")
    return program


def _calibrate(options):
    from teraio.dry_run.calibration import calibrate

    check_output("--calibrate", Path(options.calibrate))
    calibrate(Path(options.calibrate))
    return 0


def _run_and_report(program, options):
    from teraio.dry_run.runner import DryRun
    from teraio.dry_run.summary import summary

    run = DryRun(options.accelerator, options.assume, options.world_size, options.rank)
    run.execute(program)
    if options.save_trace:
        run.save_trace(options.save_trace)
    print(summary(run))
    if options.hardware:
        with tempfile.TemporaryDirectory() as directory:
            run.save_trace(directory + "/trace.json")
            _plan(directory, options)
    return 0


def _plan(directory, options):
    """Runs `teraio plan` on trace.json in the directory, where it writes the plan.

    Raises:
        teraio.Error: `teraio plan` failed.
    """
    budget = options.device_budget or str(options.accelerator.memory_bytes)
    command = [str(command_path()), "plan", "--trace", directory + "/trace.json"]
    command += ["--hardware", options.hardware, "--out", directory + "/plan.json"]
    command += ["--device-budget", budget, "--host-limit", options.host_limit]
    command += ["--recompute", options.recompute]
    print(f"\non {options.hardware}:", flush=True)
    planned = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if planned.returncode:
        raise Error("no plan: " + planned.stderr.strip().removeprefix("teraio: "))
