"""A script of a dry run saves, renames, copies and loads tensors, and its own files stay."""

import pytest

PROGRAM = """\
import glob, io, os, pickle, shutil
from pathlib import Path
import torch
from safetensors.torch import load_file, load_model, save_file, save_model
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.BatchNorm1d(128))
optimizer = torch.optim.AdamW(model.parameters())
os.makedirs("out", exist_ok=True)
for step in range(6):
    optimizer.zero_grad()
    model(torch.randn(8, 64)).square().mean().backward()
    optimizer.step()
    {use}
"""

KINDS = {
    "rename": """torch.save({"model": model.state_dict(), "step": step}, "out/tmp.pt")
    os.replace("out/tmp.pt", "out/last.pt")
    assert not os.path.exists("out/tmp.pt") and os.path.getsize("out/last.pt") < 10_000
    loaded = torch.load(Path("out/last.pt"), weights_only=False)
    assert loaded["step"] == step and loaded["model"]["0.weight"].shape == (128, 64)
    model.load_state_dict(loaded["model"])""",
    "copies": """torch.save(optimizer.state_dict(), f"out/{step}.pt")
    shutil.copyfile(f"out/{step}.pt", "out/best.pt")
    assert len(glob.glob("out/?.pt")) == len(os.listdir("out")) - 1 == step + 1
    optimizer.load_state_dict(torch.load("out/best.pt"))""",
    "buffers": """buffer = io.BytesIO()
    torch.save(model, buffer)
    with open("out/model.ckpt", "wb") as file:
        file.write(buffer.getvalue())
    assert isinstance(torch.load("out/model.ckpt", weights_only=False)[0], torch.nn.Linear)""",
    "archives": """torch.save({"model": model.state_dict()}, "out/model.pth")
    reader = torch.PyTorchFileReader("out/model.pth")
    loaded = pickle.loads(reader.get_record("data.pkl"))
    model.load_state_dict(loaded["model"])
    assert model[1].num_batches_tracked == step + 1""",
    "safetensors": """save_file(model.state_dict(), "out/model.safetensors")
    model.load_state_dict(load_file("out/model.safetensors"))
    assert model[1].num_batches_tracked == step + 1
    save_model(model, "out/all.safetensors")
    load_model(model, "out/all.safetensors")""",
    "directories": """torch.save(model.state_dict(), "out/model.pt")
    os.rename("out", f"checkpoint-{step}")
    assert os.path.isfile(f"checkpoint-{step}/model.pt")
    shutil.rmtree(f"checkpoint-{step}")
    os.mkdir("out")
    assert not os.listdir("out")""",
}


@pytest.fixture
def saving(dry_run, tmp_path):
    """Dry-runs a script that saves in this way in its loop, in a folder with these files of its
    own, and returns the files that are there afterwards."""

    def saving(use, **files):
        (tmp_path / "train.py").write_text(PROGRAM.format(use=use))
        for name, text in files.items():
            (tmp_path / "out").mkdir(exist_ok=True)
            (tmp_path / "out" / f"{name}.pt").write_text(text)
        outcome = dry_run("train.py")
        assert outcome.code == 0, outcome
        return {path.name: path.read_text() for path in tmp_path.glob("**/*.pt")}

    return saving


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_script_saves_it_finds_again(saving, kind):
    assert saving(KINDS[kind]) == {}


@pytest.mark.parametrize(
    "use",
    [
        "torch.save(model, 'out/last.pt')",
        "torch.save(model, 'out/new.pt'); os.replace('out/new.pt', 'out/last.pt')",
        "torch.save(model, 'out/new.pt'); shutil.move('out/new.pt', 'out/last.pt')",
        "os.path.exists('out/last.pt') and os.remove('out/last.pt')",
        "shutil.rmtree('out', ignore_errors=True)",
        "open('text', 'w').close(); os.replace('text', 'out/last.pt')",
    ],
)
def test_files_of_the_user_stay_as_they_are(saving, use):
    assert saving(use, last="a good one") == {"last.pt": "a good one"}


def test_a_trial_leaves_nothing_behind(warm_python, tmp_path):
    """Whatever a script of `teraio suggest --least-budget` writes goes to a scratch directory."""
    (tmp_path / "log").write_text("of the last run\n")
    (tmp_path / "old").write_text("to be removed")
    use = """with open("log", "a") as file:
        file.write("new\\n")
    assert open("log").read().startswith("of the last run\\nnew\\n")
    os.makedirs("out/deep", exist_ok=True)
    Path("out/deep/config").write_text("text")
    os.close(os.open("out/by_number", os.O_WRONLY | os.O_CREAT))
    assert {"by_number", "deep"} <= set(os.listdir("out"))
    if os.path.exists("link"): os.unlink("link")
    os.symlink("out", "link")
    os.rename("out/deep/config", "out/renamed")
    step or os.remove("old")"""
    (tmp_path / "train.py").write_text(PROGRAM.format(use=use))
    before = {path: path.is_file() and path.read_text() for path in tmp_path.rglob("*")}
    command = ("suggest", "--least-budget", "--accelerator", "h100-nvl", "train.py")
    outcome = warm_python("-m", "teraio", *command)
    assert outcome.code == 0, outcome
    assert "least device budget" in outcome.out
    assert before == {path: path.is_file() and path.read_text() for path in tmp_path.rglob("*")}
