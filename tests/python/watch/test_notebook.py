"""Sessions in a notebook: the panel that follows the run, and the report in a cell's output."""

import re
import sys
import types
from pathlib import Path

import drawn
import pytest
from front_end_trainings import AMPLE, ENVIRONMENT
from matrix import budgets

EXAMPLES = Path(__file__).parents[3] / "examples"
# Steps for some seconds, in which the panel changes.
SMALL = 'length, batch, steps, drives = 64, 2, 40, "."\n'
SMALL += 'budget, model, data = "{}", "{small}/'
# By notebook: a budget of about half of its peak, and what stands for the cell of its parameters.
EXAMPLES_IN_SMALL = {
    "finetune_trainer": ("17MB", SMALL + 'llama", "{small}/texts/data.json"'),
    "finetune_sft": ("30MB", SMALL + 'llama-256", "{small}/texts"'),
}


@pytest.fixture(scope="module", params=drawn.in_turn(EXAMPLES_IN_SMALL))
def example(request, small_models, tmp_path_factory):
    """The cells of a notebook of examples/ that has run within half of its peak, the panel's states
    meanwhile, and the folders of this run and of one with enough memory."""
    import nbformat
    from kernel import panel_states

    path = EXAMPLES / f"{request.param}.ipynb"
    budget, parameters = EXAMPLES_IN_SMALL[request.param]
    folder = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        for memory in (AMPLE, budget):
            notebook = nbformat.read(path, as_version=4)
            assert not any(cell.get("outputs") for cell in notebook.cells)
            (given,) = (cell for cell in notebook.cells if cell.id == "parameters")
            given.source = parameters.format(memory, small=small_models)
            (folder / memory).mkdir()
            states = panel_states(notebook, folder / memory)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return cells[1:], states, folder / budget, folder / AMPLE


def output_of(cell):
    (output,) = (output for output in cell.outputs if "data" in output)  # not warnings
    return output.data["text/html"]


@pytest.mark.full
def test_panel_follows_the_run_in_the_cell_that_shows_it(example):
    (shown, _, _), states, *_ = example
    heading = re.compile(r"TERAIO</b>: ([a-z ]+), step \d+")
    phases = [heading.search(each["text/html"])[1] for each in states]
    assert "following a plan" in phases
    assert phases[-1] == "ended" and "ended" not in phases[:-1]
    assert all(each["text/plain"].startswith("<teraio.Session: ") for each in states)
    assert output_of(shown) == states[-1]["text/html"]


@pytest.mark.full
def test_examples_train_with_equal_bits(example):
    *_, within, ample = example
    (saved,) = within.glob("out/*model.safetensors")
    assert saved.read_bytes() == (ample / "out" / saved.name).read_bytes()


@pytest.mark.full
def test_report_draws_its_charts_in_the_cell(example, browser, tmp_path):
    (*_, report), *_ = example
    path = tmp_path / "output.html"
    path.write_text(f'<!doctype html><meta charset="utf-8">{output_of(report)}')
    tab = browser.new_page()
    told = []
    tab.on("console", lambda message: told.append(message.text))
    tab.goto(path.as_uri())
    page = tab.frame_locator("iframe")
    assert "It works: the training needs " in page.locator(".verdict").inner_text()
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
