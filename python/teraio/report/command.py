"""The command `teraio report`: makes an HTML page about one run or two."""

from pathlib import Path

from teraio.arguments import CommandParser, check_output
from teraio.atomic_file import replace_file
from teraio.errors import Error


def _parser():
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
    parser = _parser()
    options = parser.parse_args(arguments)
    if len(options.directories) > 2:
        count = len(options.directories)
        return parser.failure(f"{count} directories given: expected one, or two to compare", 2)
    try:
        page = Path(options.output or Path(options.directories[0]) / "report.html")
        text = _page(options.directories, page)
        replace_file(page, text.encode())
    except (Error, OSError) as error:
        return parser.failure(error, 1)
    print(f"teraio report: {page}")
    return 0


def _page(directories, output):
    from teraio.report.run_directory import read_run_directory

    runs = [read_run_directory(each) for each in directories]
    check_output("--output", output)
    if len(runs) == 1:
        from teraio.report.one_run import page_of_run

        return page_of_run(runs[0])
    from teraio.report.two_runs import page_of_runs

    return page_of_runs(*runs)
