"""What a dry run answers by itself, and what "cpu:0" is."""

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
    """The outcome of a dry run whose script has this line in its loop, which is line 8, or more."""

    def asking(question, *options):
        (tmp_path / "train.py").write_text(LOOP.format(question=question))
        return dry_run(*options, "train.py")

    return asking


def lines_of(questions):
    return "\n    ".join(questions)


def test_values_are_finite(asking):
    answers = {
        "assert not (torch.isnan(loss) or torch.isinf(loss))": False,
        "assert torch.isfinite(loss).all()": True,
        "assert not (loss.isnan() | loss.isposinf()).any()": False,
        "assert loss.isnan().logical_not() & (loss == loss)": True,
        "assert all(torch.isfinite(p.grad).all().tolist() for p in model.parameters())": True,
    }
    outcome = asking(lines_of(answers))
    assert outcome.code == 0, outcome
    for line, answer in enumerate(answers.values(), 8):
        assert f"train.py:{line}: {answer}" in outcome.out


NORMS = "model[0].weight.norm(dim=0)"
BOUNDS = ("-2, 2", "-0.1, 0.1", "5, 6")  # between which values are drawn once


def test_numbers_compare_as_they_are_read(asking):
    questions = (
        "loss < float('inf')",
        "loss > 0",
        "not loss == 0",
        f"not ({NORMS} < 1e-10).all() and ({NORMS} > torch.tensor(0.5)).any()",
    )
    outcome = asking(lines_of(f"assert {question}" for question in questions))
    assert outcome.code == 0, outcome
    for line in range(8, 12):
        assert f"train.py:{line}: " in outcome.out


@pytest.mark.timeout(120)
def test_known_answers_decide(asking):
    questions = (
        "assert (torch.full((256,), True) | (model[0].bias + model[0].weight[:, 0] > 0)).all()",
        "assert (model[0].weight[:, 0].int() & ~torch.full((256,), True)).max() == 0",
        "assert not torch.any(torch.linalg.cholesky_ex(model[0].weight.T @ model[0].weight)[1])",
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)",
        *(f"torch.nn.init.trunc_normal_(model[0].weight, 0, 1, {each})" for each in BOUNDS),
    )
    outcome = asking(lines_of(questions))
    assert outcome.code == 0, outcome


@pytest.mark.parametrize(
    "question",
    [
        "assert not (loss.isnan() | (model[0].weight > 3)).any()",
        "assert not loss.isnan().copy_((model[0].weight > 3).any())",
        "assert not (model[0].weight > 3).any()",
    ],
)
def test_other_questions_need_an_assumption(asking, question):
    outcome = asking(question)
    assert outcome.code == 1
    assert "train.py:8 asks whether a tensor is true" in outcome.err
    assert "train.py:8=false (or true)" in outcome.err


def test_an_assumption_precedes_the_usual_answer(asking):
    outcome = asking("assert not loss.isnan()", "--assume", "train.py:8=true")
    assert outcome.code == 1 and "AssertionError" in outcome.err


def test_a_line_that_gets_one_answer_often_says_how_to_give_the_other(asking):
    outcome = asking("any(loss < 0.5 for _ in range(1000))")
    assert outcome.code == 0 and "train.py:8=true" in outcome.err, outcome


def test_the_processor_has_no_number(asking, tmp_path):
    elsewhere = "torch.ones(2, 64, device='cpu:0').to('cpu:0')"
    outcome = asking(f"(model.to('cpu:0')({elsewhere}) + torch.ones(8)).mean().backward()")
    assert outcome.code == 0, outcome


