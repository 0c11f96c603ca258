"""Where the state of a session is shown: in its status line, in notebooks and for `teraio top`."""

import logging
import os

from teraio.errors import Error
from teraio.watch import notebook
from teraio.watch.run_status import RunStatus
from teraio.watch.status_file import StatusFile
from teraio.watch.status_line import open_status_line

_log = logging.getLogger("teraio")


class StatusDisplay:
    """Shows the state of a session. One thread at a time calls the methods.

    Args:
        core: the `core.Session`.
        accelerator: the `Accelerator` that the session runs on, or None if it is not known.
        ranks: the `Ranks` of this process. Only the first rank has a status line.
        is_planned: whether the session makes plans.
        report: the path of the directory for the report, or None.
        has_line: whether there is a status line; in a notebook, it is a panel.

    `newest` is the state of the last update(), as RunStatus.read() returns it, or None before it.
    After end(), its phase is "ended".
    """

    def __init__(self, core, *, accelerator, ranks, is_planned, report, has_line):
        self._status = RunStatus(core, is_planned, accelerator)
        self._has_line = has_line and ranks.local_rank == 0
        self._job = {
            "local_rank": ranks.local_rank,
            "local_world_size": ranks.count,
            "directory": os.readlink("/proc/self/cwd"),
            "report": report and os.path.abspath(report),
        }
        self._line = self._file = None
        self._panels = []
        self.newest = None

    def begin(self):
        """Opens the line and the file. Without a place for the file, there is none."""
        if self._has_line and notebook.is_kernel():
            self.add_panel()
        elif self._has_line:
            self._line = open_status_line()
        try:
            self._file = StatusFile(self._job)
        except (Error, OSError) as error:
            _log.info("teraio: `teraio top` does not show this run: %s", error)
        self.update()

    def add_panel(self):
        """Shows the state in the output of the cell that runs now, from now on. Unlike the other
        methods, it may be called by any thread."""
        panel = notebook.Panel(self.newest)
        if notebook.is_kernel():  # elsewhere, an output cannot be replaced
            self._panels.append(panel)

    def update(self):
        """Shows the state of this moment."""
        self.newest = self._status.read()
        if self._line:
            self._line.show(self.newest)
        if self._file:
            self._file.write(self.newest | {"command": notebook.command()})
        for panel in self._panels:
            panel.show(self.newest)

    def end(self):
        """Removes the line and the file; panels keep the last state. May be called again."""
        for shown in (self._line, self._file):
            if shown:
                shown.end()
        self._line = self._file = None
        self.newest = self._status.read() | {"phase": "ended"}
        for panel in self._panels:
            panel.show(self.newest)
