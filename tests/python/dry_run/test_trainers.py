"""Dry runs of trainers that save and load models, and that have several optimizers: their peaks."""

import importlib.util
import json

import pytest

GAN = """\
import lightning
import torch
import torch.nn.functional as F
from torch import nn

class Gan(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator = nn.Sequential(nn.Linear(64, 512), nn.BatchNorm1d(512), nn.Linear(512, 784))
        self.judge = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 1))
    def training_step(self, batch, index):
        noise = torch.randn(32, 64)
        for optimizer, images in zip(self.optimizers(), (None, batch)):
            self.toggle_optimizer(optimizer)
            judged = self.judge(self.generator(noise) if images is None else images)
            loss = F.binary_cross_entropy_with_logits(judged, torch.ones(32, 1))
            self.log("loss", loss)
            self.manual_backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            self.untoggle_optimizer(optimizer)
    def configure_optimizers(self):
        return [torch.optim.Adam(each.parameters()) for each in (self.generator, self.judge)]

data = torch.utils.data.DataLoader(torch.randn(256, 784), batch_size=32)
trainer = lightning.Trainer(
    max_epochs=3, accelerator="cpu", logger=False, enable_progress_bar=False
)
trainer.fit(Gan(), data)
"""

SAVED = """\
import torch
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=500, hidden_size=256, num_hidden_layers=2, num_attention_heads=4,
    intermediate_size=512,
)
model = LlamaForCausalLM(config)
model.save_pretrained("saved")
LlamaForCausalLM.from_pretrained("saved")
optimizer = torch.optim.AdamW(model.parameters())
for step in range(6):
    loss = model(torch.randint(500, (4, 32))).logits.square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def peak_bytes(path):
    trace = json.loads(path.read_text())
    sizes = {tensor["id"]: tensor["bytes"] for tensor in trace["tensors"]}
    alive = {tensor["id"] for tensor in trace["tensors"] if tensor["persistent"]}
    peak = 0
    for op in trace["ops"]:
        alive |= {*op["reads"], *op["writes"]}
        peak = max(peak, sum(sizes[number] for number in alive))
        alive -= set(op["frees"])
    return peak


@pytest.mark.full
@pytest.mark.parametrize("package, program", [("lightning", GAN), ("transformers", SAVED)])
def test_peak_is_that_of_a_run(dry_run, warm_python, tmp_path, package, program):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"not applicable: {package} is not installed")
    (tmp_path / "train.py").write_text(program)
    options = ["--device-budget", "2GB", "--save-trace", "real.json"]
    assert (done := dry_run("--save-trace", "dry.json", "train.py")).code == 0, done
    assert not (tmp_path / "saved" / "model.safetensors").exists()
    assert (done := warm_python("-m", "teraio", "run", *options, "train.py")).code == 0, done
    real, dry = (peak_bytes(tmp_path / name) for name in ("real.json", "dry.json"))
    assert dry == pytest.approx(real, rel=0.05)
