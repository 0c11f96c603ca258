"""`teraio report`: one HTML page about a run, or about two runs side by side.

The directory that `teraio run --report` wrote (run_directory) and what the C++ command predicts
from it (prediction) become a summary, figures and tables, and a template makes the page of them.
Times are in seconds from the start of a step unless a name says otherwise.

Importing this package is cheap; a Report imports what it needs.
"""

from teraio.report.report import Report

__all__ = ["Report"]
