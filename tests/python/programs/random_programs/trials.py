"""Compares runs of a program, each trial in a process of its own, and shrinks those that differ."""

import os
import pickle
import signal
import traceback

import torch
from matrix import budgets
from shrinking import shrink

from random_programs.programs import program_of, run

TRIAL_SECONDS = 120
CRASHED = "the process ended with"

# What a session does: everything leaves after every op, what can be made again is discarded first,
# or tensors leave when memory is short, while the program goes on.
STRESSES = (
    {"budget": "1GB", "evict_after_every_op": True},
    {"budget": "1GB", "evict_after_every_op": True, "discard_after_every_op": True},
    {"budget": "4MB"},
)


def difference(program, stress):
    """What a run under a session has that stock PyTorch's has not, in words; "" without any, and a
    text that starts with "refused: " when the session refuses an instruction and all is equal up to
    it, and when stock PyTorch crashes, too."""
    words = _in_a_process(lambda: _difference(program, stress))
    if words.startswith(CRASHED) and _in_a_process(lambda: run(program) and "").startswith(CRASHED):
        return f"refused: without a session, too, {words}"
    return words


def _in_a_process(call):
    """The text that the call returns in a process of its own, or how that process ended."""
    readable, writable = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.close(readable)
            signal.alarm(TRIAL_SECONDS)
            # PyTorch makes its thread pool anew at a child's first use of it, and threads that are
            # the first at once race for it ("Invalid thread pool!", or a crash).
            torch.set_num_threads(torch.get_num_threads())
            with os.fdopen(writable, "wb") as file:
                pickle.dump(call(), file)
        finally:
            os._exit(0)
    os.close(writable)
    with os.fdopen(readable, "rb") as file:
        answer = file.read()
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return pickle.loads(answer) if answer else f"{CRASHED} {code}"


def _difference(program, stress):
    try:
        expected = run(program)
        actual = _run_within_session(program, stress)
        if actual.refused_at is None:
            return _words(expected, actual)
        part = program[: actual.refused_at]
        words = _words(run(part), _run_within_session(part, stress))
        return words or f"refused: {program[actual.refused_at]}: {actual.refusal}"
    except Exception:
        return traceback.format_exc()


def _run_within_session(program, stress):
    return run(program, lambda: budgets.offload(**stress))


def _words(expected, actual):
    for place, (one, other) in enumerate(zip(expected.log, actual.log, strict=True)):
        if repr(one) != repr(other) and other != "ChildRefused":
            texts = [outcome.errors.get(place, "") for outcome in (actual, expected)]
            return f"entry {place} of the log is {other} {texts[0]}, expected {one} {texts[1]}"
    if expected.tensors != actual.tensors:
        places = [
            place
            for place, pair in enumerate(zip(expected.tensors, actual.tensors, strict=False))
            if pair[0] != pair[1]
        ]
        return f"tensors {places} differ"
    return ""


def is_failure(words):
    return bool(words) and not words.startswith("refused: ")


def report(seed):
    """Tries a seed; returns what is wrong with it, with the shrunk program, or what was refused."""
    program = program_of(seed)
    stress = STRESSES[seed % len(STRESSES)]
    words = difference(program, stress)
    if not is_failure(words):
        return words
    least = shrink(program, lambda rest: is_failure(difference(rest, stress)))
    lines = [f"seed {seed}: {words}", f"{len(least)} of {len(program)} instructions:"]
    lines += [f"  {instruction}" for instruction in least]
    lines += [
        difference(least, stress),
        f"PYTHONPATH=tests/python/programs python -m random_programs --seed {seed}",
    ]
    return "\n".join(lines)
