"""Threads that a session did not see start: what their operators change is never lost.

A tensor is offloaded, restored by a use and changed by the thread. If the change were not seen, the
tensor would be dropped next, because the copy on the tier would pass for valid.
"""

import _thread
import ctypes
import hashlib
import queue
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from matrix import budgets

import teraio
from teraio import core
from teraio.escapes import unfinished_ops

pytestmark = pytest.mark.usefixtures("one_settled_thread")
ELEMENTS = 1 << 18


class Worker:
    """A thread of its own that runs calls."""

    def __init__(self):
        self._executor = ThreadPoolExecutor(1)
        self._executor.submit(int).result()  # starts the thread

    def run(self, call):
        return self._executor.submit(call).result(timeout=60)

    def close(self):
        self._executor.shutdown()


class ProfiledWorker(Worker):
    """A worker with a profiler of its own, which must not notice."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.run(lambda: sys.setprofile(self._count))

    def _count(self, _frame, _event, _argument):
        self.calls += 1


@pytest.fixture
def worker(request):
    worker = request.param()
    yield worker
    worker.close()


def change_between_uses(run):
    """Returns a tensor that `run` has added 1 to, by a call of the operator in its thread."""
    changed = torch.full((ELEMENTS,), 1.0)
    changed.add_(1)
    torch.zeros(1).add_(1)  # `changed` has been offloaded after this op
    changed.sum()  # restores it: its copy on the tier is valid
    run(lambda: changed.add_(1) is None)
    torch.zeros(1).add_(1)
    return changed


@pytest.mark.parametrize("worker", [ProfiledWorker], indirect=True)
def test_worker_from_before_the_session(worker):
    with budgets.offload("64MB", evict_after_every_op=True):
        changed = change_between_uses(worker.run)
        assert torch.equal(changed, torch.full((ELEMENTS,), 3.0))
        assert worker.run(lambda: float(changed.sum())) == 3.0 * ELEMENTS
        seen = worker.calls
        worker.run(lambda: abs(-1))
        assert worker.calls > seen  # its profiler stays


@pytest.mark.parametrize("worker", [Worker], indirect=True)
def test_worker_that_had_a_session_of_its_own(worker):
    def own_session():
        with budgets.offload("64MB"):
            torch.zeros(1).add_(1)

    worker.run(own_session)
    with budgets.offload("64MB", evict_after_every_op=True):
        changed = change_between_uses(worker.run)
        assert torch.equal(changed, torch.full((ELEMENTS,), 3.0))


def in_raw_thread(start):
    """Returns a function that runs a call in a thread that `start` starts."""

    def run(call):
        results = queue.Queue()
        start(lambda: results.put(call()), ())
        return results.get(timeout=60)

    return run


def test_raw_thread():
    with budgets.offload("64MB", evict_after_every_op=True):
        changed = change_between_uses(in_raw_thread(_thread.start_new_thread))
        assert torch.equal(changed, torch.full((ELEMENTS,), 3.0))


def test_thread_that_came_unseen_is_observed_from_the_next_step_on():
    """The function that starts it was imported before the session."""
    start = _thread.start_new_thread
    with budgets.offload("64MB", evict_after_every_op=True):
        work, results = queue.Queue(), queue.Queue()
        start(lambda: [results.put(call()) for call in iter(work.get, None)], ())
        parameter = torch.zeros(4, requires_grad=True)
        parameter.grad = torch.ones(4)
        torch.optim.SGD([parameter]).step()

        def run(call):
            work.put(call)
            return results.get(timeout=60)

        changed = change_between_uses(run)
        work.put(None)
        assert torch.equal(changed, torch.full((ELEMENTS,), 3.0))


def test_threads_adopt_the_same_tensors_at_once():
    tensors = [torch.full((ELEMENTS // 8,), float(number)) for number in range(64)]
    start = threading.Barrier(4)

    def add_up():
        start.wait()
        return [float(tensor.sum()) for tensor in tensors]

    with ThreadPoolExecutor(4) as executor, budgets.offload("64MB") as session:
        results = [each.result() for each in [executor.submit(add_up) for _ in range(4)]]
        device_bytes = session.counters()["device_bytes"]
        for tensor in tensors:
            tensor.add_(1)
    assert results == [[number * ELEMENTS / 8 for number in range(64)]] * 4
    assert device_bytes < 65 * ELEMENTS // 8 * 4  # nothing is left of what lost the race
    assert all(torch.all(tensor == number + 1) for number, tensor in enumerate(tensors))


def in_unobserved_thread(call):
    """Runs the call as a thread of a C++ library would, and returns the error that it raises."""
    errors = queue.Queue()

    def run():
        core.observe_this_thread(False)
        try:
            call()
            errors.put(None)
        except RuntimeError as error:
            errors.put(error)

    threading.Thread(target=run).start()
    return errors.get(timeout=60)


@pytest.fixture
def offloaded_once():
    """A tensor on the device, whose copy on the tier is valid."""
    with budgets.offload("64MB", ssd=False, host_limit="64MB") as session:
        tensor = torch.full((ELEMENTS,), 1.0)
        tensor.add_(1)
        fillers = [torch.zeros(ELEMENTS).add_(1) for _ in range(70)]
        assert session.counters()["on_demand_offloads"] > 0
        del fillers
        tensor.sum()
        yield tensor


REFUSED = r"TERAIO: tensor \d+ \(1\.05 MB\) is not on the device or may leave it"


@pytest.mark.parametrize("call", [lambda t: t.add_(1), lambda t: t.sum()], ids=["change", "read"])
def test_operator_that_is_not_observed_is_refused(offloaded_once, call):
    error = in_unobserved_thread(lambda: call(offloaded_once))
    assert re.search(REFUSED, str(error))
    assert torch.equal(offloaded_once, torch.full((ELEMENTS,), 2.0))


def test_address_that_c_code_asks_for_is_refused(offloaded_once):
    """An extension that changes a tensor by its address, and is no operator."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    address = ctypes.c_void_p()
    tensor = ctypes.c_void_p.from_address(id(offloaded_once) + object.__basicsize__)
    handle = ctypes.c_void_p(ctypes.addressof(tensor))  # a pointer to an at::Tensor
    assert library.aoti_torch_get_data_ptr(handle, ctypes.byref(address)) != 0
    with teraio.pin(offloaded_once):
        assert library.aoti_torch_get_data_ptr(handle, ctypes.byref(address)) == 0


