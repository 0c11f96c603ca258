"""The value policy: the values that a script gets when it reads a tensor in a dry run.

A value that no parameter and no activation decides is known (`known_values`). A script that
reads another number, such as `loss.item()` for a log line, gets 1, and a mask selects half of the
elements (of all, where the most memory is wanted). A truth value has the answer of a sound training
where there is one (`sound_answers`).
Any other decides what the script does next, so it is not guessed: the dry run ends with an error
that names the line, unless --assume gives the value.
"""

import sys
from collections import Counter

import numpy as np
import torch

from teraio.dry_run.sound_answers import noted_answer
from teraio.errors import Error
from teraio.hooks.source_location import calling_location, script_location

_ASKED_OFTEN = 1000  # a loop may wait for the other answer

# Values for files of torch that must not get 1. A gradient scaler skips the optimizer's step if it
# reads that a gradient has overflowed.
_READ_BY_TORCH = {"amp/grad_scaler.py": 0}
_NUMPY_TYPES = {torch.bfloat16: "float32"}  # for types that NumPy lacks


def parse_assumption(text):
    """Returns the place and the value of an assumption as a pair.

    The place is (path, line) for "train.py:41=true" or "train.py:41=0.5", and None for "7", which
    holds everywhere. The value is a bool or a float.

    Raises:
        teraio.Error: the text has another form.
    """
    place, _, value = text.rpartition("=")
    path, _, line = place.rpartition(":")
    if place and (not path or not line.isdigit()):
        raise Error(f'--assume "{text}": expected VALUE or FILE:LINE=VALUE, e.g. train.py:41=true')
    return (path, int(line)) if place else None, _parse_value(value, text)


def _parse_value(value, text):
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    try:
        return float(value)
    except ValueError:
        raise Error(f'--assume "{text}": "{value}" is neither a number nor true or false') from None


class ValuePolicy:
    """Chooses the values for a script that reads tensors, and records them by line.

    `answered` is a dict from each `SourceLocation` outside of torch to the first value that was
    assumed there.

    Args:
        assumptions: texts of --assume, as parse_assumption() reads them. The first match counts.
        selects_all: whether an operator that selects by unknown values selects all elements, which
            is the most that it can.

    Raises:
        teraio.Error: an assumption has another form.
    """

    def __init__(self, assumptions=(), selects_all=False):
        self._selects_all = selects_all
        self._assumptions = [parse_assumption(text) for text in assumptions]
        self.answered = {}
        self.has_guessed_size = False
        self._asked = Counter()

    def number(self, dtype, known=None, guess=None):
        """Returns the value for `item()` and for methods that call it, as a Python number.

        Args:
            dtype: that of the tensor, which decides the type: bool, int, float or complex.
            known: its value, or None.
            guess: the answer of a sound training, or None.

        Raises:
            teraio.Error: the script reads a truth value that is neither known nor guessed.
        """
        location = calling_location()
        value = _first(self._assumed(location), known, guess)
        if location.is_in_torch:
            return _of_type(_by_torch(location) if value is None else value, dtype)
        if value is None and dtype == torch.bool:
            raise Error(_truth_message(location))
        value = _of_type(1 if value is None else value, dtype)
        if known is None:
            self.answered.setdefault(location, value)
            self._tell_of_loop(location, value)
        return value

    def _tell_of_loop(self, location, value):
        self._asked[location] += 1
        if self._asked[location] == _ASKED_OFTEN and isinstance(value, bool):
            other = str(not value).lower()
            print(
                f"teraio dry-run: {location} has got {value} {_ASKED_OFTEN:,} times: if a loop "
                f"waits for the other answer, give --assume {location}={other}",
                file=sys.stderr,
            )

    def array(self, tensor, known=None):
        """Returns the NumPy array for `numpy()` and `tolist()`, of the tensor's shape.

        It shares the memory of known contents. All elements that are not known are equal.

        Args:
            tensor: the fake tensor.
            known: the real tensor with its contents, or None.
        """
        location = calling_location()
        assumed = self._assumed(location)
        shape = tuple(tensor.shape)
        dtype = _NUMPY_TYPES.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))
        if assumed is None and known is not None:
            return known.to(getattr(torch, dtype)).resolve_conj().resolve_neg().numpy()
        value = _of_type(_first(assumed, noted_answer(tensor), 1), tensor.dtype)
        if not location.is_in_torch:
            self.answered.setdefault(location, value)
        return np.full(shape, value, dtype)

    def size(self, func, candidates, guess=None):
        """Returns the assumed size of an operator's result that depends on unknown values.

        If --assume gives none, it is half or all of the elements that the operator selects from.

        Args:
            func: an overload of the operator.
            candidates: the number of elements that it selects from, or None if it selects none.
            guess: its size, if half of the candidates is not the best guess.

        Raises:
            teraio.Error: no size is assumed at this line.
        """
        location = script_location()
        if candidates is None or self._selects_all:
            guess = candidates
        elif guess is None:
            guess = (candidates + 1) // 2
        size = _first(self._assumed(location, only_there=True), guess)
        if size is None:
            raise Error(unknown_shape_message(func))
        self.has_guessed_size = True
        self.answered.setdefault(location, int(size))
        return int(size)

    def _assumed(self, location, only_there=False):
        for at, value in self._assumptions:
            if location.is_at(*at) if at is not None else not only_there:
                return value
        return None


def _first(*values):
    return next((value for value in values if value is not None), None)


def unknown_shape_message(func):
    """Returns the error message for an operator whose result has a shape that depends on values."""
    return (
        f"{script_location()}: {func} has a result whose size depends on data, which a dry run "
        f"does not have. Give the size with --assume {script_location()}=SIZE, or let the script "
        "avoid it, e.g. with a mask instead of an index"
    )


def unknown_data_message(func):
    """Returns the error message for an operator that needs values for another reason."""
    return (
        f"{script_location()}: {func} needs data, which a dry run does not have. Let the script "
        "leave it out of the steps that the dry run executes"
    )


def _truth_message(location):
    return (
        f"{location} asks whether a tensor is true, and a dry run has no data: give the value with "
        f"--assume {location}=false (or true)"
    )


def _by_torch(location):
    return next((v for path, v in _READ_BY_TORCH.items() if str(location).startswith(path)), 1)


def _of_type(value, dtype):
    if dtype == torch.bool:
        return bool(value)
    if dtype.is_complex:
        return complex(value)
    return float(value) if dtype.is_floating_point else int(value)