LOADED = """\
import torch
data = [torch.tensor([3, 0, 5, 0, 2, 7, 0, 1]) for _ in range(48)]
batches = iter(torch.utils.data.DataLoader(data, batch_size=4))
model = torch.nn.Embedding(128, 64)
optimizer = torch.optim.SGD(model.parameters())
for step in range(6):
    optimizer.zero_grad()
    tokens = next(batches)
    {use}
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def loading(dry_run, tmp_path):
    """The outcome of a dry run whose script makes its loss of loaded tokens in this way."""

    def loading(use, *options):
        (tmp_path / "train.py").write_text(LOADED.format(use=use))
        return dry_run(*options, "train.py")

    return loading


USES = (
    "loss = model(tokens[tokens > 0]).sum(); assert tokens[tokens > 0].shape == (20,)",
    "loss = model(tokens.masked_select(tokens > 0)).sum(); assert (tokens > 0).sum() == 20",
    "loss = model(torch.repeat_interleave(torch.arange(8), torch.bincount(tokens[0]))).sum()",
    "loss = model(tokens)[tokens > 0].sum(); assert tokens[0].tolist()[2] == 5",
    "loss = sum(model(row[: n]).sum() for row, n in zip(tokens, (tokens > 0).sum(1).tolist()))",
    "assert torch.ones_like(model.weight, dtype=int).sum() == 8192 + model.weight.new_zeros(3)[1]",
    "rows, where = torch.nonzero(tokens, as_tuple=True); loss = model(rows).sum()",
    "tokens.fill_(2); loss = model(tokens).sum(); assert tokens.sum() == 64",
    "of = tokens.new_empty(9); of[tokens[0]] = tokens[0]; assert of[tokens[0] + 0].sum() == 16",
    "ids = tokens.new_empty(3); ids[0] = 3; ids[1:] = tokens[0, :2]; assert ids.sum() == 7",
    "ids.numpy()[0] = 5; held = torch.zeros(3); held.data = ids; assert held.tolist() == [5, 2, 2]",
)


def test_what_data_decides_is_known(loading):
    outcome = loading(lines_of(USES))
    assert outcome.code == 0, outcome
    assert "values that the script got" not in outcome.out


@pytest.mark.parametrize(
    "question",
    ["torch.empty(1, 64).int()[0, 5]", "torch.zeros(1).set_(loss.detach().view(1))", "held"],
)
def test_contents_that_no_op_has_written_are_unknown(asking, question):
    outcome = asking(f"held = torch.zeros(1); held.data = loss.detach(); int({question})")
    assert outcome.code == 0 and "train.py:8: 1" in outcome.out, outcome


@pytest.mark.parametrize(
    "change",
    [
        "tokens += (model(tokens).sum(-1) > 0)",
        pytest.param("tokens[0].copy_(model(tokens[0]).sum(-1))", marks=pytest.mark.full),
        pytest.param("torch.argmax(model(tokens), -1, out=tokens)", marks=pytest.mark.full),
    ],
)
def test_of_what_a_model_has_changed_a_mask_selects_half(loading, change):
    outcome = loading(f"tokens = tokens.clone(); {change}; loss = model(tokens[tokens > 0]).sum()")
    assert outcome.code == 0, outcome
    assert "train.py:9: 16" in outcome.out


NMS = """\
import torch
library = torch.library.Library("torchvision", "DEF")
library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
@torch.library.register_fake("torchvision::nms")
def keep(dets, scores, iou_threshold):
    return dets.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)
