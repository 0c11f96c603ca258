"""What the project asks of its Markdown files: each rule a function that gives complaints, one line
each. Works on text alone, so that it needs neither MkDocs nor the network."""

import re
from pathlib import Path
from urllib.parse import unquote

README_LINES_MAX = 120
README_COLUMNS_MAX = 120

_FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_INLINE_CODE = re.compile(r"`[^`\n]*`")
# In folders that are the repository's, and without a part to fill in, such as <layer> or *.
_PATH = re.compile(
    r"`((?:src|pytorch|python|cli|testing|tests|tools|benchmarks|examples|evaluation|requirements"
    r"|cmake)/[\w./-]+)`"
)
_LINK = re.compile(r"\]\(\s*<?([^)<>\s]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_REFERENCE = re.compile(r"^\s{0,3}\[[^\]]+\]:\s+(\S+)", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def link_targets(text):
    """The targets of a document's links and pictures, without those in code."""
    prose = _INLINE_CODE.sub("", _FENCE.sub("", text))
    return _LINK.findall(prose) + _REFERENCE.findall(prose)


def named_paths(text):
    """The files and folders of the repository that a document names in `code`."""
    return [code.rstrip("/") for code in _PATH.findall(_FENCE.sub("", text))]


def anchors(text):
    """The anchors of a document's headings, as code hosts and the site make them."""
    return {slug(heading) for heading in _HEADING.findall(_FENCE.sub("", text))}


def slug(heading):
    """
    >>> slug("Plan: what to move, when"), slug("The `teraio doctor` command")
    ('plan-what-to-move-when', 'the-teraio-doctor-command')
    """
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", words.lower()).strip().replace(" ", "-")


def link_complaints(root, path):
    """Links of the Markdown file `path` below `root` that lead nowhere in the repository."""
    text = path.read_text()
    name = path.relative_to(root)
    return [
        f"{name}: {target}: {reason}"
        for target in link_targets(text)
        if (reason := _fault(root, path, target))
    ]


def is_page(root, path):
    """Whether a file becomes a page of the site, or lies beside its pages."""
    return root / "docs" in path.parents or path in (
        root / "README.md",
        root / "CONTRIBUTING.md",
        root / "CHANGELOG.md",
    )


def site_complaints(root, path):
    """Links of a page that lead to files of the repository which the site does not have."""
    return [
        f"{path.relative_to(root)}: {target}: not a part of the site"
        for target in link_targets(path.read_text())
        if not _SCHEME.match(target) and not target.startswith("#")
        if not is_page(root, (path.parent / unquote(target).partition("#")[0]).resolve())
    ]


def path_complaints(root, path):
    """Files that the Markdown file `path` names and that the repository does not have."""
    name = path.relative_to(root)
    return [
        f"{name}: `{named}` is not there"
        for named in named_paths(path.read_text())
        if not (root / named).exists()
    ]


def _fault(root, path, target):
    """Why a link of `path` does not work; None when it does, or leads to another site."""
    if _SCHEME.match(target):
        return None
    address, _, anchor = unquote(target).partition("#")
    if address.startswith("/"):
        return "expected a relative link"
    file = (path.parent / address).resolve() if address else path
    if root not in [file, *file.parents]:
        return "leads out of the repository"
    if not file.exists():
        return "no such file"
    if anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
        return f"{Path(address or path).name} has no such heading"
    return None


def readme_complaints(text):
    lines = text.splitlines()
    complaints = [
        f"README.md:{number}: {len(line)} characters, at most {README_COLUMNS_MAX}"
        for number, line in enumerate(lines, 1)
        if len(line) > README_COLUMNS_MAX
    ]
    if len(lines) > README_LINES_MAX:
        complaints.append(f"README.md: {len(lines)} lines, at most {README_LINES_MAX}")
    return complaints
