"""Answers: what a program has read from tensors in a real run, for dry runs of the program.

The first steps are recorded: the numbers and arrays that the program reads, and the sizes of
results that depend on data, each by the line that asks, in order. docs/formats.md has the format.
"""

import json

from teraio.arguments import read_json
from teraio.errors import Error

FORMAT = "teraio-answers/1"
KINDS = ("sizes", "numbers", "arrays")


class AnswerLog:
    """The answers of some steps, as they are given."""

    def __init__(self):
        self._steps = [{kind: {} for kind in KINDS}]

    def add(self, kind, place, value):
        """Adds an answer of the current step.

        Args:
            kind: one of KINDS.
            place: the line that asks, as a text: "train.py:41".
            value: a number; for "arrays" a list of numbers, or None if there are too many.
        """
        self._steps[-1][kind].setdefault(place, []).append(value)

    def end_step(self):
        self._steps.append({kind: {} for kind in KINDS})

    def step_count(self):
        """Returns the number of steps that have ended."""
        return len(self._steps) - 1

    def to_json(self):
        """Returns the text of a file of answers, without the step that has not ended."""
        return json.dumps({"format": FORMAT, "steps": self._steps[:-1]}) + "\n"


class LearnedAnswers:
    """The answers of a real run, in the order in which a dry run asks for them.

    The first step of the dry run gets those of the first recorded step, and the steps after it get
    those of the others in turn.

    Args:
        steps: a list of dicts from each of KINDS to a dict from a line to its answers.
    """

    def __init__(self, steps):
        self._steps = steps
        self._step = 0
        self._taken = {}
        self._places = {}  # by location: the place that it has in the file

    def next(self, kind, location):
        """Returns the answer for a `SourceLocation` that asks once more in this step, or None."""
        answers = self._steps[self._turn()][kind]
        place = self._place_of(location)
        given = answers.get(place)
        if not given:
            return None
        taken = self._taken.get((kind, place), 0)
        self._taken[kind, place] = taken + 1
        return given[min(taken, len(given) - 1)]

    def end_step(self):
        """Notes that a step of an optimizer has ended."""
        self._step += 1
        self._taken = {}

    def _turn(self):
        later = len(self._steps) - 1
        return 1 + (self._step - 1) % later if self._step and later else 0

    def _place_of(self, location):
        if location not in self._places:
            names = {name for step in self._steps for kind in KINDS for name in step[kind]}
            self._places[location] = next(
                (name for name in sorted(names) if location.is_at(*_parts(name))), None
            )
        return self._places[location]


def _parts(place):
    path, _, line = place.rpartition(":")
    return path, int(line)


def load_answers(path):
    """Returns the `LearnedAnswers` of a file.

    Raises:
        teraio.Error: the file cannot be read, or is not such a file. The message names the field.
    """
    value = read_json(path)
    if value.get("format") != FORMAT:
        raise Error(f'{path}: field "format": expected "{FORMAT}"')
    steps = value.get("steps")
    if not isinstance(steps, list) or not steps:
        raise Error(f'{path}: field "steps": expected a list of at least one step')
    for number, step in enumerate(steps):
        _check_step(path, f"steps[{number}]", step)
    return LearnedAnswers(steps)


def _check_step(path, name, step):
    for kind in KINDS:
        answers = step.get(kind) if isinstance(step, dict) else None
        if not isinstance(answers, dict):
            raise Error(f'{path}: field "{name}.{kind}": expected an object')
        for place, given in answers.items():
            if not place.rpartition(":")[2].isdigit():
                raise Error(f'{path}: field "{name}.{kind}": "{place}" is no FILE:LINE')
            if not isinstance(given, list) or not all(_is_answer(kind, each) for each in given):
                raise Error(f'{path}: field "{name}.{kind}": {place}: expected a list of {kind}')


def _is_answer(kind, value):
    if kind == "sizes":
        return type(value) is int and value >= 0
    if kind == "numbers":
        return isinstance(value, (bool, int, float))
    return value is None or (
        isinstance(value, list) and all(isinstance(each, (bool, int, float)) for each in value)
    )
