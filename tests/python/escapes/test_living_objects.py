"""Looking at all objects of the interpreter disturbs no other thread."""

import contextlib
import sys
import threading
import time

import pytest
import torch

from teraio.hooks.module_names import outermost_modules


@pytest.fixture
def frequent_switches():
    """Threads take turns as often as they can."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval_s)


def grow_tuples(until, failures):
    """A tuple that has a second reference cannot grow."""
    while not until.is_set():
        try:
            assert tuple(each for each in range(40)) == tuple(range(40))
        except SystemError as error:
            failures.append(error)


@contextlib.contextmanager
def growing_tuples():
    """A thread that makes tuples; gives the list of its failures."""
    until, failures = threading.Event(), []
    thread = threading.Thread(target=grow_tuples, args=(until, failures))
    thread.start()
    try:
        yield failures
    finally:
        until.set()
        thread.join()


def test_tuples_grow_during_a_search(frequent_switches):
    with growing_tuples() as failures:
        end = time.monotonic() + 2
        while not failures and time.monotonic() < end:
            outermost_modules()
    assert not failures


def test_instances_are_found_by_their_types():
    class Disguised(torch.nn.Linear):
        @property
        def __class__(self):
            raise AssertionError("a search executes nothing of the program")

    disguised = Disguised(2, 2)
    assert any(module is disguised for module in outermost_modules())
