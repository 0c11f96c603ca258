"""Text to train on, as JSON lines in the form of C4: one `{"text": ...}` per line."""

import gzip
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from pydoc_data.topics import topics

from .atomic import replacing

SYSTEM_DOCS = Path("/usr/share/doc")
SOURCES = "html/_sources"


class DataError(Exception):
    """Raised when training data is missing or malformed; the message says what to do."""


def documents(path: Path):
    """Yields the texts of a C4 file (`.json` or `.json.gz`), in order."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                yield _text_of(line, path, number)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


def _text_of(line: str, path: Path, number: int) -> str:
    try:
        text = json.loads(line)["text"]
    except (json.JSONDecodeError, KeyError, TypeError):
        text = None
    if not isinstance(text, str):
        raise DataError(f'{path}:{number}: expected a JSON object with a string "text"')
    return text


def python_docs(root: Path = SYSTEM_DOCS) -> tuple[str, Iterable]:
    """Returns a name and the pages (name, text) of the newest installed python3-doc package.

    Without one, the pages are those that `help()` of this Python has, a twentieth as much.
    """
    found = [path.resolve() for path in root.glob(f"python3*/{SOURCES}") if path.is_dir()]
    if not found:
        return f"python{sys.version_info.major}.{sys.version_info.minor}-help", topics.items()
    sources = max(found, key=_version)
    pages = sorted(sources.rglob("*.rst.txt"))
    texts = ((str(page.relative_to(sources)), page.read_text("utf-8")) for page in pages)
    return f"{sources.parts[-3]}-docs", texts


def _version(sources: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", sources.parts[-3])]


def python_docs_corpus(cache: Path, root: Path = SYSTEM_DOCS) -> Path:
    """Writes the prose of Python's documentation as a C4 file under `cache`; returns its path."""
    name, pages = python_docs(root)
    corpus = cache / f"{name}.json.gz"
    if not corpus.exists():
        with replacing(corpus) as partial, gzip.open(partial, "wt", encoding="utf-8") as lines:
            for page, text in pages:
                lines.write(json.dumps({"text": text, "url": page}) + "\n")
    return corpus
