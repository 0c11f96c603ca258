"""MkDocs hooks of the site.

CONTRIBUTING.md and CHANGELOG.md of the repository become pages. The page of the commands gets the
text that each `teraio COMMAND --help` prints. A page that would load a script, a style or a picture
from another site fails the build.
"""

import itertools
import os
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
COMMAND = ROOT / "build" / "bin" / "teraio"
HELP_MARK = "<!-- help of every command -->"
_FENCE = re.compile(r"(^```.*?^```\s*$)", re.MULTILINE | re.DOTALL)
_LIST_IN_PARAGRAPH = re.compile(r"^(?![-*|#>\s]|\d+\.)(.+\n)(?=(?:[-*]|1\.) )", re.MULTILINE)


def on_files(files, config):
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        text = (ROOT / name).read_text()
        files.append(File.generated(config, name.lower(), content=text.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown, page, **_):
    if page.file.src_uri == "commands.md":
        markdown = markdown.replace(HELP_MARK, command_reference())
    return lists_apart(markdown)


def lists_apart(markdown):
    """With empty lines before lists, which code hosts do not need and Python-Markdown does."""
    parts = _FENCE.split(markdown)
    prose = [_LIST_IN_PARAGRAPH.sub(r"\1\n", part) for part in parts[::2]]
    code = [f"{part}\n" for part in parts[1::2]]
    return "".join(itertools.chain(*itertools.zip_longest(prose, code, fillvalue="")))


def on_post_page(output, page, **_):
    if remote := remote_resources(output):
        raise PluginError(f"{page.file.src_uri}: loads from another site: {', '.join(remote)}")
    return output


def remote_resources(html):
    """What a browser would fetch from other sites to show the page. Links are not fetched."""
    found = _RemoteResources()
    found.feed(html)
    return found.addresses


class _RemoteResources(HTMLParser):
    def __init__(self):
        super().__init__()
        self.addresses = []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        address = attributes.get("src") or ""
        if tag == "link" and attributes.get("rel") in ("stylesheet", "icon", "preload"):
            address = attributes.get("href") or ""
        if re.match(r"(https?:)?//", address):
            self.addresses.append(address)
        if "mermaid" in (attributes.get("class") or "").split():
            self.addresses.append("Mermaid")  # which the theme loads where a page has a diagram


def command_reference():
    """A section for each command that `teraio --help` lists. Raises PluginError without a build."""
    names = re.findall(r"^  ([a-z][a-z-]*)", _help_of().partition("Subcommands:")[2], re.MULTILINE)
    if not names:
        raise PluginError(f"{COMMAND} --help lists no commands")
    sections = [f"## teraio {name}\n\n```text\n{_help_of(name)}\n```\n" for name in names]
    return "\n".join(sections)


def _help_of(*command):
    environment = os.environ | {"COLUMNS": "100"}  # at which argparse breaks lines
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
