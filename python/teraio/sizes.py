"""Sizes as people write and read them. The same grammar as `parse_size` of the C++ core."""

import re

from teraio.errors import Error

_PATTERN = re.compile(r"(\d+\.?\d*|\.\d+)\s*(?:([kmgtp])(i?)b?|b)?", re.IGNORECASE)
_PERCENT = re.compile(r"(\d+\.?\d*|\.\d+)\s*%")
_LARGEST_BYTES = 2**62
_PERIOD_SECONDS = {"iteration": 0, "hour": 3600, "day": 86400}


def parse_size(text, whole_bytes=0):
    """Bytes of "1.5GB", "800MiB", "1200000000" or an int; with `whole_bytes` also of "40%".

    Decimal prefixes are powers of 1000, the ones with an "i" powers of 1024; a fraction is rounded
    down to a byte. Raises teraio.Error for anything else.

    >>> parse_size("1.5GB"), parse_size("800MiB"), parse_size("40%", whole_bytes=1000)
    (1500000000, 838860800, 400)
    """
    size_bytes = _size_or_none(str(text).strip(), whole_bytes)
    if size_bytes is None or size_bytes >= _LARGEST_BYTES:
        share = " or 40%" if whole_bytes else ""
        raise Error(f'"{text}" is not a size: expected e.g. 1.5GB, 800MiB, 1200000000{share}')
    return size_bytes


def format_size(size_bytes):
    """As people read it.

    >>> format_size(1_500_000), format_size(123_400_000_000)
    ('1.5 MB', '123 GB')
    """
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= scale:
            return f"{three_digits(size_bytes / scale)} {unit}"
    return f"{size_bytes} B"


def three_digits(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def parse_write_budget(text):
    """(bytes, seconds) of "2TB/day", "80GB/hour" or "5GB/iteration", whose seconds are 0.

    Raises teraio.Error for anything else.

    >>> parse_write_budget("2TB/day"), parse_write_budget("5GB/iteration")
    ((2000000000000, 86400), (5000000000, 0))
    """
    size, _, period = str(text).partition("/")
    size_bytes = _size_or_none(size.strip(), 0)
    if period.strip() not in _PERIOD_SECONDS or size_bytes is None or size_bytes >= _LARGEST_BYTES:
        raise Error(f'"{text}" is not a write budget: expected e.g. 2TB/day or 5GB/iteration')
    return size_bytes, _PERIOD_SECONDS[period.strip()]


def _size_or_none(text, whole_bytes):
    if whole_bytes and (match := _PERCENT.fullmatch(text)):
        return int(float(match[1]) * whole_bytes / 100)
    if not (match := _PATTERN.fullmatch(text)):
        return None
    number, prefix, binary = match[1], match[2], match[3]
    power = "kmgtp".index(prefix.lower()) + 1 if prefix else 0
    scale = (1024 if binary else 1000) ** power
    return int(number) * scale if number.isdigit() else int(float(number) * scale)
