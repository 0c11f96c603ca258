"""A program of a seed, and what it yields."""

import _thread
import contextlib
import hashlib
import itertools
import queue
import random
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import torch

from random_programs.catalogue import INSTRUCTIONS, NOT_BEFORE_THE_SESSION
from random_programs.instructions import State
from random_programs.processes import ChildRefused

LENGTH_MAX = 60
MAIN_ONLY = {"parallel", "start_worker", "join_worker"}  # they use the workers themselves


@dataclass(frozen=True)
class Instruction:
    name: str
    numbers: tuple
    worker: int | None = None  # runs it, and the main thread waits; None: the main thread itself
    session: int = 1  # the number of the session that it belongs to; 0: before the first one

    def __str__(self):
        where = "" if self.worker is None else f"  in worker {self.worker}"
        when = f"  in session {self.session}" if self.session else "  before the sessions"
        return f"{self.name}{self.numbers}{where}{when}"


def program_of(seed):
    chance = random.Random(seed)
    names = list(INSTRUCTIONS)
    weights = [weight for _, weight in INSTRUCTIONS.values()]
    before = chance.randrange(8)
    length = before + chance.randrange(10, LENGTH_MAX)
    second_session = chance.randrange(before, length) if chance.random() < 0.25 else length
    program = []
    for place in range(length):
        name = chance.choices(names, weights)[0]
        is_before = place < before and name not in NOT_BEFORE_THE_SESSION
        worker = chance.randrange(4) if chance.random() < 0.15 and name not in MAIN_ONLY else None
        numbers = tuple(chance.randrange(1000) for _ in range(3))
        session = 0 if is_before else 1 if place < second_session else 2
        program.append(Instruction(name, numbers, worker, session))
    return sorted(program, key=lambda instruction: instruction.session)


class Workers:
    """Threads of four kinds: queue's and executor's are older than the session."""

    def __init__(self):
        self._work = queue.Queue()
        self._old = threading.Thread(target=self._serve, daemon=True)
        self._old.start()
        self._executor = ThreadPoolExecutor(1)
        self._executor.submit(int).result()

    def _serve(self):
        while (call := self._work.get()) is not None:
            call()

    def submit(self, call, kind):
        """Starts the call; returns a function that waits for its result or raises its error."""
        results = queue.Queue()

        def run():
            try:
                results.put((call(), None))
            except BaseException as error:
                results.put((None, error))

        starts = [
            lambda: self._work.put(run),
            lambda: self._executor.submit(run),
            lambda: _thread.start_new_thread(run, ()),
            lambda: threading.Thread(target=run).start(),
        ]
        starts[kind % 4]()

        def wait():
            result, error = results.get(timeout=120)
            if error is not None:
                raise error
            return result

        return wait

    def close(self):
        self._work.put(None)
        self._old.join()
        self._executor.shutdown()


@dataclass
class Outcome:
    """What a run yields: an entry per instruction and for each thread that is waited for when a
    session ends, and a hash per tensor that is left."""

    log: list
    tensors: list
    done_count: int = 0  # instructions
    errors: dict = field(default_factory=dict)  # texts, by the index of the entry
    refused_at: int | None = None  # the first instruction that a session refused
    refusal: str = ""

    def result(self):
        return self.log, self.tensors


def run(program, new_session=contextlib.nullcontext):
    """Runs the program; each of its sessions within what `new_session` gives."""
    warnings.simplefilter("ignore")
    torch.manual_seed(1)
    workers = Workers()
    state = State(workers)
    outcome = Outcome([], [])
    try:
        for number, part in itertools.groupby(program, lambda instruction: instruction.session):
            with new_session() if number else contextlib.nullcontext():
                _run_part(part, state, outcome)
                _wait_for_running(state, outcome)
        outcome.tensors = _hashes_of(state)
        outcome.log.append(state.hook_calls)
        return outcome
    finally:
        state.close()
        workers.close()


def _wait_for_running(state, outcome):
    """An operator of another thread may be refused while a session starts or ends."""
    while state.running:
        _note(outcome, lambda: state.put(state.running.pop(0)(), len(outcome.log)))


def _run_part(part, state, outcome):
    for instruction in part:
        function = INSTRUCTIONS[instruction.name][0]

        def call(function=function, numbers=instruction.numbers):
            return function(state, *numbers)

        if instruction.worker is not None:
            call = state.workers.submit(call, instruction.worker)
        if not _note(outcome, call):
            state.drop_broken()
        outcome.done_count += 1


def _note(outcome, call):
    """Logs what the call yields or raises. Returns whether it raised nothing."""
    try:
        outcome.log.append(call())
        return True
    except Exception as error:
        outcome.errors[len(outcome.log)] = str(error)
        outcome.log.append(type(error).__name__)
        is_refused = "TERAIO" in str(error) and not isinstance(error, ChildRefused)
        if is_refused and outcome.refused_at is None:
            outcome.refused_at = outcome.done_count
            outcome.refusal = str(error)
        return False


def _hashes_of(state):
    tensors = [*state.pool, *state.weights, *state.model.parameters()]
    tensors += [t.grad for t in tensors if _is_leaf(t) and t.grad is not None]
    tensors += [s for s in state.kept if isinstance(s, torch.Tensor)]
    for optimizer in (state.optimizer, *state.trainers.values()):
        for parameter in optimizer.state.values():
            tensors += [v for v in parameter.values() if isinstance(v, torch.Tensor)]
    hashes = [_hash_of(t) for t in tensors]
    arrays = [*state.arrays, *(array for *_, array in state.exported)]
    return hashes + [hashlib.sha1(array.tobytes()).hexdigest() for array in arrays]


def _is_leaf(tensor):
    try:
        return tensor.is_leaf
    except RuntimeError:  # one of several views of a base that was changed in place
        return False


def _hash_of(tensor):
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.layout == torch.sparse_coo:
        return _hash_of(tensor._indices()), _hash_of(tensor._values())
    if tensor.layout == torch.sparse_csr:
        return _hash_of(tensor.col_indices()), _hash_of(tensor.values())
    flat = tensor.contiguous().view(-1).as_strided((tensor.numel(),), (1,))  # also of one element
    dense = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    return str(tensor.dtype), tuple(tensor.shape), hashlib.sha1(dense).hexdigest()
