"""The thread that observes a session while it runs."""

import threading

from teraio.verbosity import never_fails

_PERIOD_SECONDS = 1


class ProgressThread:
    """Calls a function once a second on a thread of its own.

    Args:
        function: what it raises ends nothing. It takes well under a millisecond: it competes with
            the training for Python's lock.
    """

    def __init__(self, function):
        self._function = never_fails(function)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="teraio progress", daemon=True)

    def start(self):
        self._thread.start()

    def stop(self):
        """Ends the thread. Does nothing if it does not run."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self):
        while not self._stopped.wait(_PERIOD_SECONDS):
            self._function()
