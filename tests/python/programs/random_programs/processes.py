"""Instructions: threads and processes, and bytes that code reaches without an operator."""

import ctypes
import os
import signal
import threading

import torch

import teraio
from random_programs.instructions import fresh


def fork(state, a, b, c):
    """A child reads and changes tensors; the parent sees its exit code, and no change."""
    process = os.fork()
    if process == 0:
        code = 99
        try:
            signal.alarm(60)
            t = state.tensor(a).detach()
            if b % 2:
                t.add_(1)
            code = int(t.double().sum().item()) % 64
        except RuntimeError as error:
            code = 98 if "TERAIO" in str(error) else 97
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if code == 98:
        raise ChildRefused("TERAIO refused an access in the child")
    return code


class ChildRefused(RuntimeError):
    """In a forked child, an offloaded tensor was not accessible."""


def parallel(state, a, b, c):
    """Threads compute at once on tensors of their own, a shared one and one behind a lock."""
    shared, guarded = state.tensor(a).detach(), fresh(1, 0, b)
    lock = threading.Lock()

    def work(number):
        own = fresh(1, 0, number)
        for turn in range(3):
            own.mul_(0.5).add_(turn)
            own = own + shared.float().flatten()[:128].repeat(160).view(160, 128)
            with lock:
                guarded.add_(1)
        return own

    calls = [lambda n=n: work(n) for n in range(1 + b % 4)]
    pending = [state.workers.submit(call, n + c) for n, call in enumerate(calls)]
    for each in pending:
        state.put(each(), c)
    state.put(guarded, c)


def start_worker(state, a, b, c):
    """A thread computes while the program goes on."""
    if len(state.running) < 3:
        state.running.append(state.workers.submit(lambda: _compute_for_long(b, c), a))


def join_worker(state, a, b, c):
    if state.running:
        state.put(state.running.pop(a % len(state.running))(), c)


def _compute_for_long(b, c):
    """Views, changes in place and graphs of tensors that no other thread has."""
    x, kept = fresh(1, 0, b) / 100, []
    for turn in range(5 + b % 20):
        leaf = x.clone().requires_grad_()
        y = leaf.view(-1)[turn:].tanh() * (1 + turn % 3)
        (gradient,) = torch.autograd.grad(y.square().mean(), leaf)
        kept.append(gradient)
        del kept[: -3 - c % 4]
        x[turn::7].add_(kept[0][0, 0])
        x.sub_(gradient)
    return x


def pin(state, a, b, c):
    """A pin, for a while; without a session it has no effect."""
    if state.tensor(a).layout == torch.strided:
        state.pins.append(teraio.pin(state.tensor(a)))
    if state.pins and (b % 2 or len(state.pins) > 3):
        state.pins.pop(0).release()


def poke(state, a, b, c):
    """A write to an address that the program asks for."""
    t = state.tensor(a).detach()
    if t.is_contiguous() and t.numel() > 1:
        number = ctypes.c_uint8.from_address(t.data_ptr() + c % t.element_size())
        number.value = 63
