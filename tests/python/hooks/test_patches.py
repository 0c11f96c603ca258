"""Patches of modules and classes are undone exactly."""

import types

import pytest

from teraio.hooks.patches import Patches


class Base:
    def inherited(self):
        return "inherited"


class Owner(Base):
    @staticmethod
    def static():
        return "static"


@pytest.fixture
def patches():
    patches = Patches()
    yield patches
    patches.undo()


def test_an_attribute_that_is_patched_twice_gets_its_first_value_back(patches):
    module = types.SimpleNamespace(size=1)
    patches.set(module, "size", 2)
    patches.wrap(module, "size", lambda size: size + 10)
    assert module.size == 12
    patches.undo()
    assert module.size == 1
    module.size = 5
    patches.undo()
    assert module.size == 5


def test_an_inherited_method_is_inherited_again(patches):
    patches.wrap(Owner, "inherited", lambda method: lambda self: method(self).upper())
    assert Owner().inherited() == "INHERITED" and Base().inherited() == "inherited"
    patches.undo()
    assert "inherited" not in vars(Owner)


def test_a_static_method_is_static_again(patches):
    patches.wrap(Owner, "static", lambda function: staticmethod(lambda: function().upper()))
    assert Owner().static() == Owner.static() == "STATIC"
    patches.undo()
    assert Owner().static() == Owner.static() == "static"


def test_a_patch_that_other_code_has_made_over_it_goes_with_it(patches):
    module = types.SimpleNamespace(size=1)
    patches.set(module, "size", 2)
    module.size = 3
    patches.undo()
    assert module.size == 1


@pytest.mark.parametrize("owner, name", [(int, "bit_length"), (Owner, "missing")])
def test_a_patch_that_fails_leaves_the_others_to_be_undone(patches, owner, name):
    module = types.SimpleNamespace(size=1)
    assert not patches
    patches.set(module, "size", 2)
    with pytest.raises((TypeError, AttributeError)):
        patches.set(owner, name, None)
    assert patches
    patches.undo()
    assert module.size == 1 and not patches
