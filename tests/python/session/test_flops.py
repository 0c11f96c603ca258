"""The FLOPs of an iteration, as a model's are counted, and their share of the device's peak."""

import json

import pytest
import torch
import torch.nn.functional as F
from matrix import budgets
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from teraio.accelerator import file_of_cpu, load, to_json

pytestmark = pytest.mark.usefixtures("one_settled_thread")

WIDTH, HEADS, LAYERS, TOKENS, BATCH = 128, 4, 2, 64, 4


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.ffn = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        heads = self.qkv(x).view(BATCH, TOKENS, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        return x + self.ffn(x)


def transformer(recomputes=None):
    """Returns the layers, and a function that makes a pass through them."""
    layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward():
        x = torch.randn(BATCH, TOKENS, WIDTH, requires_grad=True)
        for layer in layers:
            if recomputes is None:
                x = layer(x)
            else:
                x = checkpoint(layer, x, use_reentrant=recomputes == "reentrant")
        return x

    return layers, forward


def trained(model, forward, **options):
    """Returns a session that has trained the model."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with budgets.offload("64MB", **options) as session:
        for _ in range(6):
            forward().square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    return session


def flops_of(model, forward):
    return trained(model, forward).prediction()["flops"]


@pytest.mark.parametrize("recomputes", [None, "reentrant", "hooks"])
def test_a_transformer_has_six_flops_per_weight_and_token(recomputes):
    model, forward = transformer(recomputes)
    weights = sum(parameter.numel() for parameter in model.parameters())
    products = 6 * weights * BATCH * TOKENS
    attention = 12 * LAYERS * WIDTH * TOKENS * BATCH * TOKENS
    (flops,) = flops_of(model, forward).items()
    assert flops == ("float32", pytest.approx(products + attention, rel=0.02))


def test_convolutions_have_the_flops_that_pytorch_counts():
    model = nn.Sequential(
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1),
        nn.Conv2d(8, 8, 3, dilation=2),
    )

    def forward():
        return model(torch.randn(4, 8, 32, 32))

    with FlopCounterMode(display=False) as counter:
        forward().square().mean().backward()
    assert flops_of(model, forward) == {"float32": counter.get_total_flops()}


def test_recurrent_layers_use_each_weight_at_each_token():
    model = nn.LSTM(64, 64, 2, batch_first=True)
    weights = sum(weight.numel() for weight in model.parameters() if weight.dim() == 2)
    flops = flops_of(model, lambda: model(torch.randn(8, 16, 64))[0])
    assert flops == {"float32": 6 * weights * 8 * 16}


def test_what_has_no_plain_sizes_has_no_flops():
    model = nn.Linear(64, 64)
    batches = [torch.randn(3, 64), torch.randn(5, 64)]

    def forward():
        nested = torch.nested.nested_tensor(batches, layout=torch.strided)
        torch.bmm(nested, nested.transpose(1, 2))
        torch.mm(torch.eye(64).to_sparse(), torch.ones(64, 2))
        F.scaled_dot_product_attention(*torch.randn(3, 1, 2, 4, 0))
        return model(torch.randn(8, 64))

    assert flops_of(model, forward) == {"float32": (2 + 2) * 8 * 64 * 64}


def test_products_count_in_the_precision_that_autocast_gives_them():
    model, forward = transformer()

    def under_autocast():
        with torch.autocast("cpu", torch.bfloat16):
            return forward()

    assert flops_of(model, under_autocast).keys() == {"bfloat16"}


def test_the_share_of_the_peak_is_told_only_where_the_peak_is_known(tmp_path, monkeypatch):
    def shares():
        session = trained(*transformer(), report=str(tmp_path))
        run = json.loads((tmp_path / "run.json").read_text())
        return session.prediction(), [run, session._status_display.newest]

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    prediction, told = shares()
    assert [prediction["at_peak_ns"], *(each["flop_utilisation"] for each in told)] == [None] * 3
    file_of_cpu().parent.mkdir(parents=True, exist_ok=True)
    accelerator = to_json(load("h100-nvl")) | {"flops_per_second": {"float32": 10**9}}
    file_of_cpu().write_text(json.dumps(accelerator))
    prediction, told = shares()
    assert prediction["at_peak_ns"] == prediction["flops"]["float32"]
    assert all(each["flop_utilisation"] > 0 for each in told)
    assert load(str(file_of_cpu())).seconds_at_peak({"float32": 10**9, "bfloat16": 1}) is None
