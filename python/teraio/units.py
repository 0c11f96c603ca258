"""Sizes, durations and write budgets as people write and read them.

The C++ core reads and prints sizes and durations; this module needs no torch.
"""

import math

from teraio import _units
from teraio.errors import Error

_PERIOD_SECONDS = {"iteration": 0, "hour": 3600, "day": 86400}


def parse_size(text, whole_bytes=0):
    """Returns the number of bytes in a size such as "1.5GB", "800MiB", "1200000000" or an int.

    Decimal prefixes are powers of 1000, prefixes with an "i" are powers of 1024, and a fraction is
    rounded down to a byte.

    >>> parse_size("1.5GB"), parse_size("800MiB"), parse_size("40%", whole_bytes=1000)
    (1500000000, 838860800, 400)

    Args:
        text: a string or an int.
        whole_bytes: the size in bytes that a percentage refers to. If it is 0, percentages are
            refused.

    Raises:
        teraio.Error: `text` is not a size, is negative, or is 2**62 bytes or more.
    """
    return _units.parse_size(str(text).encode(errors="backslashreplace"), whole_bytes)


def format_size(size_bytes):
    """Returns a size in bytes as text with three significant digits and a decimal prefix.

    >>> format_size(1_500_000), format_size(123_400_000_000)
    ('1.50 MB', '123 GB')
    """
    return _units.format_size(size_bytes)


def format_duration(duration_ns):
    """Returns a duration in nanoseconds as text with three significant digits and a unit.

    >>> format_duration(3_210_000_000), format_duration(12_000_000), format_duration(850_000)
    ('3.21 s', '12.0 ms', '850 us')
    """
    return _units.format_duration(duration_ns)


def parse_seconds(text):
    """Returns the nanoseconds in a number of seconds, which is a string, an int or a float.

    >>> parse_seconds("2.5"), parse_seconds(30)
    (2500000000, 30000000000)

    Raises:
        teraio.Error: `text` is not a number from 0.001 to 1,000,000.
    """
    try:
        seconds = math.nan if isinstance(text, bool) else float(text)
    except (TypeError, ValueError):
        seconds = math.nan
    if not 0.001 <= seconds <= 1_000_000:
        raise Error(f'"{text}" is not a number of seconds: expected 0.001 to 1000000')
    return round(seconds * 1_000_000_000)


def parse_write_budget(text):
    """Returns a write budget as a pair: the bytes, and the seconds in which they may be written.

    For a budget per iteration the seconds are 0.

    >>> parse_write_budget("2TB/day"), parse_write_budget("5GB/iteration")
    ((2000000000000, 86400), (5000000000, 0))

    Raises:
        teraio.Error: `text` does not consist of a size, "/", and "iteration", "hour" or "day".
    """
    size, _, period = str(text).partition("/")
    try:
        return parse_size(size), _PERIOD_SECONDS[period.strip()]
    except (Error, KeyError):
        message = f'"{text}" is not a write budget: expected e.g. 2TB/day or 5GB/iteration'
        raise Error(message) from None
