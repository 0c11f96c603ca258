"""The thread that observes a session while it runs."""

import threading

_ROUND_SECONDS = 0.5


class ProgressThread:
    """Calls functions at intervals, one after the other, on a thread of its own.

    The functions raise nothing, and take well under a millisecond: they compete with the training
    for Python's lock. Any thread may call the methods.
    """

    def __init__(self):
        self._functions = {}  # and in how many rounds each is called once
        self._round = threading.Lock()  # is held while the functions are called
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="teraio progress", daemon=True)

    def add(self, function, rounds=1):
        """Has `function` called from now on, once in so many rounds of half a second."""
        with self._round:
            self._functions[function] = rounds

    def remove(self, function):
        """Does not have `function` called any more. Waits for the end of a call of it."""
        with self._round:
            del self._functions[function]

    def start(self):
        """Starts the thread if there is anything to call."""
        if self._functions:
            self._thread.start()

    def stop(self):
        """Ends the thread. Does nothing if it does not run."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self):
        number = 0
        while not self._stopped.wait(_ROUND_SECONDS):
            number += 1
            with self._round:
                for function, rounds in self._functions.items():
                    if number % rounds == 0:
                        function()
