"""What a dry run answers by itself: whether values are finite, and what "cpu:0" is."""

import pytest

LOOP = """\
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
optimizer = torch.optim.AdamW(model.parameters())
for step in range(6):
    optimizer.zero_grad()
    loss = model(torch.randn(32, 64)).square().mean()
    loss.backward()
    {question}
    optimizer.step()
"""


@pytest.fixture
def asking(dry_run, tmp_path):
    """The outcome of a dry run whose script has this line in its loop, which is line 8."""

    def asking(question, *options):
        (tmp_path / "train.py").write_text(LOOP.format(question=question))
        return dry_run(*options, "train.py")

    return asking


@pytest.mark.parametrize(
    "question, answer",
    [
        ("assert not (torch.isnan(loss) or torch.isinf(loss))", False),
        ("assert torch.isfinite(loss).all()", True),
        ("assert not (loss.isnan() | loss.isposinf()).any()", False),
        ("assert loss.isnan().logical_not() & (loss == loss)", True),
        ("assert all(torch.isfinite(p.grad).all().tolist() for p in model.parameters())", True),
    ],
)
def test_values_are_finite(asking, question, answer):
    outcome = asking(question)
    assert outcome.code == 0, outcome
    assert f"train.py:8: {answer}" in outcome.out


def test_norms_that_must_be_finite_are(asking):
    question = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)"
    assert asking(question).code == 0


@pytest.mark.parametrize(
    "question",
    [
        "assert not (loss.isnan() | (loss > 3))",
        "assert not loss.isnan().copy_(loss > 3)",
        "assert not (loss > 3)",
    ],
)
def test_other_questions_need_an_assumption(asking, question):
    outcome = asking(question)
    assert outcome.code == 1
    assert "train.py:8 asks whether a tensor is true" in outcome.err


def test_an_assumption_precedes_the_usual_answer(asking):
    outcome = asking("assert not loss.isnan()", "--assume", "train.py:8=true")
    assert outcome.code == 1 and "AssertionError" in outcome.err


def test_the_processor_has_no_number(asking, tmp_path):
    elsewhere = "torch.ones(2, 64, device='cpu:0').to('cpu:0')"
    outcome = asking(f"(model.to('cpu:0')({elsewhere}) + torch.ones(8)).mean().backward()")
    assert outcome.code == 0, outcome
