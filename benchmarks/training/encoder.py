"""A transformer encoder with dropout, trained to fill in masked tokens of random text."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(1)
    words = 8192
    layer = nn.TransformerEncoderLayer(
        args.width, 8, 4 * args.width, activation="gelu", batch_first=True, norm_first=True
    )
    encoder = nn.TransformerEncoder(layer, args.layers, enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(words, args.width), encoder, nn.Linear(args.width, words))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for step in range(args.steps):
        tokens = torch.randint(words, (args.batch, args.length))
        masked = torch.where(torch.rand(tokens.shape) < 0.15, 0, tokens)
        loss = F.cross_entropy(model(masked).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step + 1}  loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