def test_what_an_operator_changes_that_began_before_the_session_is_not_lost():
    values = torch.ones(1 << 24)
    begins = threading.Event()

    def compute():
        begins.set()
        values.digamma_()  # takes some tenths of a second

    session = budgets.offload("200MB", evict_after_every_op=True)
    thread = threading.Thread(target=compute)
    thread.start()
    begins.wait()
    time.sleep(0.05)
    with session:
        assert values[:4].exp().shape == (4,)  # moves it
        thread.join()
        assert values.min() == values.max()


@contextmanager
def computing_thread(rounds):
    """A thread that computes without Python and its lock, for tenths of a second per million."""
    begins = threading.Event()

    def compute():
        begins.set()
        hashlib.pbkdf2_hmac("sha256", b"password", b"salt", rounds)

    thread = threading.Thread(target=compute, name="computes")
    thread.start()
    begins.wait()
    time.sleep(0.05)
    yield thread
    thread.join()


def test_session_waits_for_a_thread_that_computes_and_names_it(monkeypatch, caplog):
    monkeypatch.setattr(unfinished_ops, "NOTICE_S", 0.1)
    session = budgets.offload("64MB")
    with computing_thread(4_000_000) as thread, session:
        assert not thread.is_alive()
    told = re.compile("the session waits for .*thread 'computes'")
    assert sum(bool(told.search(message)) for message in caplog.messages) == 1


def test_session_does_not_start_beside_a_thread_that_computes_for_ever(monkeypatch):
    values, numpy = torch.ones(ELEMENTS), torch.Tensor.numpy
    monkeypatch.setattr(unfinished_ops, "LIMIT_S", 0.1)
    session = budgets.offload("64MB")
    with computing_thread(8_000_000):
        with pytest.raises(teraio.Error, match="thread 'computes' has been computing since before"):
            session.__enter__()
        assert torch.Tensor.numpy is numpy
        assert torch.equal(values, torch.ones(ELEMENTS))
    with budgets.offload("64MB", evict_after_every_op=True):
        values.add_(1)
    assert torch.equal(values, torch.full((ELEMENTS,), 2.0))


def test_operators_that_begin_in_a_thread_while_a_session_ends_get_their_tensors(tmp_path):
    numbers = range(24)
    values = [torch.full((ELEMENTS,), float(number)) for number in numbers]
    is_over = threading.Event()

    def compute():
        sums = set()
        while not sums or not is_over.is_set():
            sums |= {(number, values[number].sum().item()) for number in numbers}
        return sums

    with ThreadPoolExecutor(1) as pool:
        for _ in range(4):
            is_over.clear()
            with budgets.offload("8MB", ssd=tmp_path, evict_after_every_op=True):
                assert all(value[0] == number for number, value in enumerate(values))
                sums = pool.submit(compute)
                assert all(value[0] == number for number, value in enumerate(values))
            is_over.set()
            assert sums.result() == {(number, float(number * ELEMENTS)) for number in numbers}


def test_operators_go_on_in_a_thread_while_sessions_end_and_begin():
    values = torch.arange(ELEMENTS, dtype=torch.float32)
    expected = torch.tanh(values + 1)
    is_over = threading.Event()
    results = []

    def compute():
        mine = values.clone()
        while not is_over.is_set():
            try:
                results.append(torch.equal(torch.tanh(mine + 1), expected))
            except RuntimeError as error:  # what began before a session may be refused in it
                assert "by a thread that TERAIO does not observe" in str(error)

    thread = threading.Thread(target=compute)
    thread.start()
    while not results:
        time.sleep(0.01)
    for _ in range(4):  # the thread sanitizer takes half a minute for each
        with budgets.offload("50MB", evict_after_every_op=True):
            assert torch.equal(torch.tanh(values + 1), torch.tanh(values + 1))
    is_over.set()
    thread.join()
    assert all(results)
