"""Small trainings of different kinds; each prints a hash of its parameters after a few steps.

`python refused_trainings.py KIND`.
"""

import hashlib
import sys

import torch
from torch import nn

functional = nn.functional


def steps(model, optimizers, loss_of, accumulated=1):
    """Trains for a few steps, each of so many backward passes."""
    for _ in range(5):
        for _ in range(accumulated):
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


def transformer():
    layer = nn.TransformerEncoderLayer(256, 4, 512, dropout=0.1, batch_first=True)
    model = nn.Sequential(
        nn.Embedding(2000, 256), nn.TransformerEncoder(layer, 4), nn.Linear(256, 2000)
    )
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def loss():
        tokens = torch.randint(2000, (4, 129))
        scores = model(tokens[:, :-1])
        return functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())

    return steps(model, [optimizer], loss)


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


def accumulation():
    blocks = [
        (nn.Conv1d(192, 192, 5, padding=2), nn.GELU(), nn.GroupNorm(8, 192)) for _ in range(5)
    ]
    model = nn.Sequential(*[layer for block in blocks for layer in block])
    optimizer = torch.optim.RMSprop(model.parameters(), momentum=0.9)
    return steps(model, [optimizer], lambda: model(torch.randn(16, 192, 64)).square().mean(), 3)


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


KINDS = (perceptron, transformer, convolutions, small_states, accumulation, sparse_table)

if __name__ == "__main__":
    torch.manual_seed(0)
    trained = {kind.__name__: kind for kind in KINDS}[sys.argv[1]]()
    bits = b"".join(each.detach().numpy().tobytes() for each in trained.parameters())
    print(hashlib.sha256(bits).hexdigest())
