"""The names of tensors and ops: a parameter's, or the module and the line that made them."""

import json

import pytest
import torch

import teraio
from teraio.hooks import iterations

TRAINING = """\
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(256, 512), torch.nn.Linear(512, 256)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

model = Net()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(6):
    loss = model(torch.ones(256, 256)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture(scope="module")
def folder(warm_server, tmp_path_factory):
    """The trace and the timeline of a run within half of the memory that it needs."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "train.py").write_text(TRAINING)
    files = ["--save-trace", "trace.json", "--save-timeline", "timeline.json"]
    words = ["-m", "teraio", "run", "--device-budget", "10MB", *files, "train.py"]
    [done] = warm_server.run([(words, {})], folder)
    assert done.returncode == 0, done
    return folder


@pytest.fixture(scope="module")
def names_by_kind(folder):
    names = {}
    for tensor in json.loads((folder / "trace.json").read_text())["tensors"]:
        names.setdefault(tensor["kind"], set()).add(tensor.get("name"))
    return names


def test_parameters_gradients_and_states_have_the_parameter_s_name(names_by_kind):
    assert "layers.0.up.weight" in names_by_kind["parameter"]
    assert "layers.2.down.bias.grad" in names_by_kind["gradient"]
    assert "layers.1.up.weight.exp_avg_sq" in names_by_kind["optimizer_state"]
    for kind in ("parameter", "gradient", "optimizer_state"):
        assert None not in names_by_kind[kind]


def test_activations_have_the_module_and_the_line_that_made_them(names_by_kind):
    names = names_by_kind["activation"]
    assert {
        "layers.0.up (train.py:9)",  # the line of the script, not the one of torch.nn.Linear
        "layers.0 (train.py:9)",  # relu, and the sum
        "layers.2.down (train.py:9)",
        "train.py:24",  # the batch, and the loss
        "layers.1.down backward (train.py:9)",
    } <= names
    assert None not in names


def test_the_temporaries_of_an_optimizer_have_its_name(names_by_kind):
    assert "AdamW (train.py:26)" in names_by_kind["activation"]


def test_ops_of_planned_steps_have_their_modules(folder):
    events = json.loads((folder / "timeline.json").read_text())["traceEvents"]
    rows = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    spans = [(rows[e["tid"]], e) for e in events if e["ph"] == "X"]
    modes = [event["args"]["mode"] for row, event in spans if row == "steps"]
    assert modes == ["planned"] * 3
    modules = [event["name"] for row, event in spans if row == "modules"]
    forward = [f"layers.{i}{part}" for i in range(3) for part in (".up", "", ".down", "")]
    # The sum of a block is the last op of its module, and the next block begins with another one.
    start = modules.index("layers.0.up")
    assert modules[start : start + len(forward)] == forward
    assert "layers.2.up backward" in modules
    op = next(e for row, e in spans if row == "compute" and e["name"] == "aten::relu")
    assert op["args"]["module"] == "layers.0" and op["args"]["line"] == "train.py:9"
    moved = {event["name"] for row, event in spans if "SSD" in row}
    assert moved and not [name for name in moved if name.startswith("tensor ")]


def test_names_are_searched_again_for_unknown_parameters_only(monkeypatch, tmp_path):
    searches = []
    search = iterations.outermost_modules
    monkeypatch.setattr(iterations, "outermost_modules", lambda: searches.append(1) or search())
    with teraio.offload("8MB", ssd=tmp_path) as session:
        for searches_so_far, steps in ((1, 2), (2, 6)):
            model = torch.nn.Sequential(torch.nn.Linear(256, 256))
            optimizer = torch.optim.AdamW(model.parameters())
            for _ in range(steps):
                model(torch.ones(256, 256)).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            assert len(searches) == searches_so_far
        names = {tensor.get("name") for tensor in session.trace().to_dict()["tensors"]}
        assert {"0.weight", "0.weight.exp_avg"} <= names


class Unable(torch.nn.Linear):
    """Cannot tell its parts, its modules or its parameters."""

    def _raise(self, *args, **kwargs):
        raise RuntimeError("dictionary changed size during iteration")

    children = named_modules = named_parameters = _raise


def test_modules_that_cannot_tell_their_parts_do_not_stop_the_program(tmp_path):
    unfinished = torch.nn.Linear.__new__(torch.nn.Linear)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), Unable(512, 256))
    optimizer = torch.optim.AdamW([p for layer in model for p in layer._parameters.values()])
    with teraio.offload("8MB", ssd=tmp_path) as session:
        for _ in range(6):
            model(torch.ones(256, 256)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        names = {tensor.get("name") for tensor in session.trace().to_dict()["tensors"]}
    assert "0.weight.exp_avg" in names
    del unfinished
