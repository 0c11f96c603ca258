"""What the full level draws by the day, of more than it has time for.

Tests print the day, and TERAIO_TEST_DAY=... repeats its choice.
"""

import datetime
import os
import random

VARIABLE = "TERAIO_TEST_DAY"
# Workers of pytest-xdist get the day of their parent, also when they start after midnight.
DAY = os.environ.setdefault(VARIABLE, datetime.date.today().isoformat())


def one_of(choices, name):
    """Returns one of the choices; another `name` draws another one."""
    return random.Random(f"{DAY} {name}").choice(choices)


def some_of(choices, count, name):
    """Returns `count` of the choices, in their order."""
    chosen = set(random.Random(f"{DAY} {name}").sample(range(len(choices)), count))
    return [choice for place, choice in enumerate(choices) if place in chosen]
