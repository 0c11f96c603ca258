"""Dry runs of trainers of several kinds: their peaks are those of runs."""

import importlib.util

import drawn
import pytest
from trace_peak import peak_bytes

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

LOOP = """
for step in range(6):
    optimizer.zero_grad()
    loss_of_batch().backward()
    optimizer.step()
"""

# The loaded model is a copy in the memory of the file.
SAVED = f"""\
import torch
from transformers import LlamaConfig, LlamaForCausalLM

LlamaForCausalLM(LlamaConfig(
    vocab_size=500, hidden_size=256, num_hidden_layers=2, num_attention_heads=4,
    intermediate_size=512,
)).save_pretrained("saved")
model = LlamaForCausalLM.from_pretrained("saved")
optimizer = torch.optim.AdamW(model.parameters())

def loss_of_batch():
    return model(torch.randint(500, (4, 32))).logits.square().mean()
{LOOP}"""

IMAGES = f"""\
import torch
from diffusers import UNet2DModel

UNet2DModel(
    layers_per_block=1, block_out_channels=(32, 64), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
).save_pretrained("saved")
model = UNet2DModel.from_pretrained("saved").train()
optimizer = torch.optim.AdamW(model.parameters())

def loss_of_batch():
    images = torch.randn(4, 3, 16, 16)
    return (model(images, torch.randint(1000, (4,))).sample - images).square().mean()
{LOOP}"""

SEQUENCES = f"""\
import torch
from mambapy.mamba import Mamba, MambaConfig

embedding, head = torch.nn.Embedding(64, 64), torch.nn.Linear(64, 64)
model = torch.nn.Sequential(embedding, Mamba(MambaConfig(d_model=64, n_layers=2)), head)
optimizer = torch.optim.AdamW(model.parameters())

def loss_of_batch():
    x = torch.randint(64, (4, 33))
    return torch.nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
{LOOP}"""

VOLUMES = f"""\
import torch
from monai.losses import DiceCELoss
from monai.networks.nets import UNet

model = UNet(3, 1, 2, (16, 32, 64), (2, 2), num_res_units=1, norm="batch")
dice = DiceCELoss(to_onehot_y=True, softmax=True)
optimizer = torch.optim.Adam(model.parameters())

def loss_of_batch():
    labels = torch.randint(2, (2, 1, 16, 16, 16)).float()
    return dice(model(torch.randn(2, 1, 16, 16, 16)), labels)
{LOOP}"""

# No two steps have the same sizes.
GRAPHS = f"""\
import torch
from torch_geometric.data import Data
from torch_geometric.loader import RandomNodeLoader
from torch_geometric.nn import GATv2Conv

torch.manual_seed(0)
edges, labels = torch.randint(4000, (2, 40_000)), torch.randint(10, (4000,))
loader = RandomNodeLoader(Data(x=torch.randn(4000, 64), edge_index=edges, y=labels), 2)
layers = GATv2Conv(64, 32, heads=4), GATv2Conv(128, 10)
optimizer = torch.optim.Adam([p for layer in layers for p in layer.parameters()])
batches = (batch for epoch in range(3) for batch in loader)

def loss_of_batch():
    batch = next(batches)
    outputs = layers[1](layers[0](batch.x, batch.edge_index).relu(), batch.edge_index)
    return torch.nn.functional.cross_entropy(outputs, batch.y)
{LOOP}"""

# A mixture of experts, and what stands in for a script.
EXPERTS = """\
import sys
from teraio.stand_in.__main__ import main
from transformers import MixtralConfig

MixtralConfig(
    vocab_size=512, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, num_local_experts=4,
).save_pretrained("experts")
sys.argv[1:] = "experts --sequence 64 --micro-batches 2 --steps 6".split()
main()
"""

TRAINERS = {
    "lightning": GAN,
    "transformers": SAVED,
    "diffusers": IMAGES,
    "transformers, experts": EXPERTS,
    "mambapy": SEQUENCES,
    "monai": VOLUMES,
    "torch_geometric": GRAPHS,
}


@pytest.mark.full
@pytest.mark.parametrize("trainer", drawn.in_turn(TRAINERS))  # most of its time are imports
def test_peak_is_that_of_a_run(both_traces, processor, tmp_path, trainer):
    package = trainer.partition(",")[0]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"not applicable: {package} is not installed")
    (tmp_path / "train.py").write_text(TRAINERS[trainer])
    real, *dry = both_traces("train.py", dry_options=processor)
    assert max(map(peak_bytes, dry)) == pytest.approx(peak_bytes(real), rel=0.05)
