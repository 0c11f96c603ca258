"""How much TERAIO tells: errors and warnings of one line each, or also their details.

The level of the logger "teraio" decides, and `DEBUG` is verbose. The option -v of the commands and
$TERAIO_VERBOSE set it.
"""

import functools
import logging
import os
import platform
import shlex
import sys
import traceback

from teraio._build_info import VERSION

_VARIABLE = "TERAIO_VERBOSE"  # also of the C++ command and of the extension

_log = logging.getLogger("teraio")


def is_verbose():
    """Returns whether details are told."""
    return _log.isEnabledFor(logging.DEBUG)


def be_verbose():
    """Tells details from now on, in this process and in those that it starts."""
    os.environ[_VARIABLE] = "1"
    _log.setLevel(logging.DEBUG)
    if not _log.handlers:
        _log.addHandler(_stderr_handler())


def follow_environment():
    """Tells details from now on if $TERAIO_VERBOSE is neither empty nor 0."""
    if os.environ.get(_VARIABLE, "0") not in ("", "0"):
        be_verbose()


failed_calls = 0  # of functions that never_fails() has wrapped


def never_fails(function):
    """Wraps a function that finds names, figures and texts, which no program must fail for.

    What it raises is counted, and the first exception is logged with its traceback as a detail.
    The result is None then.
    """

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        global failed_calls
        try:
            return function(*args, **kwargs)
        except Exception:
            failed_calls += 1
            if failed_calls == 1:
                _log.debug(
                    "teraio: %s failed, which the run does not need", function, exc_info=True
                )
            return None

    return wrapper


def print_circumstances(error):
    """Prints on stderr what a report of an error needs: where it comes from, and the versions.

    The traceback has the causes that the message of the error stands for, too.
    """
    _keep_causes(error)
    traceback.print_exception(error)
    torch = sys.modules.get("torch")
    versions = [f"teraio {VERSION}", f"Python {platform.python_version()}"]
    versions += [f"PyTorch {torch.__version__}"] if torch else []
    print(f"  command: {shlex.join(sys.orig_argv)}", file=sys.stderr)
    print(f"  working directory: {os.getcwd()}", file=sys.stderr)
    print(f"  version: {', '.join(versions)} on {platform.platform()}", file=sys.stderr)


def _keep_causes(error):
    """Undoes `raise ... from None` for an error and its causes."""
    while error is not None:
        error.__suppress_context__ = error.__cause__ is not None
        error = error.__cause__ or error.__context__


def _stderr_handler():
    handler = logging.StreamHandler()
    handler.setFormatter(
        logging.Formatter("[%(asctime)s.%(msecs)03d] [%(levelname)s] %(message)s", "%F %T")
    )
    # A program that sets up logging has handlers of its own, which get the same records.
    handler.addFilter(lambda record: not logging.getLogger().handlers)
    return handler
