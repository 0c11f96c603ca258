"""Shrinking, which programs and faults by seed share."""

from shrinking import shrink


def test_the_items_that_matter_are_left():
    assert shrink(list(range(50)), lambda rest: {3, 41} <= set(rest)) == [3, 41]


def test_nothing_is_dropped_where_all_matters():
    assert shrink([1, 2, 3], lambda rest: len(rest) == 3) == [1, 2, 3]
