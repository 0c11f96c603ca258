"""Links of the documentation lead somewhere; each rule is shown to catch what it is for."""

import os
from pathlib import Path

import links
import pytest

ROOT = Path(__file__).parents[2]


def markdown_files():
    """The repository's documents, without what is built or installed in it."""
    for folder, subfolders, names in os.walk(ROOT):
        subfolders[:] = [name for name in subfolders if not name.startswith((".", "build"))]
        yield from (Path(folder) / name for name in names if name.endswith(".md"))


def test_links_lead_somewhere():
    paths = list(markdown_files())
    assert len(paths) > 10
    assert [line for path in paths for line in links.link_complaints(ROOT, path)] == []


def test_pages_of_the_site_link_to_its_parts():
    pages = [path for path in markdown_files() if links.is_page(ROOT, path)]
    assert len(pages) > 10
    assert [line for path in pages for line in links.site_complaints(ROOT, path)] == []


def test_named_files_exist():
    assert [line for path in markdown_files() for line in links.path_complaints(ROOT, path)] == []


def test_readme_is_short():
    assert links.readme_complaints((ROOT / "README.md").read_text()) == []


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Title\n\n## Plan: what, when\n")
    return tmp_path


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("b.md", "no such file"),
        ("a.md#plan", "a.md has no such heading"),
        ("#other", "page.md has no such heading"),
        ("/docs/a.md", "expected a relative link"),
        ("../../a.md", "leads out of the repository"),
    ],
)
@pytest.mark.parametrize("form", ["[text]({})", "![picture]({})", "[text]: {}"])
def test_rule_catches(folder, target, reason, form):
    page = folder / "docs" / "page.md"
    page.write_text(f"# Own\n\n{form.format(target)}\n")
    assert links.link_complaints(folder, page) == [f"docs/page.md: {target}: {reason}"]
