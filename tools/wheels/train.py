"""A training that is tried with a wheel: it needs more memory than TERAIO gives it."""

import torch

torch.manual_seed(0)
layers = [torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU()) for _ in range(12)]
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(8):
    loss = model(torch.randn(256, 512)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
