"""torch.compile with inductor: a compiled graph runs as one op, with equal bits."""

import contextlib

import pytest
import torch

import teraio

pytestmark = pytest.mark.full  # compiles C++


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def train(session):
    torch.manual_seed(0)
    with session as running:
        model = torch.nn.Sequential(
            torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256)
        )
        compiled = torch.compile(model)
        optimizer = torch.optim.AdamW(model.parameters())
        losses = []
        for _ in range(5):
            loss = compiled(torch.ones(64, 256)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        counters = running.counters() if running else {}
    return losses, [parameter.tolist() for parameter in model.parameters()], counters


def test_compiled_model_has_equal_bits_under_a_budget(tmp_path):
    losses, parameters, _ = train(contextlib.nullcontext())
    offloaded = train(teraio.offload("9MB", ssd=tmp_path))
    assert offloaded[:2] == (losses, parameters)
    assert offloaded[2]["ssd_bytes_read"] > 0


def test_buffer_that_a_compiled_graph_changes_is_written_out_again(tmp_path):
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(100_000))

        def forward(self, x):
            self.count.add_(x)
            return (self.count * 2).sum()

    with teraio.offload("64MB", ssd=tmp_path, evict_after_every_op=True) as session:
        counter = Counter()
        compiled = torch.compile(counter)
        for step in range(4):
            assert compiled(torch.ones(100_000)).item() == 2 * 100_000 * (step + 1)
            assert counter.count.sum().item() == 100_000 * (step + 1)
        assert session.counters()["ssd_bytes_read"] > 0
