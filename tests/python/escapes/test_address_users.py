"""The functions of other packages that `address_users` lists exist in the pinned versions."""

import ast
import importlib.util
import pathlib

import pytest

from teraio.escapes import address_users

TABLES = [getattr(address_users, name) for name in ("COMPARE", "KEEP", "BORROW", "IN_OPS")]


def listed():
    """Returns the listed names by module."""
    names = {}
    for table in TABLES:
        for module, paths in table.items():
            names.setdefault(module, set()).update(paths)
    return names


def source_of(module):
    """Returns the file of a module, which is not imported, or None if its package lacks it."""
    package, *parts = module.split(".")
    (folder,) = importlib.util.find_spec(package).submodule_search_locations
    file = pathlib.Path(folder, *parts).with_suffix(".py")
    return file if file.exists() else None


def names_of(file):
    """Returns the functions and methods that a file defines."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{getattr(each, 'name', '')}" for each in node.body}
    return names


@pytest.mark.parametrize("module", sorted(listed()))
def test_listed_names_exist_in_the_pinned_version_unless_marked(module):
    package = module.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"not applicable: {package} is not installed in this environment")
    file = source_of(module)
    missing = listed()[module] - (names_of(file) if file else set())
    assert missing == set(address_users.OTHER_VERSIONS.get(module, ()))
