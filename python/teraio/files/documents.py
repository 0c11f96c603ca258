"""The files that a session saves: its trace, its plan and the machine, in the formats of
docs/formats.md."""

import json
import tempfile
from pathlib import Path

from teraio.files.atomic_file import replace_text


class _Document:
    def __init__(self, save):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "document.json"
            save(str(path))
            self._text = path.read_text()

    def to_dict(self):
        """Returns the content of the file as a dict."""
        return json.loads(self._text)

    def save(self, path):
        """Writes the file that docs/formats.md describes, compressed if the name ends in .gz.

        Raises:
            OSError: the file cannot be written.
        """
        replace_text(path, self._text)


class Trace(_Document):
    """What one iteration did: its tensors and ops, as docs/formats.md describes them."""


class Plan(_Document):
    """The migrations of one iteration, as docs/formats.md describes them."""


class Hardware(_Document):
    """The capacities and rates of the machine, as docs/formats.md describes them."""
