"""What a function does in a forked child, a crash included, stays there."""

import os
import select
import time
from pathlib import Path

import pytest
import torch

from teraio.dry_run.forked_server import CallFailed, ForkedServer

product = torch.ones(600, 600, dtype=torch.double)
product = product @ product  # by several threads, which no child has


def answer(request):
    if request == "crash":
        os.abort()
    if request == "hang":
        time.sleep(600)
    if request == "raise":
        raise ValueError("unknown")
    return os.getpid(), (product @ product).sum().item()


@pytest.fixture
def server():
    return ForkedServer(answer, seconds_max=60)


def parent_of(process):
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def test_one_child_answers_and_is_none_of_the_program(server):
    children = {server.call("")[0] for _ in range(3)}
    assert len(children) == 1 and os.getpid() not in children
    assert server.call("")[1] == 600.0**5
    assert parent_of(*children) != os.getpid()


@pytest.mark.parametrize(
    "call, message",
    [("crash", "its process ended"), ("hang", "its process ended"), ("raise", "Error: unknown")],
)
def test_a_call_that_fails_leaves_the_next_one(server, call, message):
    server.call("")
    server.seconds_max = 1 if call == "hang" else 60
    with pytest.raises(CallFailed, match=message):
        server.call(call)
    server.seconds_max = 60
    assert server.call("")[0] != os.getpid()


def test_a_child_that_is_not_there_in_time_leaves_the_next_one(server):
    server.seconds_max = 0
    with pytest.raises(CallFailed):
        server.call("")
    server.seconds_max = 60
    assert server.call("")[0] != os.getpid()


def test_the_child_ends_with_its_server():
    server = ForkedServer(answer)
    ended = select.poll()
    ended.register(os.pidfd_open(server.call("")[0]), select.POLLIN)
    del server
    assert ended.poll(60_000)
