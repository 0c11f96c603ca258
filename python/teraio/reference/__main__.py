"""`python -m teraio.reference FOLDER`: writes manual pages and completions into a folder `share`.

The build does this. The folders inside are those where man and the shells look.
"""

import sys
from pathlib import Path

from teraio.reference.completion import completion_script
from teraio.reference.manual import manual_pages
from teraio.reference.parsers import described_commands

_COMPLETIONS = {
    "bash": "bash-completion/completions/teraio",
    "zsh": "zsh/site-functions/_teraio",
    "fish": "fish/vendor_completions.d/teraio.fish",
}


def main(folder):
    """Writes the files."""
    described = described_commands()
    for shell, name in _COMPLETIONS.items():
        _write(folder / name, completion_script(described, shell))
    for name, text in manual_pages(described).items():
        _write(folder / "man" / "man1" / name, text)


def _write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
