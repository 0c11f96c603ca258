"""Runs trainings in children of this process, which survives what happens to them."""

import collections
import faulthandler
import multiprocessing.connection
import os
import traceback

from .trainings import Ending

TRAINING_SECONDS = 600  # of any training, on a busy machine
LOG_BYTES = 4000  # of the last words of a training


class Child:
    """A child that runs one training after the other on a machine, so that what one leaves behind
    meets the next. When it crashes or hangs, another child goes on."""

    def __init__(self, machine):
        self._machine = machine
        self._log = machine.cache.parent / "log"
        self._process = None
        self.connection = None
        self.training = None

    def begin(self, training):
        if self._process is None:
            self._fork()
        self.training = training
        self.connection.send(training)

    def end(self):
        """Returns the Ending of what begin() began. Blocks while `connection` has none."""
        try:
            return self.connection.recv()
        except EOFError:
            return Ending(
                "a crash", f"the process ended with {self._reap()}:\n{self._last_words()}"
            )

    def run(self, training):
        self.begin(training)
        return self.end()

    def close(self):
        if self._process is not None:
            self.connection.send(None)
            self._reap()

    def _fork(self):
        self.connection, theirs = multiprocessing.Pipe()
        self._process = os.fork()
        if self._process == 0:
            try:
                self._serve(theirs)
            finally:
                os._exit(0)
        theirs.close()

    def _serve(self, connection):
        log = os.open(self._log, os.O_CREAT | os.O_RDWR | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        while (training := connection.recv()) is not None:
            os.ftruncate(log, 0)
            faulthandler.dump_traceback_later(TRAINING_SECONDS, exit=True, file=log)
            connection.send(self._ending(training))
            faulthandler.cancel_dump_traceback_later()

    def _ending(self, training):
        try:
            return training.run(self._machine)
        except Exception:
            return Ending("an exception", f"{traceback.format_exc()}{self._last_words()}")

    def _last_words(self):
        return self._log.read_bytes()[-LOG_BYTES:].decode(errors="replace")

    def _reap(self):
        self.connection.close()
        process, self._process = self._process, None
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def run_all(trainings, children):
    """Yields each training with its Ending, in the order in which they end."""
    waiting = collections.deque(trainings)
    idle = list(children)
    busy = {}
    while waiting or busy:
        while waiting and idle:
            child = idle.pop()
            child.begin(waiting.popleft())
            busy[child.connection] = child
        for connection in multiprocessing.connection.wait(busy):
            child = busy.pop(connection)
            idle.append(child)
            yield child.training, child.end()
