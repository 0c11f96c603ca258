"""The command `teraio report`: makes an HTML page about one run or two, or results to share."""

from pathlib import Path

from teraio.commands.arguments import CommandParser
from teraio.errors import Error
from teraio.files.outputs import check_outputs
from teraio.report.report import Report, save_results


def command_parser():
    parser = CommandParser(
        "report",
        usage="teraio report [--output FILE] (DIR [DIR] | --share DIR)",
        description="Makes one HTML page, which needs no network, from what `teraio run --report "
        "DIR` has written. With two directories, the page compares the two runs.",
    )
    parser.add_argument("directories", nargs="+", metavar="DIR", help="the directory of a run")
    parser.add_argument(
        "--share",
        action="store_true",
        help="write results for others instead, without paths, host and user names, as Markdown",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="the page or results (default: report.html or results.md in the first directory)",
    )
    return parser


def report(arguments):
    """Executes `teraio report` and returns its exit code.

    Args:
        arguments: the words of the command line after `report`.
    """
    parser = command_parser()
    options = parser.parse_args(arguments)
    count = len(options.directories)
    if options.share and count > 1:
        return parser.failure(f"{count} directories given: expected one for --share", 2)
    if count > 2:
        return parser.failure(f"{count} directories given: expected one, or two to compare", 2)
    try:
        name = "results.md" if options.share else "report.html"
        page = Path(options.output or Path(options.directories[0]) / name)
        if options.output or page.parent.is_dir():  # else there is a better message
            runs = [path for each in options.directories for path in Path(each).glob("*.json*")]
            check_outputs({"--output": page}, runs)
        if options.share:
            save_results(options.directories[0], page)
        else:
            Report(*options.directories).save(page)
    except (Error, OSError) as error:
        return parser.failure(error, 1)
    print(f"teraio report: {page}")
    return 0
