"""`refused_trainings.py NAME`: trains a job of the matrix, or one of those here.

Prints what must be equal.
"""

import sys

import torch
from matrix import catalogue
from matrix.jobs import train
from torch import nn

from teraio.hooks.verification import tensor_hash

functional = nn.functional


def steps(model, optimizers, loss_of):
    for _ in range(5):
        loss_of().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return model


def perceptron():
    blocks = [(nn.Linear(512, 512), nn.GELU(), nn.LayerNorm(512)) for _ in range(6)]
    model = nn.Sequential(*[layer for block in blocks for layer in block])
    optimizer = torch.optim.AdamW(model.parameters())
    return steps(model, [optimizer], lambda: model(torch.randn(1024, 512)).square().mean())


def convolutions():
    channels = (3, 32, 64, 64, 128)
    model = nn.Sequential(
        *[
            nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())
            for a, b in zip(channels, channels[1:], strict=False)
        ],
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def loss():
        return functional.cross_entropy(model(torch.randn(16, 3, 32, 32)), torch.arange(16) % 10)

    return steps(model, [optimizer], loss)


def small_states():
    """Much of what it has is in small tensors, which never leave the device."""
    blocks = [nn.Sequential(nn.Linear(96, 96), nn.Tanh()) for _ in range(40)]
    model = nn.Sequential(*blocks, nn.Linear(96, 4000))
    optimizers = [torch.optim.Adam(block.parameters()) for block in model]
    return steps(model, optimizers, lambda: model(torch.randn(256, 96)).square().mean())


def sparse_table():
    """An embedding with sparse gradients, and data that is prepared before the first step."""
    data = torch.randn(4096, 300).softmax(-1)
    table = nn.Embedding(20000, 64, sparse=True)
    head = nn.Sequential(nn.Linear(364, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizers = [torch.optim.SparseAdam(table.parameters()), torch.optim.AdamW(head.parameters())]

    def loss():
        rows = torch.randint(4096, (512,))
        words = table(torch.randint(20000, (512, 8))).mean(1)
        return head(torch.cat([data[rows], words], 1)).square().mean()

    return steps(nn.ModuleList([table, head]), optimizers, loss)


def compressed_graph():
    """Products with a sparse matrix, which copy it and their results."""
    edges = torch.randint(4000, (2, 40_000))
    graph = torch.sparse_coo_tensor(edges, torch.rand(40_000), (4000, 4000)).to_sparse_csr()
    nodes, layers = torch.randn(4000, 64), nn.ModuleList([nn.Linear(64, 128), nn.Linear(128, 128)])
    optimizer = torch.optim.Adam(layers.parameters())
    return steps(
        layers, [optimizer], lambda: (graph @ layers[1](graph @ layers[0](nodes))).square().mean()
    )


def recurrent():
    """Kernels that take more memory inside than all their operands have, and keep some of it."""
    layers = nn.ModuleList([nn.LSTM(128, 256, 2), nn.Linear(256, 8)])
    optimizer = torch.optim.AdamW(layers.parameters())

    def loss():
        return layers[1](layers[0](torch.randn(50, 32, 128))[0]).square().mean()

    return steps(layers, [optimizer], loss)


def evaluated_encoder():
    """A layer that is one kernel where nobody wants gradients."""
    encoder = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval()
    head = nn.Linear(64, 8)

    def loss():
        with torch.no_grad():
            features = encoder(torch.randn(16, 64, 64))
        return head(features).square().mean()

    return steps(head, [torch.optim.SGD(head.parameters(), 0.1)], loss)


KINDS = {
    each.__name__: each
    for each in (
        *(perceptron, convolutions, small_states, sparse_table, compressed_graph),
        *(recurrent, evaluated_encoder),
    )
}

if __name__ == "__main__":
    name = sys.argv[1]
    if name in catalogue.JOBS:
        print(train(catalogue.JOBS[name]))
    else:
        torch.manual_seed(0)
        print([tensor_hash(each) for each in KINDS[name]().parameters()])
