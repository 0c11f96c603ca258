"""The options of a session are declared once, for Python and for the command line."""

import inspect

import pytest

from teraio import Error, offload
from teraio.commands import COMMANDS
from teraio.options import add_arguments, checked, flag

BUDGET = {"device_budget": "1GB"}


class Helps:
    """Stands for a parser: notes the help of each option."""

    def __init__(self):
        self.helps = {}

    def add_argument(self, name, help, **_):
        self.helps[name] = help


def test_each_option_has_a_help():
    helps = Helps()
    add_arguments(helps, *inspect.signature(offload).parameters)
    assert len(helps.helps) > 15 and all(helps.helps.values())
    assert not any(text.endswith(".") for text in helps.helps.values())


def test_defaults_are_those_of_python():
    options = COMMANDS["run"].parser().parse_args(["train.py"])
    parameters = inspect.signature(offload).parameters
    for name, value in vars(options).items():
        assert name not in parameters or value == parameters[name].default


@pytest.mark.parametrize(
    "option, problem",
    [
        ({"host_limit": "40%"}, '"40%" is not a size'),
        ({"policy": "guess"}, '"guess" is not known: expected one of planned, on-demand'),
        ({"recompute": "some"}, '"some" is not known: expected one of off, cheap, all'),
        ({"io_timeout": 0}, '"0" is not a number of seconds'),
        ({"write_budget": "2TB"}, '"2TB" is not a write budget'),
        ({"timeline_steps": "5:3"}, 'the steps of the timeline are "5:3"'),
        ({"plan": "/nowhere.json"}, "/nowhere.json does not exist"),
        ({"host_limit": None}, '"None" is not a size'),
        ({"ssd_capacity": None}, '"None" is not a size'),
        ({"checksum": "no"}, '"no" is not known: expected one of True, False'),
        ({"plans_in_background": "no"}, '"no" is not known: expected one of True, False'),
        ({"io_timeout": True}, '"True" is not a number of seconds'),
        ({"report": 5}, '"5" is not a path: expected text that is not empty, or a Path'),
        ({"verify": ""}, '"" is not a path'),
        ({"ssd": 5}, '"5" is not a path'),
        ({"ssd": True}, '"True" is not a path'),
        ({"ssd": [""]}, '"" is not a path'),
        ({"ssd": [None]}, '"None" is not a path'),
    ],
)
@pytest.mark.parametrize("named", [str, flag])
def test_message_names_the_option_as_the_user_knows_it(option, problem, named):
    (name,) = option
    with pytest.raises(Error) as failure:
        checked(BUDGET | option, named)
    assert str(failure.value).startswith(f"{named(name)}: {problem}")
