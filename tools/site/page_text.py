"""Corrects the text of the site's pages before they are rendered, and checks them afterwards."""

import itertools
import re
from html.parser import HTMLParser

_FENCE = re.compile(r"(^```.*?^```\s*$)", re.MULTILINE | re.DOTALL)
_LIST_IN_PARAGRAPH = re.compile(r"^(?![-*|#>\s]|\d+\.)(.+\n)(?=(?:[-*]|1\.) )", re.MULTILINE)


def lists_apart(markdown):
    """Adds an empty line before each list, which Python-Markdown needs and code hosts do not.

    >>> lists_apart("Rules:\\n- one\\n- two\\n")
    'Rules:\\n\\n- one\\n- two\\n'
    """
    parts = _FENCE.split(markdown)
    prose = [_LIST_IN_PARAGRAPH.sub(r"\1\n", part) for part in parts[::2]]
    code = [f"{part}\n" for part in parts[1::2]]
    return "".join(itertools.chain(*itertools.zip_longest(prose, code, fillvalue="")))


def remote_resources(html):
    """Collects the addresses that a browser would fetch from other sites to show the page.

    Addresses of links are not among them.
    """
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
            self.addresses.append("Mermaid")  # the theme fetches it for a page with a diagram


def commands_of(help_text):
    """Returns the names below "Subcommands:" in the help of a program.

    >>> commands_of("Usage: x\\n\\nSubcommands:\\n  run     Train\\n  dry-run Tell\\n")
    ['run', 'dry-run']
    """
    listed = help_text.partition("Subcommands:")[2]
    return re.findall(r"^  ([a-z][a-z-]*)", listed, re.MULTILINE)
