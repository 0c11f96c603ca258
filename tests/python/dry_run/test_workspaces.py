"""The workspaces that a dry run finds are those of the CPU's kernels."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from teraio import core
from teraio.accelerator import load
from teraio.dry_run import workspaces

half = torch.bfloat16
GRAPH = (torch.rand(512, 512) > 0.95).float().to_sparse_csr()
TURNED = GRAPH.to_sparse_csc()


def images(x):
    return x.view(32, 16, 16, 16)


def heads(x):
    return [x.view(8, 4, 64, 64)] * 3


@torch.no_grad()
def encoded(inputs):
    return nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval()(inputs)


# Functions of a parameter with 512 rows and 256 columns. The workspaces of the first ones grow
# linearly with the batch.
REGULAR = {
    "convolution": lambda x: F.conv2d(images(x), torch.ones(32, 16, 3, 3), padding=1),
    "double": lambda x: F.conv2d(images(x).double(), torch.ones(8, 16, 3, 3).double(), stride=2),
    "transposed": lambda x: F.conv_transpose2d(images(x), torch.ones(16, 32, 3, 3), stride=2),
    "3d": lambda x: F.conv3d(x.view(16, 8, 16, 8, 8), torch.ones(16, 8, 3, 3, 3)),
    "lstm": lambda x: nn.LSTM(64, 96, bidirectional=True)(x.view(16, 128, 64))[0],
    "gru": lambda x: nn.GRU(64, 96)(x.view(16, 128, 64))[0],
    "encoder": lambda x: encoded(x.detach().view(32, 64, 64)) + x.sum(),
    "batch_norm": lambda x: F.unfold(F.batch_norm(images(x), None, None, training=True), 3),
    "types": lambda x: x * torch.arange(512)[:, None] + x.to(half).mean(1, keepdim=True),
    "truth": lambda x: F.huber_loss(x * (x > 0).sum(), torch.ones(512, 256)),
}
OTHERS = {
    "attention": lambda x: F.scaled_dot_product_attention(*heads(x)),
    "half": lambda x: F.scaled_dot_product_attention(*heads(x.to(half)), is_causal=True),
    "products": lambda x: (x.to(half) @ torch.ones(256, 8).to(half)).sum() + x.t()[::2] @ x[:, ::2],
    "last": lambda x: F.max_pool2d(images(x).contiguous(memory_format=torch.channels_last), 2),
    "sort": lambda x: x.flatten().sort()[0] + x.kthvalue(3, 1)[0].sum() + x.topk(9)[0].sum(),
    "unique": lambda x: x.median() * torch.unique(torch.arange(100_000) % 999).numel(),
    "mask": lambda x: x.flatten()[torch.arange(131072) % 2 == 0],
    "bag": lambda x: F.embedding_bag(torch.arange(4096).view(64, 64) % 512, x, mode="max"),
    "sums": lambda x: x.cumsum(0) + x.logsumexp(1, keepdim=True) + x.logcumsumexp(1),
    "linalg": lambda x: torch.linalg.inv(x.T @ x + torch.eye(256)) + torch.linalg.qr(x)[1],
    "svd": lambda x: torch.linalg.svdvals(torch.fft.rfft2(x).abs()),
    "graph": lambda x: GRAPH @ x + GRAPH @ GRAPH @ x + torch.addmm(x, TURNED, x),
    "resized": lambda x: F.interpolate(images(x), scale_factor=0.5, mode="bicubic"),
    "bilinear": lambda x: F.bilinear(x[:, :64], x[:, 64:128], torch.ones(32, 64, 64)),
    "ctc": lambda x: F.ctc_loss(
        x.view(64, 8, 256).log_softmax(2), torch.ones(8, 20).int(), [64] * 8, [20] * 8
    ),
}


class Comparing(TorchDispatchMode):
    """Collects the ops whose workspaces differ from those of a dry run."""

    def __init__(self):
        super().__init__()
        self.differing = []
        self._find = workspaces.workspaces(replace(load("h100-nvl"), library="onednn"))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, results = kwargs or {}, []
        taken = core.workspace_of(lambda: results.append(func(*args, **kwargs)))
        found = self._find(func, args, kwargs, results[0])
        tensors = [t for t in tree_leaves((args, kwargs, results)) if isinstance(t, torch.Tensor)]
        most = taken + sum({id(t): t.numel() * t.element_size() for t in tensors}.values())
        if abs(found - taken) > max(0.05 * most, 16384):
            self.differing.append((str(func), taken, found, most))
        return results[0]


def differing(kind):
    """Trains a parameter by each optimizer whose lists of tensors need no measurement."""
    parameter = nn.Parameter(torch.randn(512, 256))
    optimizers = [torch.optim.AdamW([parameter], fused=True), torch.optim.SGD([parameter], 0.1)]
    with Comparing() as comparing:
        kind(parameter).float().square().mean().backward()
        for optimizer in (*optimizers, torch.optim.RMSprop([parameter], foreach=True)):
            optimizer.step()
    return comparing.differing


@pytest.mark.parametrize("kind", [*REGULAR, *OTHERS])
def test_workspaces_are_measured(kind):
    assert differing((REGULAR | OTHERS)[kind]) == []


@pytest.mark.full
@pytest.mark.parametrize("kind", REGULAR)
def test_workspaces_of_large_tensors_follow_from_smaller_ones(monkeypatch, kind):
    monkeypatch.setattr(workspaces, "_MEASURED_BYTES_MAX", 1 << 20)
    assert differing(REGULAR[kind]) == []


@pytest.mark.full
@pytest.mark.parametrize("options", [{"padding": 1}, {}, {"stride": 2}], ids=str)
def test_that_of_an_image_follows_from_narrower_ones(monkeypatch, options):
    monkeypatch.setattr(workspaces, "_MEASURED_BYTES_MAX", 4 << 20)

    def convolution(x):
        images = x.view(1, 2, 256, 256).repeat(1, 16, 1, 1)
        return F.conv2d(images, torch.ones(32, 32, 3, 3), **options)

    assert differing(convolution) == []


MATRIX, IMAGE = torch.empty(200, 200), torch.empty(1, 8, 1024, 1024)
UNKNOWN = [  # no positive definite matrix is made up, and no size of a result shrinks
    (torch.ops.aten.linalg_cholesky.default, (MATRIX,), "input is not positive-definite"),
    (torch.ops.aten.upsample_nearest2d.vec, (IMAGE, [2048, 1024], None), "are too large"),
]


@pytest.mark.parametrize("op, args, reason", UNKNOWN)
def test_an_op_that_does_not_run_counts_as_nothing_and_is_told(caplog, op, args, reason):
    caplog.set_level("DEBUG")
    find = workspaces.workspaces(replace(load("h100-nvl"), library="onednn"))
    for _ in range(2):
        assert find(op, args, {}, op(*args) if len(args) > 1 else MATRIX) == 0
    told = [text for text in caplog.messages if str(op) in text]
    assert len(told) == 1 and reason in told[0]
