"""The bottom row of a terminal, kept free for one line of text.

The terminal scrolls in the rows above (DECSTBM, "set top and bottom margins"), so whatever is
printed there, by this process, its children or libraries in C, never meets the line: progress bars
with carriage returns included. apt shows its progress in the same way. Nothing is intercepted:
sys.stdout and sys.stderr stay as they are. Every update is one write, which other writes to the
terminal cannot interrupt, and leaves the cursor where it was.
"""

import contextlib
import os
import subprocess

_SAVE, _RESTORE = "\0337", "\0338"
_ERASE_LINE, _ERASE_TO_END = "\033[2K", "\033[K"
_PLAIN, _REVERSE = "\033[0m", "\033[7m"
_NO_MARGINS = "\033[r"  # and moves the cursor to the top
_NEXT_LINE, _ERASE_BELOW = "\033[E", "\033[J"
_DOWN, _UP = "\033D", "\033[A"  # _DOWN scrolls in the last row
_GIVE_BACK = f"{_SAVE}{_NO_MARGINS}\033[9999;1H{_ERASE_LINE}{_RESTORE}"  # the last row, at most
_ROWS_MIN, _COLUMNS_MIN = 4, 20


class BottomRow:
    """The bottom row of the terminal behind a descriptor. One thread uses it at a time."""

    def __init__(self, descriptor):
        self._descriptor = descriptor
        self._size = None  # the size that the margins are set for
        self._guard = None

    @staticmethod
    def is_possible(descriptor):
        """Returns whether the descriptor is that of a terminal that can keep a row."""
        if not os.isatty(descriptor) or os.environ.get("TERM", "dumb") == "dumb":
            return False
        size = os.get_terminal_size(descriptor)
        return size.lines >= _ROWS_MIN and size.columns >= _COLUMNS_MIN

    def draw(self, line_of_width):
        """Shows the text that `line_of_width(columns)` returns, of at most so many characters.

        A process that is in the background gives the row back until it is in the foreground again.
        The margins follow the terminal's size.

        Raises:
            OSError: the terminal has gone.
        """
        size = os.get_terminal_size(self._descriptor)
        if self._guard is None:
            self._guard = _TerminalGuard(self._descriptor)
        if not self._is_in_foreground() or size.lines < _ROWS_MIN or size.columns < _COLUMNS_MIN:
            self.remove()
            return
        margins = "" if size == self._size else self._start(size)
        self._size = size
        text = line_of_width(size.columns - 1).ljust(size.columns - 1)
        self._write(
            f"{margins}{_SAVE}\033[{size.lines};1H{_REVERSE}{text}{_PLAIN}{_ERASE_TO_END}{_RESTORE}"
        )

    def remove(self):
        """Gives the row back to the terminal, empty. Does nothing if it is not in use.

        Raises:
            OSError: the terminal has gone.
        """
        if self._size is not None:
            self._size = None
            self._write(_GIVE_BACK)

    def close(self):
        """Removes the row for good."""
        try:
            self.remove()
        finally:
            if self._guard is not None:
                self._guard.end()

    def _start(self, size):
        # The cursor leaves the bottom row first, and what is there moves up with it.
        above = f"{_SAVE}{_NO_MARGINS}{_RESTORE}{_DOWN}{_UP}"
        # After a change of size, the old line is somewhere below the cursor.
        old = "" if self._size is None else f"{_NEXT_LINE}{_ERASE_BELOW}"
        return f"{above}{_SAVE}{old}\033[1;{size.lines - 1}r{_RESTORE}"

    def _is_in_foreground(self):
        try:
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except OSError:
            return True  # not the terminal that controls this process

    def _write(self, text):
        os.write(self._descriptor, text.encode("ascii", "replace"))


class _TerminalGuard:
    """Gives the row back if this process is killed: a shell that waits for the end of a pipe.

    It is a grandchild in a session of its own, so that neither a program that waits for its
    children nor Ctrl-C meets it.
    """

    # $1 is a descriptor and $2 what to write if its other end closes without a line.
    _SCRIPT = '{ read -r line || printf %s "$2"; } <&$1 &'

    def __init__(self, terminal):
        read_end, self._write_end = os.pipe()
        try:
            subprocess.run(
                ["sh", "-c", self._SCRIPT, "sh", str(read_end), _GIVE_BACK],
                stdin=subprocess.DEVNULL,
                stdout=terminal,
                stderr=subprocess.DEVNULL,
                pass_fds=[read_end],
                start_new_session=True,
                check=False,
            )
        except OSError:
            pass  # without a shell the terminal stays as it is
        finally:
            os.close(read_end)

    def end(self):
        """Ends the shell, which writes nothing then."""
        with contextlib.suppress(OSError):
            os.write(self._write_end, b"\n")
        os.close(self._write_end)
