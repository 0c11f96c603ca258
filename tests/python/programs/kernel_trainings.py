"""Trainings in mounts, process groups and limits of their own. As root."""

import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

TRAINING = """\
import json, os, sys, torch, teraio
from teraio.hooks.verification import tensor_hash
budget, ssd, width, layers = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
options, commands = json.loads(sys.argv[5]), sys.argv[6:]
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(layers)])
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
def train():
    for step in range(4):
        if step < len(commands):
            assert os.system(commands[step]) == 0
        loss = model(torch.full((16, width), 0.5)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("loss", loss.item(), flush=True)
if budget == "none":
    train()
else:
    with teraio.offload(budget, ssd=ssd, **options) as session:
        print("path:", session.counters()["ssd_drives"][0]["io_path"], file=sys.stderr)
        train()
print("parameters", [tensor_hash(p) for p in model.parameters()])
"""

SMALL = 512, 6  # 25 MB of parameters, gradients and optimizer states
ALONE = ("--mount", "--pid", "--fork", "--kill-child", "--mount-proc")  # its children end with it


def train(
    folder, budget, ssd, size, before="", *, options=None, commands=(), unshared=("--mount",)
):
    """Trains in namespaces of its own, after the shell's commands `before`. `options` are those of
    the session; the shell runs each of `commands` before the step of its number."""
    if os.geteuid() != 0:
        pytest.skip("missing: root, for mounts and control groups")
    (folder / "train.py").write_text(TRAINING)
    words = [sys.executable, folder / "train.py", budget, ssd, *size, json.dumps(options or {})]
    script = f'set -e\n{before}\nexec "$@"'
    return subprocess.run(
        ["unshare", *unshared, "sh", "-c", script, "sh", *map(str, words), *commands],
        capture_output=True,
        text=True,
        timeout=300,
    )


@functools.cache
def reference():
    """The small training without TERAIO."""
    with tempfile.TemporaryDirectory() as folder:
        return train(Path(folder), "none", folder, SMALL)


def is_right_or_names_the_drive(done):
    """Tells whether the small training had the reference's bits, or had them until an error that
    names the tier; it never dies of a signal."""
    own = own_lines(done)
    if done.returncode == 0:
        return own == own_lines(reference())
    losses = [line for line in own if line.startswith("loss")]
    words = done.stderr.splitlines()[-1]
    return (
        done.returncode == 1
        and losses == own_lines(reference())[: len(losses)]
        and ("drive" in words or "tier" in words or "ssd directory" in words)
    )


def own_lines(done):
    """What the program printed, and TERAIO did not."""
    return [line for line in done.stdout.splitlines() if not line.startswith("teraio: ")]
