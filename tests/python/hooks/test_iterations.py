"""The iteration is found without the script's help, and the plan follows it."""

import re
import types

import pytest
import torch

import teraio
from teraio import verbosity
from teraio.hooks import iterations, module_names


def model(seed=0, depth=12):
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(256, 256) for _ in range(depth)]
    return torch.nn.Sequential(*layers)


def modes(session):
    return [iteration["mode"] for iteration in session.iterations()]


@pytest.fixture
def offload(tmp_path):
    return lambda **options: teraio.offload("3MB", ssd=tmp_path, **options)


def train(net, optimizer, steps, after_step=lambda step: None, rows=64):
    for step in range(steps):
        net(torch.ones(rows, 256)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        after_step(step)


def backward(net):
    net(torch.ones(64, 256)).square().mean().backward()


def add_gradients(net, alpha):
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(parameter.grad, alpha=alpha)


def updates_by_hand(net):
    backward(net)
    add_gradients(net, -0.01)
    net.zero_grad()


def optimizer_per_parameter(net):
    """In the backward pass."""
    for parameter in net.parameters():
        optimizer = torch.optim.AdamW([parameter])

        def update(parameter, optimizer=optimizer):
            optimizer.step()
            optimizer.zero_grad()

        parameter.register_post_accumulate_grad_hook(update)
    return backward


def optimizers_that_take_turns(net):
    other = model(1)
    optimizers = torch.optim.AdamW(net.parameters()), torch.optim.SGD(other.parameters(), lr=0.1)
    return lambda net: (train(net, optimizers[0], 1), train(other, optimizers[1], 1))


def micro_batches_and_an_evaluation(net):
    optimizer = torch.optim.AdamW(net.parameters())
    evaluate = torch.no_grad()(net.forward)
    return lambda net: (backward(net), evaluate(torch.ones(64, 256)), train(net, optimizer, 1))


def rollouts_before_an_update(net):
    optimizer = torch.optim.AdamW(net.parameters())

    @torch.no_grad()
    def roll_out(net, answers):
        for _ in range(3):
            answers = net(answers)

    return lambda net: (roll_out(net, torch.ones(64, 256)), train(net, optimizer, 1))


def five_steps_of_a_judge(net):
    """Of a GAN, for each of its generator."""
    judge = model(1)
    optimizers = [torch.optim.Adam(each.parameters()) for each in (net, judge)]
    return lambda net: (train(judge, optimizers[1], 5), train(net, optimizers[0], 1))


def parameters_that_change_between_steps(net):
    """When they are initialized, and within an iteration of sharpness-aware minimization."""
    with torch.no_grad():
        for parameter in [*net.parameters(), *net.parameters()]:
            parameter /= parameter.norm() + 1
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def iteration(net):
        backward(net)
        add_gradients(net, 0.1)
        backward(net)
        add_gradients(net, -0.1)
        optimizer.step()
        optimizer.zero_grad()

    return iteration


def first_steps_that_a_scaler_skips(net):
    """Because the gradients are infinite at its first scales."""
    optimizer = torch.optim.AdamW(net.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120, backoff_factor=2.0**-30)

    def iteration(net):
        scaler.scale(net(1e10 * torch.ones(64, 256)).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    return iteration


class Container(torch.optim.Optimizer):
    """An optimizer whose step is the step of another one, like TorchTitan's."""

    def __init__(self, inner):
        super().__init__(inner.param_groups, {})
        self.inner = inner

    def step(self, closure=None):
        self.inner.step(closure)


def optimizer_within_another(net):
    optimizer = Container(torch.optim.AdamW(net.parameters()))
    return lambda net: train(net, optimizer, 1)


@pytest.mark.parametrize(
    "program, parts",
    [
        (lambda net: updates_by_hand, "1 forward, 1 backward, 0 updates"),
        (optimizer_per_parameter, "1 forward, 1 backward, 1 update"),
        (optimizer_within_another, "1 forward, 1 backward, 1 update"),
        (first_steps_that_a_scaler_skips, "1 forward, 1 backward, 1 update"),
        (optimizers_that_take_turns, "2 forward, 2 backward, 2 updates"),
        (micro_batches_and_an_evaluation, "2 forward, 1 without gradients, 2 backward, 1 update"),
        (rollouts_before_an_update, "1 forward, 3 without gradients, 1 backward, 1 update"),
        (five_steps_of_a_judge, "6 forward, 6 backward, 6 updates"),
        (parameters_that_change_between_steps, "2 forward, 2 backward, 2 updates"),
    ],
)
def test_iterations_are_those_of_the_program(offload, teraio, tmp_path, program, parts):
    with offload(report=tmp_path) as session:
        net = model(depth=28)
        iteration = program(net)
        for _ in range(10):
            iteration(net)
        assert len(session.iterations()) == session.counters()["iterations"] == 10
        assert modes(session)[5:] == ["planned"] * 5
        name = session.patterns()[-1]["name"]
        assert re.sub(r" from 0 \(.*test_iterations.py:\d+\)", "", name, count=1) == parts
    said = teraio("explain", "--run", tmp_path).splitlines()  # with 56 optimizers, for example
    assert len(said) < 20 and max(map(len, said)) <= 140, said


def test_modules_have_their_names_in_every_session(offload, monkeypatch):
    monkeypatch.setattr(module_names, "_SEARCHES_MAX", 1)
    for _ in range(2):
        with offload() as session:
            net = model()
            train(net, torch.optim.AdamW(net.parameters()), 5)
            assert session.patterns()[-1]["name"].startswith("1 forward from 0 (")


def test_the_trace_says_that_only_the_update_changes_parameters(offload):
    with offload() as session:
        net = model()
        train(net, torch.optim.SGD(net.parameters(), foreach=False), 5)
        trace = session.trace().to_dict()
    parameters = {t["id"] for t in trace["tensors"] if t["kind"] == "parameter"}
    assert len(parameters) == len(list(net.parameters()))
    changes = {op["name"] for op in trace["ops"] if parameters & set(op["writes"])}
    assert changes == {"aten::add_.Tensor"}
    views = [op for op in trace["ops"] if op["name"] == "aten::t"]
    assert views and not any(op["writes"] for op in views)
    assert any(parameters & set(op["reads"]) for op in views)


def test_a_saved_plan_runs_again(offload, tmp_path):
    def run(**options):
        with offload(**options) as session:
            net = model()
            train(net, torch.optim.AdamW(net.parameters()), 6)
            return session, session.plan()

    _, plan = run()
    plan.save(tmp_path / "plan.json")
    session, again = run(plan=tmp_path / "plan.json")
    assert again.to_dict()["migrations"] == plan.to_dict()["migrations"]
    assert modes(session)[-1] == "planned"


def train_with_differences(net):
    """Six equal steps, six of other sizes, of which the last one has an op more."""
    optimizer = torch.optim.AdamW(net.parameters())
    for step in range(12):
        rows = 64 if step < 6 else 40 + step
        loss = net(torch.ones(rows, 256)).square().mean()
        if step == 11:
            loss = loss.sigmoid()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


SIGMOID_LINE = train_with_differences.__code__.co_firstlineno + 7


def test_differences_name_the_op_and_its_line(offload, teraio, tmp_path):
    with offload(report=tmp_path) as session:
        train_with_differences(model())
    sizes, ops = session.differences()
    assert (sizes["kind"], sizes["op"], sizes["iterations"]) == ("sizes", "aten::linear", 6)
    assert (sizes["smallest_bytes"], sizes["largest_bytes"]) == (46 * 1024, 51 * 1024)
    assert (ops["kind"], ops["op"], ops["iterations"]) == ("ops", "aten::sigmoid", 1)
    where = f"test_iterations.py:{SIGMOID_LINE} in train_with_differences"
    assert ops["location"].endswith(where)
    said = teraio("explain", "--run", tmp_path)
    assert re.search(r"^- In 6 steps, .* had inputs of 47.1 kB to 52.2 kB instead", said, re.M)
    assert re.search(r"^- In 1 step, aten::sigmoid came instead of aten::[a-z_]+: op", said, re.M)
    assert f"{where}, after a use of" in said


def test_a_run_that_cannot_be_explained(teraio, tmp_path):
    assert f"{tmp_path / 'run.json'}: " in teraio("explain", "--run", tmp_path, fails=True)
    (tmp_path / "run.json").write_text('{"format": "teraio-run/1", "counters": {"ops": -1}}')
    said = teraio("explain", "--run", tmp_path, fails=True)
    assert "run.json: counters.ops: expected" in said


class Odd(torch.optim.SGD):
    """An optimizer that keeps an object of its own as the state of a parameter."""

    kinds = (
        lambda p: [torch.ones_like(p)],
        lambda p: types.SimpleNamespace(mean=torch.ones_like(p)),
        lambda p: torch.ones_like(p),
        lambda p: {1: torch.ones_like(p), "mean": None},
        lambda p: None,
        lambda p: {1: p[:2] * 1, "1": torch.eye(9).to_sparse()},
        lambda p: {"conjugate": torch.ones(9, dtype=torch.complex64).conj()},
        lambda p: {"rounded": torch.quantize_per_tensor(p[:9], 0.1, 0, torch.quint8)},
    )

    def step(self, closure=None):
        for group in self.param_groups:
            for number, parameter in enumerate(group["params"]):
                self.state[parameter] = self.kinds[number % len(self.kinds)](parameter)
        return super().step(closure)


def test_states_of_any_kind(offload):
    with offload() as session:
        net = model()
        optimizer = Odd(net.parameters(), lr=0.1)
        train(net, optimizer, 6)
        assert "planned" in modes(session)
        hashes = session.verify()
    names = {name.rpartition("parameter")[2] for name in hashes if "group0" in name}
    assert {"0.0", "1.mean", "2.state", "3.1", "4", "5.1", "6.conjugate", "7.rounded"} <= names


def test_states_that_are_no_dictionary(offload):
    with offload() as session:
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        optimizer.state = []
        train(net, optimizer, 1)
        assert len(session.verify()) == 1 + len(list(net.parameters()))


class Loss(torch.Tensor):
    """A tensor that refuses to be copied."""

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        if function is torch.Tensor.clone:
            raise NotImplementedError
        return super().__torch_function__(function, types, arguments, options or {})


def test_what_is_only_for_names_and_hashes_ends_no_program(offload, monkeypatch, caplog):
    caplog.set_level("DEBUG")
    monkeypatch.setattr(iterations.IterationHooks, "_names_of", None)
    before = verbosity.failed_calls
    with offload() as session:
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(6):
            net(torch.ones(64, 256)).square().mean().as_subclass(Loss).backward()
            optimizer.step()
            optimizer.zero_grad()
        assert "planned" in modes(session)
    assert verbosity.failed_calls - before >= 2
    told = [text for text in caplog.messages if "which the run does not need" in text]
    assert len(told) == (before == 0)
