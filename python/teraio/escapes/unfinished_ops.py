"""Operators that other threads began before a session, which nobody observes.

They may use tensors by their addresses, so nothing older than the session moves before they end.
"""

import logging
import threading
import time

from teraio import core
from teraio.errors import Error

_log = logging.getLogger("teraio")

NOTICE_S = 10
LIMIT_S = 60


def wait_for_end():
    """Waits until no thread can be in the middle of such an operator.

    After NOTICE_S, a warning names the threads that are waited for.

    Raises:
        teraio.Error: a thread has computed for LIMIT_S without calling a Python function. The
            message names it.
    """
    start = time.monotonic()
    is_told = False
    while idents := core.threads_in_unfinished_ops():
        waited_s = time.monotonic() - start
        if waited_s >= LIMIT_S:
            raise Error(
                f"{_named(idents)} has been computing since before the session began, for "
                f"{LIMIT_S} s and more: one of its operators could lose bytes of tensors that the "
                "session moves. Start the session when no other thread computes"
            )
        if waited_s >= NOTICE_S and not is_told:
            is_told = True
            _log.warning(
                "teraio: the session waits for %s, which may be in an operator that it began "
                "before the session; after %d s the session does not start",
                _named(idents),
                LIMIT_S,
            )
        time.sleep(0.001)


def _named(idents):
    names = {thread.ident: f"thread {thread.name!r}" for thread in threading.enumerate()}
    return ", ".join(names.get(ident, f"the thread with number {ident}") for ident in idents)
