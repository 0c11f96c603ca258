"""Where the state of a running session is shown: in its status line and for `teraio top`."""

import logging
import os
import sys

from teraio.errors import Error
from teraio.run_status import RunStatus
from teraio.status_file import StatusFile
from teraio.status_line import open_status_line

_log = logging.getLogger("teraio")


class StatusDisplay:
    """Shows the state of a session. One thread at a time calls the methods.

    Args:
        core: the `core.Session`.
        ranks: the `Ranks` of this process. Only the first rank has a status line.
        is_planned: whether the session makes plans.
        report: the path of the directory for the report, or None.
        has_line: whether there is a status line.
    """

    def __init__(self, core, *, ranks, is_planned, report, has_line):
        self._status = RunStatus(core, is_planned)
        self._has_line = has_line and ranks.local_rank == 0
        self._job = {
            "local_rank": ranks.local_rank,
            "local_world_size": ranks.count,
            "directory": os.readlink("/proc/self/cwd"),
            "report": report and os.path.abspath(report),
        }
        self._line = self._file = None

    def begin(self):
        """Opens the line and the file. Without a place for the file, there is none."""
        if self._has_line:
            self._line = open_status_line()
        try:
            self._file = StatusFile(self._job)
        except (Error, OSError) as error:
            _log.info("teraio: `teraio top` does not show this run: %s", error)
        self.update()

    def update(self):
        """Shows the state of this moment."""
        status = self._status.read()
        if self._line:
            self._line.show(status)
        if self._file:
            self._file.write(status | {"command": [str(word) for word in sys.argv]})

    def end(self):
        """Removes the line and the file. May be called again."""
        for shown in (self._line, self._file):
            if shown:
                shown.end()
        self._line = self._file = None
