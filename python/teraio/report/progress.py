"""Tells a person who waits what takes so long."""

import contextlib
import sys
import threading

_PATIENCE_SECONDS = 2


@contextlib.contextmanager
def told_if_slow(text):
    """Shows `text` on stderr if the block takes more than 2 s.

    On a terminal, it has a spinner and disappears with the end of the block; elsewhere, it is a
    line.
    """
    with contextlib.ExitStack() as shown:
        timer = threading.Timer(_PATIENCE_SECONDS, _show, [text, shown])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()


def _show(text, shown):
    if not sys.stderr.isatty():
        print(f"teraio report: {text} ...", file=sys.stderr, flush=True)
        return
    from rich.console import Console

    shown.enter_context(Console(stderr=True).status(f"teraio report: {text}"))
