"""Draws the pictures of docs/images that show what users see, from real runs on this machine.

draw.py [NAME ...]: all pictures, or those with these names, such as top or report.

`make pictures` calls it after the build. The figures in the pictures are those of this machine at
this time. What needs no run on a machine is drawn elsewhere: layers, lifetime and overview are
drawings; memory is a picture of the demo; characterize-memory and what-if-drives are drawn by the
commands that docs/planning.md names.
"""

import contextlib
import html
import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import kernel
import nbformat
from PIL import Image
from playwright.sync_api import sync_playwright
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from terminal import Terminal
from terminal_svg import svg_of

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
BUDGET = "60MB"  # about a quarter of what the training needs

MODEL = """\
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(14)])
optimizer = torch.optim.AdamW(model.parameters())
"""
TRAINING = f"""\
{MODEL}for step in range(60):
    loss = model(torch.randn(64, 1024)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 10 == 0:
        print(f"step {{step}}: loss {{loss.item():.3f}}")
"""
LARGE_TRAINING = """\
import torch
layer = lambda: torch.nn.TransformerEncoderLayer(4096, 32, 16384, batch_first=True)
model = torch.nn.Sequential(*[layer() for _ in range(32)])
optimizer = torch.optim.AdamW(model.parameters())
for step in range(4):
    model(torch.randn(8, 512, 4096)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
CELLS = (
    'session = teraio.offload("60MB")\nsession',
    """\
with session:
    for step in range(60):
        loss = model(torch.randn(64, 1024)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()""",
)
NOTEBOOK_STYLE = """\
body { font: 13px "DejaVu Sans", sans-serif; width: 610px; margin: 8px }
div.cell { display: flex; margin-bottom: 6px } div.cell > span { width: 40px; color: #999 }
div.cell > div { flex: 1; background: #f5f5f5; border: 1px solid #ddd; padding: 4px 6px }
div.cell, pre { font: 13px "DejaVu Sans Mono", monospace } pre { margin: 0; line-height: 18px }
div.output { margin: 0 0 16px 40px }
"""


def environment():
    """Words such as `teraio` mean the build."""
    path = f"{ROOT}/build/bin:{ROOT}/.venv/bin:{os.environ['PATH']}"
    return os.environ | {"PATH": path, "TERAIO_PYTHON": sys.executable}


@contextlib.contextmanager
def terminal(words, folder, rows=30, columns=120):
    """Runs a command in an emulated terminal, below the line that starts it."""
    command = " ".join(words)
    script = f"cd {folder} && printf '$ %s\\n' '{command}' && exec {command}"
    with Terminal(["bash", "-c", script], environment(), rows, columns) as shown:
        yield shown


def save_svg(shown, name):
    (IMAGES / f"{name}.svg").write_text(svg_of(shown.screen, title="Terminal"))


def has(text):
    return lambda shown: any(text in line for line in shown.screen.display)


def run_words(*options):
    return ["teraio", "run", "--device-budget", BUDGET, "--ssd", "nvme0", *options, "train.py"]


def status_line(folder):
    with terminal(run_words(), folder, rows=8, columns=150) as shown:
        shown.wait_for(has("step 20:"))
        shown.wait_for(lambda shown: "| stall" in shown.line_of_cursor())
        save_svg(shown, "status-line")


def top(folder):
    with terminal(run_words(), folder) as training:
        training.wait_for(has("step 10:"))
        with terminal(["teraio", "top", "."], folder, rows=6, columns=150) as shown:
            shown.wait_for(has("following a plan"))
            training.wait_for(has("step 40:"))
            shown.wait_for(has("following a plan  4"))  # that step has come here, too
            save_svg(shown, "top")


def suggest(folder):
    """For a machine that one knows: this one's processor would be measured first."""
    (folder / "train.py").write_text(LARGE_TRAINING)
    shutil.copy(ROOT / "examples" / "hardware" / "h100_nvl.json", folder)
    machine = ["--accelerator", "h100-nvl", "--hardware", "h100_nvl.json"]
    save_at_end(["teraio", "suggest", *machine, "train.py"], folder, "suggest")


def doctor(folder):
    save_at_end(["teraio", "doctor", "--ssd", "nvme0"], folder, "doctor")


def save_at_end(words, folder, name):
    with terminal(words, folder, columns=130) as shown:
        code = shown.exit_code()
        assert code == 0, "\n".join(shown.lines())
        save_svg(shown, name)


def report(folder):
    for words in (run_words("--quiet", "--report", "run"), ["teraio", "report", "run"]):
        subprocess.run(words, cwd=folder, env=environment(), check=True)
    with page(width=1180, height=1430) as shown:
        shown.goto((folder / "run" / "report.html").as_uri())
        shown.wait_for_selector(".main-svg")
        save_png(shown, "report")


def notebook(folder):
    sources = (f"import teraio\n{MODEL}", *CELLS)
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    states = kernel.panel_states(nbformat.v4.new_notebook(cells=cells), folder)
    shown = (state["text/html"] for state in reversed(states))
    panel = next(text for text in shown if "following a plan" in text)
    first, second = (
        f"<div class=cell><span>[{number}]:</span><div>{colored(source)}</div></div>"
        for number, source in zip("2*", CELLS, strict=True)
    )
    style = NOTEBOOK_STYLE + HtmlFormatter().get_style_defs()
    body = f"{first}<div class=output>{panel}</div>{second}"
    with page(width=626, height=200) as shown:
        shown.set_content(f"<style>{html.unescape(style)}</style>{body}")
        save_png(shown, "notebook", full_page=True)


def colored(source):
    return highlight(source, PythonLexer(), HtmlFormatter())


@contextlib.contextmanager
def page(width, height):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield browser.new_page(viewport={"width": width, "height": height})
        browser.close()


def save_png(page, name, **options):
    """Saves a picture of the page in 64 colours, which suffice for areas and text."""
    picture = Image.open(io.BytesIO(page.screenshot(**options))).convert("RGB")
    picture.quantize(64).save(IMAGES / f"{name}.png", optimize=True)


PICTURES = {
    "status-line": status_line,
    "top": top,
    "suggest": suggest,
    "doctor": doctor,
    "report": report,
    "notebook": notebook,
}


def main(names):
    unknown = set(names) - set(PICTURES)
    if unknown:
        sys.exit(f"draw.py: no picture {min(unknown)}: expected one of {', '.join(PICTURES)}")
    for name in names or PICTURES:
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            (Path(folder) / "nvme0").mkdir()
            (Path(folder) / "train.py").write_text(TRAINING)
            PICTURES[name](Path(folder))
        print(f"drew {name}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