"""


def test_of_boxes_that_overlap_half_are_kept(asking, tmp_path):
    (tmp_path / "torchvision_nms.py").write_text(NMS)
    found = "import torchvision_nms; found = model(torch.randn(33, 64)); boxes = found[:, :4]"
    kept = "kept = torch.ops.torchvision.nms(boxes, found[:, 4], 0.5); assert len(kept) == 17"
    outcome = asking(lines_of([found, kept, "loss = loss + boxes[kept].sum()"]))
    assert outcome.code == 0 and "train.py:9: 17" in outcome.out, outcome


def test_what_a_model_generates_has_no_end(loading):
    ends = "ends = torch.isin(model(tokens).argmax(-1), torch.tensor([7, 9]))"
    outcome = loading(f"{ends}; loss = model(tokens[~ends]).sum(); assert ends.sum() == 0")
    assert outcome.code == 0 and "train.py:9: False" in outcome.out, outcome


def test_size_can_be_assumed(loading):
    use = "taken = model(tokens)[model(tokens) > 0]; loss = taken.sum(); assert len(taken) == 300"
    outcome = loading(use, "--assume", "train.py:9=300")
    assert outcome.code == 0 and "train.py:9: 300" in outcome.out, outcome


TRAINED = """\
import copy
import torch
import torch.nn.functional as F
model = torch.nn.Sequential(torch.nn.LazyLinear(128), torch.nn.LazyBatchNorm1d()).half().float()
table = torch.nn.Embedding(200, 64, sparse=True)
trained = [*copy.deepcopy(model[0]).parameters(), *model.parameters()]  # no use of the copy
optimizers = torch.optim.AdamW(trained), torch.optim.SparseAdam(table.parameters())
lengths, data = torch.tensor([20, 18, 15, 12]), torch.randn(100, 64)
for step in range(8):
    loss = model(table(torch.randint(200, (20,)))).square().mean()
    {use}
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
"""


def test_what_needs_no_contents_works(dry_run, tmp_path):
    uses = (
        "assert copy.deepcopy(model)[1].num_batches_tracked == 2 * step + 1",
        "loss = loss * torch.tensor([x / 8 if x < 3 else x for x in torch.arange(128.)]).sum()",
        "assert torch.tensor([data.double().sum(), 2]).dtype == torch.double",
        "assert torch.rand(()) < 2 and torch.equal(data, data) and torch.rand(5000).max() < 1",
        "loss = loss + F.ctc_loss(model(data).log_softmax(-1).view(20, 5, 128)[:, :4], "
        "torch.ones(4, 5).int(), lengths, lengths // 4)",
        "loss = loss + torch.nn.LSTM(64, 8, batch_first=True)(torch.nn.utils.rnn."
        "pack_padded_sequence(data.view(4, 25, 64), lengths, True))[0].data.sum()",
        "with torch.inference_mode(): (model[0](data) > 0).nonzero(as_tuple=True)",
        "assert torch.vmap(model[0])(data[:, None]).shape == (100, 1, 128)",
        "torch.func.jvp(lambda x: torch.vmap(F.cross_entropy)(x, lengths.view(2, 2) // 4), "
        "(data[:4, :12].view(2, 2, 12),), (data[4:8, :12].view(2, 2, 12),))",
        "rows = torch.sparse_coo_tensor(lengths[None], torch.ones(4, 3)); assert len(rows) == 21",
        "assert (rows * 2 + rows.clone())._nnz() == 8 and rows.coalesce().neg()._nnz() == 4",
        "rows += rows.clone(); assert rows._nnz() == 8 and torch.zeros_like(rows)._nnz() == 0",
        "twice = torch.sparse_coo_tensor(lengths[None] // 4, torch.ones(4), (9,)).clone()",
        "assert twice.coalesce()._nnz() == 3",
        "made = torch.sparse_csr_tensor(torch.arange(5), torch.arange(2, 9, 2), torch.ones(4))",
        "torch.save([made, rows], 'saved.pt'); made, rows = torch.load('saved.pt')",
        "assert (made * 2)._nnz() == 4 and (made @ torch.ones(9, 2)).shape == (4, 2)",
        "assert torch.eye(8).to_sparse_csr().t().clone().to_sparse_csr()._nnz() == rows._nnz()",
        "made = torch.eye(8).to_sparse_csr(); assert 7 < (made @ made.to_sparse_csc())._nnz() < 9",
        "made = torch.eye(8).to_sparse_bsr((4, 2)); assert (made * 2).values().shape == (4, 4, 2)",
        "assert made.to_sparse()._nnz() == 32 and (made @ torch.ones(8, 2)).shape == (8, 2)",
        "Weight = type(model[0].weight); "
        "assert not Weight(data, requires_grad=False, **vars(model[0].weight)).requires_grad",
        "assert len({p.data_ptr() for p in model.parameters()}) == 4; "
        "assert data[1].data_ptr() == data.data_ptr() + 256",
    )
    (tmp_path / "train.py").write_text(TRAINED.format(use=lines_of(uses)))
    outcome = dry_run("train.py")
    assert outcome.code == 0, outcome


UPDATING = """\
import torch
model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(12)))
sgd = torch.optim.SGD(model.parameters())
def train():
    model(torch.randn(8, 64)).square().mean().backward()
{setup}
for step in range(8):
    model.zero_grad()
    {update}
"""

UPDATES = {
    "in backward": (
        """for parameter in model.parameters():
    optimizer = torch.optim.AdamW([parameter])
    parameter.register_post_accumulate_grad_hook(lambda p, o=optimizer: o.step())""",
        "train()",
    ),
    "with a closure": ("", "sgd.step(train)"),
    "by an optimizer of others": (
        """class Both(torch.optim.Optimizer):
    def step(self):
        for part in parts:
            part.step()
parts = [torch.optim.AdamW([parameter]) for parameter in model.parameters()]
both = Both(model.parameters(), {})""",
        "train()\n    both.step()",
    ),
    "by hand": (
        "",
        """train()
    for parameter in model.parameters():
        parameter.data -= parameter.grad""",
    ),
}


@pytest.mark.parametrize("kind", UPDATES)
def test_updates_of_any_kind_make_steps(dry_run, tmp_path, kind):
    setup, update = UPDATES[kind]
    (tmp_path / "train.py").write_text(UPDATING.format(setup=setup, update=update))
    outcome = dry_run("train.py")
    assert outcome.code == 0 and "ops a step" in outcome.out, outcome
