"""Results that are kept by what they were made from, so that a run goes on where one ended."""

import hashlib
import json
import os
from pathlib import Path


class Cache:
    """JSON results in a folder, one file for each key of content."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def get(self, name, ingredients, make):
        """The kept result, or that of make(); and whether it was kept.

        `ingredients` are what it depends on: strings and numbers stand for themselves, a Path for
        the bytes of its file.
        """
        path = self.folder / f"{name}-{content_key(ingredients)}.json"
        if path.exists():
            return json.loads(path.read_text()), True
        result = make()
        partial = path.with_suffix(f".{os.getpid()}.partial")
        partial.write_text(json.dumps(result))
        partial.replace(path)
        return result, False


def content_key(ingredients):
    digest = hashlib.sha256()
    for part in ingredients:
        content = part.read_bytes() if isinstance(part, Path) else repr(part).encode()
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()[:16]
