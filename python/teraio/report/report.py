"""A report as an object: made from directories, saved to a file, or shown in a notebook."""

import html

from teraio.errors import Error
from teraio.files.atomic_file import replace_file

_HEIGHT = 720  # of the page in a notebook, in pixels


class Report:
    """One HTML page about a run, or about two runs side by side.

    In a notebook, the page appears in the cell's output: `Report("run")` as the last expression of
    a cell. The notebook's file then contains all of the page, about 6 MB, so that it needs no
    network.

    Args:
        directories: one or two paths of directories that `teraio run --report` or
            `teraio.offload(report=...)` has written. With two, the page compares the runs.

    Raises:
        teraio.Error: a directory is not of a run, or a file in it is damaged.
    """

    def __init__(self, *directories):
        if len(directories) not in (1, 2):
            raise TypeError(f"Report() takes one or two directories, not {len(directories)}")
        from teraio.report.run_directory import read_run_directory

        runs = [read_run_directory(each) for each in directories]
        if len(runs) == 1:
            from teraio.report.one_run import page_of_run as page_of
        else:
            from teraio.report.two_runs import page_of_runs as page_of
        self._names = [run.name for run in runs]
        try:
            self._page = page_of(*runs)
        except Error:
            raise
        except Exception as error:  # of the libraries that draw, too
            raise Error(
                f"{' or '.join(map(str, directories))} has a file that no run writes so: "
                f"{type(error).__name__}: {error}. Expected what `teraio run --report` has written"
            ) from error

    def save(self, path):
        """Writes the page to a file, which opens in any browser.

        Raises:
            OSError: the file cannot be written.
        """
        replace_file(path, self._page.encode())

    def __repr__(self):
        return f"<teraio.report.Report of {' and '.join(self._names)}>"

    def _repr_html_(self):
        # In a frame of its own, the page neither takes nor changes the notebook's styles.
        return (
            f'<iframe srcdoc="{html.escape(self._page)}" title="Report of TERAIO" '
            f'style="width:100%;height:{_HEIGHT}px;border:0"></iframe>'
        )
