"""Reads files with a JSON object, such as traces and plans, within limits."""

import gzip
import json
import re
import zlib
from pathlib import Path

from teraio.errors import Error

# The limits of src/base/json_file.h.
_INFLATED_BYTES_FREE = 64 << 20
_INFLATION_MAX = 50


def _inflated(path):
    limit_bytes = _INFLATED_BYTES_FREE + _INFLATION_MAX * path.stat().st_size
    with gzip.open(path) as file:
        text = file.read(limit_bytes + 1)
    if len(text) > limit_bytes:
        raise ValueError(
            f"expected at most {_INFLATION_MAX} times as much text as compressed data; "
            "decompress the file first if it is right"
        )
    return text


def read_json(path):
    """Returns the JSON object in a file, which is decompressed first if its name ends in .gz.

    Raises:
        teraio.Error: there is none. The message names the file.
    """
    path = Path(path)
    if not path.is_file():
        raise Error(f"{path} {'is not a file' if path.exists() else 'does not exist'}")
    try:
        value = json.loads(_inflated(path) if path.suffix == ".gz" else path.read_bytes())
    except (MemoryError, RecursionError):
        raise Error(f"{path} cannot be read: it does not fit into the memory") from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise Error(f"{path} cannot be read: {_reason(error)}") from None
    if not isinstance(value, dict):
        raise Error(f"{path}: expected a JSON object")
    return value


def _reason(error):
    if isinstance(error, json.JSONDecodeError):
        return f"expected JSON, found something else in line {error.lineno}"
    return getattr(error, "strerror", None) or error  # str() of an OSError repeats the path


def check_json(path, *expected_formats):
    """Checks that read_json() can read a file, and that its field "format" is one of those given.

    Without formats, any will do.

    Raises:
        teraio.Error: it is not. The message names the file.
    """
    value = read_json(path)
    if expected_formats and value.get("format") not in expected_formats:
        names = " or ".join(f'"{name}"' for name in expected_formats)
        raise Error(f'{path}: field "format": expected {names}')


def read_hashes(path):
    """Returns the dict in a file of hashes, from names to SHA-256 hashes in hex.

    Raises:
        teraio.Error: there is none. The message names the file.
    """
    hashes = read_json(path)
    if not hashes or not all(re.fullmatch("[0-9a-f]{64}", str(each)) for each in hashes.values()):
        raise Error(f"{path}: expected hashes, as `teraio run --verify` writes them")
    return hashes
