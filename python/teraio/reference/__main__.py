"""`python -m teraio.reference FOLDER`: writes the completions into a folder `share`.

The build does this. The folders inside are those where the shells look.
"""

import sys
from pathlib import Path

from teraio.reference.completion import completion_script
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
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(completion_script(described, shell))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
