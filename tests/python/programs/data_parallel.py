"""A program that trains under DDP, and writes what weights each rank has then."""

# Nothing of Python's is in a collective at the end: gloo's thread lets go of a tensor when the
# program may have its result already, and one that takes Python's lock for this while the
# interpreter ends aborts the process.
_PROGRAM = """\
import os
import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
layers = [torch.nn.Linear(300, 300) for _ in range(6)]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
optimizer = torch.optim.AdamW(model.parameters())
for step in range(STEPS):
    torch.manual_seed(10 * step + dist.get_rank())
    model(torch.randn(16, 300)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
sums = torch.stack([p.detach().double().sum() for p in model.parameters()])
open(f"sums{dist.get_rank()}", "w").write(str(sums.tolist()))
dist.destroy_process_group()
"""


def program(steps):
    """Returns the program's text. It writes the sums of the weights to `sums0`, `sums1`, ..."""
    return _PROGRAM.replace("STEPS", str(steps))
