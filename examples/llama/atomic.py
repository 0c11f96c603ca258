"""Files that are complete or absent, never half written."""

import json
import os
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path):
    """Yields a temporary path beside `path`, renamed to `path` only if the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_json(path: Path, value) -> None:
    with replacing(path) as partial:
        partial.write_text(json.dumps(value, indent=1))
