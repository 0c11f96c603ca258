"""A mixture of experts: a router sends each token to some of the experts of its block."""

import torch
from llama.model import FeedForward
from torch import nn

from .training import Training

EXPERTS = 8
EXPERTS_PER_TOKEN = 2


class MixtureOfExperts(nn.Module):
    """Replaces a FeedForward. The tokens decide how many of them each expert gets, or none."""

    def __init__(self, config):
        super().__init__()
        self.router = nn.Linear(config.dim, EXPERTS, bias=False)
        self.experts = nn.ModuleList(FeedForward(config) for _ in range(EXPERTS))

    def forward(self, x):
        tokens = x.flatten(0, 1)
        weights, chosen = self.router(tokens).softmax(-1).topk(EXPERTS_PER_TOKEN)
        weights = weights / weights.sum(-1, keepdim=True)
        mixed = torch.zeros_like(tokens)
        for number in chosen.unique().tolist():
            rows, slots = torch.where(chosen == number)
            part = self.experts[number](tokens.index_select(0, rows))
            mixed = mixed.index_add(0, rows, part * weights[rows, slots, None])
        return mixed.view_as(x)


class Experts(Training):
    def build_model(self, config):
        model = super().build_model(config)
        for block in model.blocks:
            block.feed_forward = MixtureOfExperts(config)
        model.init_weights()
        return model
