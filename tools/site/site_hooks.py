"""MkDocs hooks of the site.

README.md, CONTRIBUTING.md and CHANGELOG.md of the repository become pages, the first one the home
page. The page of the commands gets the text that each `teraio COMMAND --help` prints. A page that
would load a script, a style or a picture from another site fails the build.
"""

import os
import subprocess
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from page_text import commands_of, lists_apart, remote_resources

ROOT = Path(__file__).resolve().parents[2]
COMMAND = ROOT / "build" / "bin" / "teraio"
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
HELP_MARK = "<!-- help of every command -->"


def on_files(files, config):
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=_as_page((ROOT / name).read_text())))
    return files


def on_page_markdown(markdown, page, **_):
    if page.file.src_uri == "reference.md":
        markdown = markdown.replace(HELP_MARK, _command_reference())
    return lists_apart(markdown)


def on_post_page(output, page, **_):
    if remote := remote_resources(output):
        raise PluginError(f"{page.file.src_uri}: loads from another site: {', '.join(remote)}")
    return output


def _as_page(text):
    """Makes the links of a document at the top of the repository those of the site."""
    text = text.replace("](docs/", "](")
    for name, page in PAGES.items():
        text = text.replace(f"]({name}", f"]({page}")
    return text


def _command_reference():
    """Makes a section per command in `teraio --help`. Raises PluginError without a build."""
    names = commands_of(_help_of())
    if not names:
        raise PluginError(f"{COMMAND} --help lists no commands")
    sections = [f"### teraio {name}\n\n```text\n{_help_of(name)}\n```\n" for name in names]
    return "\n".join(sections)


def _help_of(*command):
    environment = os.environ | {"COLUMNS": "100"}  # the width at which argparse breaks lines
    try:
        shown = subprocess.run(
            [COMMAND, *command, "--help"],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
            timeout=60,
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", None) or error
        line = f"teraio {' '.join(command)} --help: {reason}: run `make build`"
        raise PluginError(line) from None
    return shown.stdout.strip()
