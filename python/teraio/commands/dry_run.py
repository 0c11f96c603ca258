"""The command `teraio dry-run`: predicts a training script's memory and time on another device."""

import subprocess
import tempfile
from pathlib import Path

from teraio.commands.arguments import Parser, program_of
from teraio.dry_run.options import add_script_options, check_script_options, dry_run_of
from teraio.dry_run.trace_files import save_traces, trace_options
from teraio.errors import Error
from teraio.files.json_file import check_json
from teraio.files.native_command import command_path
from teraio.files.outputs import check_outputs
from teraio.options import add_arguments, check, flag, parsed

_EPILOG = """\
All words after the script's name are passed to the script. The dry run ends the script when an
iteration of its training loop has repeated: three steps are enough for most scripts. Where steps
differ, --steps lets it go on, and the mean step is predicted.
"""


def command_parser():
    parser = Parser(
        "dry-run",
        description="Predicts a training script's memory and time on a device, without the device.",
        epilog=_EPILOG,
    )
    helps = {
        "device_budget": "device memory to plan with, instead of all of the device's",
        "host_limit": "host memory to plan with, instead of all of the machine's",
    }
    add_arguments(parser, *helps, **helps)
    parser.set_defaults(host_limit=None)
    add = parser.add_argument
    add(
        "--accelerator",
        default="h100-nvl",
        metavar="NAME|FILE",
        help="the device: a known name or an accelerator file (default: h100-nvl)",
    )
    add("--hardware", metavar="FILE", help="plan the step for the drives and host of this machine")
    add_arguments(parser, "recompute")
    add_script_options(parser)
    add(
        "--save-trace",
        metavar="FILE",
        help="write the trace to this file (.json or .json.gz); several go to FILE-1, FILE-2 ...",
    )
    add("--calibrate", metavar="FILE", help="measure this CPU, write its accelerator file, and end")
    parser.add_program()
    return parser


def dry_run(arguments):
    """Executes `teraio dry-run` and returns its exit code. What the script raises passes through.

    Wrong input ends the command with one line on stderr and exit code 2 before the script runs. A
    script that a dry run cannot execute ends it with one line and exit code 1.

    Args:
        arguments: the words of the command line after `dry-run`.
    """
    parser = command_parser()
    options = parser.parse_args(arguments)
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
    from teraio.accelerator import load

    program = program_of(options)
    inputs = [program.path, options.hardware, options.accelerator]
    options.accelerator = load(options.accelerator)
    check_script_options(options)
    check_outputs({"--save-trace": options.save_trace}, inputs)
    check(vars(options), flag, "device_budget")
    if options.host_limit is not None:
        check(vars(options), flag, "host_limit")
    if options.hardware:
        parsed("--hardware", check_json, options.hardware, "teraio-hardware/1")
    return program


def _calibrate(options):
    from teraio.dry_run.calibration import calibrate

    check_outputs({"--calibrate": options.calibrate}, options.script[:1])
    calibrate(Path(options.calibrate))
    return 0


def _run_and_report(program, options):
    from teraio.dry_run.summary import summary

    run = dry_run_of(options, options.accelerator)
    run.execute(program)
    patterns = run.log.patterns()
    print(summary(run))
    if options.save_trace:
        saved = save_traces(run, patterns, Path(options.save_trace))
        if len(patterns) > 1:
            print("traces:", *trace_options(saved, patterns))
    if options.hardware:
        with tempfile.TemporaryDirectory() as directory:
            traces = save_traces(run, patterns, Path(directory, "pattern.json"))
            _plan(traces, patterns, options)
    return 0


def _plan(traces, patterns, options):
    """Runs `teraio plan` on the traces in their directory, where it writes the plans.

    Raises:
        teraio.Error: `teraio plan` failed.
    """
    budget = options.device_budget or str(options.accelerator.memory_bytes)
    names = [trace.name for trace in traces]
    command = [str(command_path()), "plan", *trace_options(names, patterns)]
    command += ["--out", *(f"plan-{name}" for name in names)]
    command += ["--hardware", str(Path(options.hardware).resolve())]
    command += ["--device-budget", budget, "--recompute", options.recompute]
    if options.host_limit is not None:
        command += ["--host-limit", options.host_limit]
    print(f"\non {options.hardware}:", flush=True)
    planned = subprocess.run(command, stderr=subprocess.PIPE, text=True, cwd=traces[0].parent)
    if planned.returncode:
        raise Error("no plan: " + planned.stderr.strip().removeprefix("teraio: "))
