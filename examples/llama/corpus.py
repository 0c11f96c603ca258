"""Text to train on, as JSON lines in the form of C4: one `{"text": ...}` per line."""

import gzip
import json
import re
from pathlib import Path

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


def python_docs(root: Path = SYSTEM_DOCS) -> Path:
    """Returns the prose sources of the newest installed python3-doc package."""
    found = [path for path in root.glob(f"python3*/{SOURCES}") if path.is_dir()]
    if not found:
        raise DataError(
            f"no text to train on: {root}/python3*/{SOURCES} does not exist. Install the Debian "
            "package python3-doc (apt-get install python3-doc) or name a C4 file with --data."
        )
    return max((path.resolve() for path in found), key=_version)


def _version(sources: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", sources.parts[-3])]


def python_docs_corpus(cache: Path, root: Path = SYSTEM_DOCS) -> Path:
    """Writes the prose of python3-doc as a C4 file under `cache`, once; returns its path."""
    sources = python_docs(root)
    corpus = cache / f"{sources.parts[-3]}-docs.json.gz"
    if not corpus.exists():
        with replacing(corpus) as partial, gzip.open(partial, "wt", encoding="utf-8") as lines:
            for page in sorted(sources.rglob("*.rst.txt")):
                record = {"text": page.read_text("utf-8"), "url": str(page.relative_to(sources))}
                lines.write(json.dumps(record) + "\n")
    return corpus
