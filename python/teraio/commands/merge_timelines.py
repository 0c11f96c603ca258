"""`teraio merge-timelines`: timelines of runs and of torch.profiler in one file."""

from teraio.commands.arguments import CommandParser
from teraio.errors import Error
from teraio.files.outputs import check_outputs
from teraio.files.timelines import merge_timelines


def command_parser():
    """Returns the parser of the words after `teraio merge-timelines`."""
    parser = CommandParser(
        "merge-timelines",
        usage="teraio merge-timelines --output FILE FILE [FILE ...]",
        description="Merges timelines of runs and traces of torch.profiler into one file, where "
        "they line up in time.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a timeline or a trace")
    parser.add_argument("--output", metavar="FILE", required=True, help="the merged file")
    return parser


def merge(arguments):
    """Executes `teraio merge-timelines` and returns its exit code.

    Args:
        arguments: the words of the command line after `merge-timelines`.
    """
    parser = command_parser()
    options = parser.parse_args(arguments)
    try:
        check_outputs({"--output": options.output}, options.files)
        merge_timelines(options.files, options.output)
    except (Error, OSError) as error:
        return parser.failure(error, 1)
    print(f"teraio merge-timelines: {options.output}")
    return 0
