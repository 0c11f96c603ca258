"""The command `teraio report`: makes an HTML page about one run or two."""

from pathlib import Path

from teraio.commands.arguments import CommandParser, check_output
from teraio.errors import Error
from teraio.report.report import Report


def command_parser():
    parser = CommandParser(
        "report",
        usage="teraio report [--output FILE] DIR [DIR]",
        description="Makes one HTML page, which needs no network, from what `teraio run --report "
        "DIR` has written. With two directories, the page compares the two runs.",
    )
    parser.add_argument("directories", nargs="+", metavar="DIR", help="the directory of a run")
    parser.add_argument(
        "--output", metavar="FILE", help="the page (default: report.html in the first directory)"
    )
    return parser


def report(arguments):
    """Executes `teraio report` and returns its exit code.

    Args:
        arguments: the words of the command line after `report`.
    """
    parser = command_parser()
    options = parser.parse_args(arguments)
    if len(options.directories) > 2:
        count = len(options.directories)
        return parser.failure(f"{count} directories given: expected one, or two to compare", 2)
    try:
        page = Path(options.output or Path(options.directories[0]) / "report.html")
        if options.output or page.parent.is_dir():  # else there is a better message
            check_output("--output", page)
        Report(*options.directories).save(page)
    except (Error, OSError) as error:
        return parser.failure(error, 1)
    print(f"teraio report: {page}")
    return 0
