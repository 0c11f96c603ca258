"""Sessions in a notebook: the panel that follows the run, and the report in a cell's output."""

import re
import sys
import types

import pytest
from matrix import budgets

MAKE_SESSION = """\
import torch, teraio
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(6)])
optimizer = torch.optim.AdamW(model.parameters())
session = teraio.offload("12MB")
session
"""
TRAIN = """\
import time
with session:
    begin = time.monotonic()
    while time.monotonic() < begin + 3 or len(session.iterations()) < 10:
        model(torch.ones(8, 512)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """A notebook's cells after a real kernel has run them; and the panel's states meanwhile."""
    import nbformat
    from nbclient import NotebookClient

    states = []

    class Client(NotebookClient):
        def process_message(self, message, cell, cell_index):
            if message["msg_type"] == "update_display_data":
                states.append(message["content"]["data"])
            return super().process_message(message, cell, cell_index)

    sources = (MAKE_SESSION, TRAIN, "session.report()", "session")
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook = nbformat.v4.new_notebook(cells=cells)
    folder = tmp_path_factory.mktemp("notebook")
    Client(notebook, timeout=300, resources={"metadata": {"path": folder}}).execute()
    return notebook.cells, states


def output_of(cell):
    (output,) = cell.outputs
    return output.data["text/html"]


@pytest.mark.full
def test_panel_follows_the_run_in_the_cell_that_shows_it(cells):
    (shown, training, _, again), states = cells
    heading = re.compile(r"TERAIO</b>: ([a-z ]+), step \d+")
    phases = [heading.search(each["text/html"])[1] for each in states]
    assert "following a plan" in phases
    assert phases[-1] == "ended" and "ended" not in phases[:-1]
    assert all(each["text/plain"].startswith("<teraio.Session: ") for each in states)
    assert output_of(shown) == states[-1]["text/html"] == output_of(again)
    assert "12.0 MB (27" in output_of(shown)
    assert training.outputs == []


@pytest.mark.full
def test_report_draws_its_charts_in_the_cell(cells, browser, tmp_path):
    (*_, report, _), _ = cells
    path = tmp_path / "output.html"
    path.write_text(f'<!doctype html><meta charset="utf-8">{output_of(report)}')
    tab = browser.new_page()
    told = []
    tab.on("console", lambda message: told.append(message.text))
    tab.goto(path.as_uri())
    page = tab.frame_locator("iframe")
    assert "It works: the training needs 27." in page.locator(".verdict").inner_text()
    for chart in page.locator(".chart").all():
        chart.scroll_into_view_if_needed()
        chart.locator(".main-svg").first.wait_for()
    assert page.locator(".when code").inner_text() == "notebook"
    assert told == []


def test_session_tells_its_state_without_a_notebook(one_settled_thread):
    import torch

    session = budgets.offload("12MB")
    assert repr(session) == "<teraio.Session: not begun>"
    assert "has not begun" in session._repr_html_()
    with session:
        torch.ones(1000).sum()
        assert repr(session).startswith("<teraio.Session: learning, step 0 | memory ")
        assert " of 12.0 MB" in repr(session)
    assert repr(session).startswith("<teraio.Session: ended, step 0")
    assert "session.report()" in session._repr_html_()


def test_report_of_a_session_is_a_page(one_settled_thread, tmp_path):
    import torch

    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(6)])
    with budgets.offload("4MB") as session:
        model(torch.ones(8, 512)).square().mean().backward()
    session.report().save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "No training step has ended" in page and "4.00 MB" in page


def test_ipython_may_be_imported_by_another_thread(monkeypatch):
    from teraio.watch import notebook

    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))  # only begun
    assert not notebook.is_kernel()
    assert notebook.command() == sys.argv


def test_ipython_is_not_imported(warm_python, tmp_path):
    (tmp_path / "train.py").write_text(
        "import sys, teraio\n"
        "print(teraio.running_session()._repr_html_()[:4], 'IPython' in sys.modules)\n"
    )
    done = warm_python("-m", "teraio", "run", "--device-budget", "12MB", "train.py")
    assert (done.code, done.out) == (0, "<div False\n"), done
