"""A child process that answers requests, and that alone ends when it crashes."""

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import warnings

_MESSAGE_MAX = 500  # characters
_DESCRIPTORS_MAX = 1 << 16


class CallFailed(Exception):
    """The message says why a call has no result."""


class ForkedServer:
    """Calls a function in a child process, and in another one after a call that it did not survive.

    The child calls it in a thread of its own: libraries such as OpenMP keep workers for each thread
    that has used them, and those of the forking thread do not exist in the child. What is printed
    there is lost. A program that waits for all of its children does not wait for this one, which
    ends with the object or the process.

    Args:
        function: gets what `call` gets.
        seconds_max: the longest that a call may take.
    """

    def __init__(self, function, seconds_max=20):
        self._function = function
        self.seconds_max = seconds_max
        self._connection = None
        self._child = 0  # the id of its process, as soon as it has told it

    def call(self, request):
        """Returns what the function returns for the request, both of which are pickled.

        Raises:
            CallFailed: the function has raised an exception, crashed or not ended in time.
        """
        request = pickle.dumps(request)
        try:
            if self._connection is None:
                self._fork()
            self._connection.send_bytes(request)
            has_result, result = self._receive()
        except (EOFError, OSError):
            self._connection = None
            raise CallFailed("its process ended") from None
        if not has_result:
            raise CallFailed(result)
        return result

    def _receive(self):
        if self._connection.poll(self.seconds_max):
            return pickle.loads(self._connection.recv_bytes())
        if self._child != 0:
            os.kill(self._child, signal.SIGKILL)
        raise EOFError

    def _fork(self):
        self._child = 0
        self._connection, connection = multiprocessing.Pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other threads may hold locks: then the time passes
            middle = os.fork()
            if middle == 0:
                self._fork_again(connection)
        connection.close()
        with contextlib.suppress(ChildProcessError):  # the program ignores SIGCHLD
            os.waitpid(middle, 0)
        self._child = self._receive()

    def _fork_again(self, connection):
        """Ends this child at once, so that the one that serves is no child of the program."""
        try:
            if os.fork() == 0:
                self._serve(connection)
        finally:
            os._exit(0)

    def _serve(self, connection):
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        os.closerange(3, connection.fileno())
        os.closerange(connection.fileno() + 1, _DESCRIPTORS_MAX)
        thread = threading.Thread(target=self._answer_all, args=[connection])
        thread.start()
        thread.join()

    def _answer_all(self, connection):
        """Answers until the other end is closed."""
        connection.send_bytes(pickle.dumps(os.getpid()))
        while True:
            request = pickle.loads(connection.recv_bytes())
            try:
                answer = (True, self._function(request))
            except Exception as error:
                answer = (False, f"{type(error).__name__}: {error}"[:_MESSAGE_MAX])
            connection.send_bytes(pickle.dumps(answer))
