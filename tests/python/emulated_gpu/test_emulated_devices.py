"""One process with two emulated GPUs: a model over both, and a session on one of them."""

import pytest
from emulated_gpu import HOSTILE

# Every stage is on the GPU after the one of the stage before it, so that activations and their
# gradients go back and forth.
TRAINING = """
import sys
from torch import nn

STAGES, STEPS = 4, 8
DEVICES = [torch.device("cuda", stage % 2) for stage in range(STAGES)]

class Stages(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(256), nn.Linear(256, 1024), nn.GELU(),
                          nn.Linear(1024, 256)).to(device)
            for device in DEVICES)

    def forward(self, x):
        for stage, device in zip(self.stages, DEVICES):
            x = x.to(device, non_blocking=True)
            x = x + stage(x)
        return x

def train():
    torch.manual_seed(0)
    model = Stages()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    generator = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(STEPS):
        batch = torch.randn(128, 256, generator=generator)
        loss = (model(batch) - batch.flip(1).to(DEVICES[-1])).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, [p.detach().cpu() for p in model.parameters()]

def same(outcome, expected):
    return outcome[0] == expected[0] and all(map(torch.equal, outcome[1], expected[1]))

def within(device, budget, **options):
    with offload(budget, device=device, **options) as session:
        outcome = train()
    peaks = [iteration["device_peak_bytes"] for iteration in session.iterations()]
    return outcome, max(peaks), session

torch.set_num_threads(1)
train()  # the operators learn the shapes of their results
expected = train()
for device in sys.argv[1:]:
    with torch.cuda.device(device):
        outcome, peak_bytes, _ = within(device, "200MB")
        print(same(outcome, expected))
        outcome, half_bytes, session = within(device, peak_bytes // 2)
        print(same(outcome, expected), half_bytes <= peak_bytes // 2,
              session.counters()["ssd_bytes_read"] > 0)
        outcome, _, _ = within(device, peak_bytes, evict_after_every_op=True)
        print(same(outcome, expected))
outcome, half_bytes, session = within("cuda:1", peak_bytes // 2)  # from a thread on GPU 0
print(same(outcome, expected), half_bytes <= peak_bytes // 2,
      session.counters()["ssd_bytes_read"] > 0)
"""


@pytest.mark.full
@pytest.mark.parametrize("seed", [1, 2])
def test_a_model_on_two_gpus_has_equal_bits_with_a_session_on_one(outcome_with_sessions, seed):
    done = outcome_with_sessions(TRAINING, "cuda:0", "cuda:1", seed=seed, devices=2, **HOSTILE)
    assert done.code == 0, done
    assert done.out.split("\n") == ["True", "True True True", "True"] * 2 + ["True True True", ""]
