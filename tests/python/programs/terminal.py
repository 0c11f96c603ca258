"""A terminal for tests: a pseudo-terminal with an emulated screen, in which a program runs."""

import contextlib
import fcntl
import os
import pty
import select
import struct
import termios
import time

import pyte


class Terminal:
    """Runs a program in a terminal of its own. `screen` is what the terminal shows, and `written`
    all bytes that it got.

    Use it as a context, which kills a program that still runs at the end.
    """

    def __init__(self, command, environment, rows, columns):
        self.screen = pyte.HistoryScreen(columns, rows, history=10_000)
        self._stream = pyte.ByteStream(self.screen)
        self.process, self._descriptor = pty.fork()
        if self.process == 0:
            self._set_size(0, rows, columns)
            words = [str(word) for word in command]
            size = {"COLUMNS", "LINES"}  # of the terminal that the tests run in
            kept = {name: value for name, value in environment.items() if name not in size}
            os.execvpe(words[0], words, {**kept, "TERM": "xterm-256color"})
        self.written = b""
        self._status = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._status is None:
            os.kill(self.process, 9)
            os.waitpid(self.process, 0)
        os.close(self._descriptor)

    def resize(self, rows, columns):
        self.screen.resize(rows, columns)
        self._set_size(self._descriptor, rows, columns)

    def type(self, keys):
        """Sends keys to the program."""
        os.write(self._descriptor, keys.encode())

    def line_of_cursor(self):
        """What the terminal shows in the line of the cursor."""
        return self.screen.display[self.screen.cursor.y]

    def wait_for(self, condition, timeout_s=120):
        """Shows what the program writes until `condition(self)` holds. Raises AssertionError when
        the program ends before, or after so long."""
        deadline = time.monotonic() + timeout_s
        while not condition(self):
            is_more = self._show_more(deadline - time.monotonic())
            assert is_more, "\n".join(self.screen.display)

    def exit_code(self, timeout_s=120):
        """Shows what the program writes until it ends."""
        while self._show_more(timeout_s):
            pass
        _, self._status = os.waitpid(self.process, 0)
        return os.waitstatus_to_exitcode(self._status)

    def lines(self):
        """All lines that the terminal has shown and not erased, those that scrolled away first."""
        history = [
            "".join(line[column].data for column in range(self.screen.columns))
            for line in self.screen.history.top
        ]
        return [line.rstrip() for line in (*history, *self.screen.display)]

    def _show_more(self, timeout_s):
        ready, _, _ = select.select([self._descriptor], [], [], max(0, timeout_s))
        assert ready, "\n".join(self.screen.display)
        with contextlib.suppress(OSError):  # the end, on Linux
            data = os.read(self._descriptor, 1 << 16)
            self._stream.feed(data)
            self.written += data
            return bool(data)
        return False

    @staticmethod
    def _set_size(descriptor, rows, columns):
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
