"""A report as an object: made from directories, saved to a file, or shown in a notebook."""

import contextlib
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
        with _damage_told(directories):
            self._page = page_of(*runs)

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


def save_results(directory, path):
    """Writes what others may read about a run to a file: see shared.py.

    Raises:
        teraio.Error: the directory is not of a run, or a file in it is damaged.
        OSError: the file cannot be written.
    """
    from teraio.report.run_directory import read_run_directory
    from teraio.report.shared import results_of

    run = read_run_directory(directory)
    with _damage_told([directory]):
        results = results_of(run)
    replace_file(path, results.encode())


@contextlib.contextmanager
def _damage_told(directories):
    """Raises teraio.Error for what goes wrong with damaged files, also in libraries that draw."""
    try:
        yield
    except Error:
        raise
    except Exception as error:
        raise Error(
            f"{' or '.join(map(str, directories))} has a file that no run writes so: "
            f"{type(error).__name__}: {error}. Expected what `teraio run --report` has written"
        ) from error
