"""Random programs have equal bits when everything leaves after every op, or are refused in words.

`PYTHONPATH=tests/python/programs python -m random_programs --seed N` repeats a seed.
"""

import drawn
import pytest
from random_programs import trials

FAST = range(3)
FULL = [range(first, first + 5) for first in range(3, 33, 5)]

pytestmark = pytest.mark.usefixtures("one_settled_thread")


@pytest.mark.parametrize(
    "seeds",
    [FAST, *(pytest.param(seeds, marks=pytest.mark.full) for seeds in drawn.in_turn(FULL))],
    ids=str,
)
def test_equal_bits(seeds):
    for seed in seeds:
        words = trials.report(seed)
        print(f"seed {seed}: {words or 'equal'}")
        assert not trials.is_failure(words), words
