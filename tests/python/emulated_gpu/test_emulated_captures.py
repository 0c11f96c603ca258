"""CUDA graphs on the emulated GPU, with sessions and without."""

import pytest

GRAPH = """
import torch
x = torch.zeros(1000, device="cuda")
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    y = x * 2 + 1  # before a capture
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x * 2 + 1
for value in 1.0, 2.0:
    x.fill_(value)
    graph.replay()
    print(y.sum().item())
"""


def test_graphs_are_captured_and_replayed(program):
    assert program(GRAPH, seed=1, poison=1) == ["3000.0", "5000.0"]


# The tensor is offloaded when the capture begins, and returns meanwhile.
CAPTURE_IN_A_SESSION = """
with offload("256MiB", evict_after_every_op=True, **options) as session:
    x = torch.full((1 << 20,), 3.0, device="cuda")
    x = x * 1
    x * 2 + 1  # before a capture
    graph = torch.cuda.CUDAGraph()
    before = session.counters()["bytes_away"]
    with torch.cuda.graph(graph):
        y = x * 2 + 1
    print(before >> 20, session.counters()["bytes_away"])
    graph.replay()
    print(y.sum().item() / y.numel())
"""


@pytest.mark.full
@pytest.mark.parametrize("tier", ["ssd", "host"])
def test_a_capture_in_a_session_is_not_broken(tier, with_sessions):
    options = {"ssd": "{}", "host": "{'ssd': False, 'host_limit': '64MB', 'ssd_capacity': 0}"}
    text = f"options = {options[tier]}\n{CAPTURE_IN_A_SESSION}"
    assert with_sessions(text, seed=1, poison=1) == ["4 0", "7.0"]


# The graphs' inputs and results are used before each replay, in two sessions. One graph is captured
# before the sessions, and one in the first, of a tensor that no op has used before.
CAPTURED = """
def capture(x):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.ones_like(x) * 2 + 1  # before a capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2 + 1
    return graph, x, y

def results(graph, x, y):
    (x + 0, y + 0)
    for value in 2.0, 3.0:
        x.fill_(value)
        graph.replay()
        yield y.sum().item() / y.numel()

inputs = [torch.ones(1 << 20, device="cuda") for _ in range(2)]
graphs = [capture(inputs[0])]
print(torch.cuda.memory_allocated() >> 20)
for _ in range(2):
    with offload("256MiB", evict_after_every_op=True) as session:
        if len(graphs) == 1:
            graphs.append(capture(inputs[1]))
        kept_bytes = session.counters()["kept_in_place_bytes"]
        print([list(results(*each)) for each in graphs], kept_bytes >> 20)
del inputs, graphs
torch.cuda.empty_cache()
print(torch.cuda.memory_allocated() >> 20)
"""


def test_replays_reach_what_a_session_has_used(with_sessions):
    lines = with_sessions(CAPTURED, seed=1, poison=1)
    assert lines == ["12", *["[[5.0, 7.0], [5.0, 7.0]] 16"] * 2, "0"]


# An operator in Python that captures a graph: what it calls is not what it was called for.
CAPTURE_IN_AN_OPERATOR = """
@torch.library.custom_op("tests::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
    graphs.append((graph, y))
    graph.replay()
    return y + 0

graphs = []
with offload("256MiB", evict_after_every_op=True) as session:
    x = torch.full((1 << 20,), 3.0, device="cuda") + 0
    x * 2 + 1  # before a capture
    before = session.counters()["held_for_good_bytes"]
    print(twice(x).sum().item() / x.numel())
    print((session.counters()["held_for_good_bytes"] - before) >> 20)
    x.fill_(5.0)
    graph, y = graphs[0]
    graph.replay()
    print(y.sum().item() / y.numel())
"""


@pytest.mark.full
def test_an_operator_may_capture_a_graph(with_sessions):
    assert with_sessions(CAPTURE_IN_AN_OPERATOR, seed=1, poison=1) == ["6.0", "8", "10.0"]
