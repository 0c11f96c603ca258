"""Where the state of a running session is shown."""

from teraio.run_status import RunStatus
from teraio.status_line import open_status_line


class StatusDisplay:
    """Shows the state of a session. One thread at a time calls the methods.

    Args:
        core: the `core.Session`.
        ranks: the `Ranks` of this process. Only the first rank has a status line.
        is_planned: whether the session makes plans.
        has_line: whether there is a status line.
    """

    def __init__(self, core, *, ranks, is_planned, has_line):
        self._status = RunStatus(core, is_planned)
        self._has_line = has_line and ranks.local_rank == 0
        self._line = None

    def begin(self):
        """Opens the line."""
        if self._has_line:
            self._line = open_status_line()
        self.update()

    def update(self):
        """Shows the state of this moment."""
        if self._line:
            self._line.show(self._status.read())

    def end(self):
        """Removes the line. May be called again."""
        if self._line:
            self._line.end()
        self._line = None
