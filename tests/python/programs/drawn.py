"""What the full level draws by the day, of more than it has time for.

Tests print the day, and TERAIO_TEST_DAY=... repeats its choice. Choices that take turns come once
in TURNS days, and each half of the tests (`--slice day/2`) on every other day, so that six days
cover all. TERAIO_TEST_DAY=all leaves nothing out.
"""

import datetime
import os
import random

VARIABLE = "TERAIO_TEST_DAY"
# Workers of pytest-xdist get the day of their parent, also when they start after midnight.
DAY = os.environ.setdefault(VARIABLE, datetime.date.today().isoformat())
ALL = DAY == "all"
NUMBER = 0 if ALL else datetime.date.fromisoformat(DAY).toordinal()
TURNS = 3


def one_of(choices, name):
    """Returns one of the choices; another `name` draws another one."""
    return random.Random(f"{DAY} {name}").choice(choices)


def in_turn(choices):
    """Returns a third of the choices, in their order: another one on each of three days."""
    choices = list(choices)
    return choices if ALL else choices[NUMBER % TURNS % len(choices) :: TURNS]
