"""Sizes as people write them. The same grammar as `parse_size` of the C++ core."""

import re

from teraio.errors import Error

_PATTERN = re.compile(r"(\d+\.?\d*|\.\d+)\s*(?:([kmgtp])(i?)b?|b)?", re.IGNORECASE)
_PERCENT = re.compile(r"(\d+\.?\d*|\.\d+)\s*%")
_LARGEST_BYTES = 2**62


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


def _size_or_none(text, whole_bytes):
    if whole_bytes and (match := _PERCENT.fullmatch(text)):
        return int(float(match[1]) * whole_bytes / 100)
    if not (match := _PATTERN.fullmatch(text)):
        return None
    number, prefix, binary = match[1], match[2], match[3]
    power = "kmgtp".index(prefix.lower()) + 1 if prefix else 0
    scale = (1024 if binary else 1000) ** power
    return int(number) * scale if number.isdigit() else int(float(number) * scale)
