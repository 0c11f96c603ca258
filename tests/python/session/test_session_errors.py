"""What bad input gets: one clear line, before training where it can be known."""

import os
import re
import signal

import pytest
import torch
from matrix import budgets
from matrix.subclasses import Pair

import teraio
from teraio import core


def matmul(size=1024):
    a, b = torch.ones(size, size), torch.ones(size, size)
    return (a @ b).sum().item()


def test_the_program_runs_with_the_budget_that_an_error_names_after_some_steps():
    def program(budget):
        with budgets.offload(budget):
            train(3)
            kept = torch.zeros(1_325_000)  # 5.3 MB
            kept.data_ptr()  # pins it
            return train(3)

    with pytest.raises(torch.OutOfMemoryError, match="The iterations so far") as failure:
        program("6MB")
    assert program(budgets.least_bytes(failure.value)) == program("100MB")


def test_the_session_goes_on_after_an_op_that_did_not_fit():
    with budgets.offload("10MB", evict_after_every_op=True):
        kept = torch.ones(500, 500) * 3
        for _ in range(3):
            with pytest.raises(torch.OutOfMemoryError):
                matmul()
        assert kept.sum().item() == 750_000
        assert matmul(500) == 500**3


class Summing(Pair):
    """A wrapper that runs an op when the session asks what it holds."""

    def __tensor_flatten__(self):
        self.b.sum()
        return ["a"], None


def test_what_an_op_that_did_not_fit_has_used_inside_may_leave():
    with budgets.offload("10MB") as session:
        a, b, c, d = (torch.ones(1 << 20) + 1 for _ in range(4))
        with pytest.raises(torch.OutOfMemoryError):
            torch.stack([Summing(a, b), c, d])
        assert session.counters()["unmovable_bytes"] < b.nbytes


@pytest.mark.parametrize(
    "asked", ["hooks.op_origins.origin_of_op", "hooks.source_location.described_script_location"]
)
def test_what_a_signals_handler_raises_while_an_op_asks_for_its_line(asked, monkeypatch):
    def stop(*_):
        raise SystemExit

    def interrupted():
        signal.raise_signal(signal.SIGUSR1)
        return ("", "") if "origin" in asked else ""

    handler = signal.signal(signal.SIGUSR1, stop)
    try:
        with budgets.offload("100MB") as session, pytest.raises(SystemExit):
            monkeypatch.setattr(f"teraio.{asked}", interrupted)
            train(2)
            train(2, width=256)
            pytest.fail(f"nobody asked, or nobody was told: {session.differences()}")
    finally:
        signal.signal(signal.SIGUSR1, handler)


def test_full_drive_is_told():
    with teraio.offload("5MB", ssd_capacity="4MB"):
        tensors = []
        with pytest.raises(torch.OutOfMemoryError, match="ssd") as failure:
            for _ in range(20):
                tensors.append(torch.ones(500_000) + 1)
        assert "\n" not in str(failure.value).strip()
        for tensor in tensors:
            assert tensor[::1000].sum().item() == 1000


@pytest.mark.skipif(torch.cuda.is_available(), reason="not applicable: there is a GPU")
@pytest.mark.parametrize("budget", [None, "1GB", "40%"])
def test_a_gpu_that_is_not_there(budget):
    with pytest.raises(teraio.Error, match="^cuda: "):
        teraio.offload(budget, device="cuda")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"device_budget": "lots"}, '"lots" is not a size'),
        ({"device_budget": -1}, "is not a size"),
        ({"device_budget": 0}, "budget is 0"),
        ({"device_budget": "1GB", "device": "tpu"}, '"tpu" is not supported'),
        ({"device_budget": "1GB", "device": "cuda:x"}, '"cuda:x" is not supported'),
        ({"device_budget": "1GB", "device": torch.device("meta")}, '"meta" is not supported'),
        ({"device_budget": "1GB", "device": 0}, '"0" is not supported'),
        ({}, "device_budget is missing"),
        ({"device_budget": "1GB", "ssd": "/nowhere"}, "/nowhere does not exist"),
        ({"device_budget": "1GB", "ssd": False}, "there is no tier to offload tensors to"),
        ({"device_budget": "1GB", "ssd": "/proc"}, "/proc is not writable"),
        ({"device_budget": "1GB", "ssd": "/dev/shm"}, "which is memory"),
        ({"device_budget": "1GB", "save_timeline": "/nowhere/x"}, "save_timeline: the directory"),
        ({"device_budget": "1GB", "save_timeline": "."}, "save_timeline: . is a directory"),
        ({"device_budget": "1GB", "verify": "/nowhere/x"}, "verify: the directory /nowhere does"),
        (
            {"device_budget": "1GB", "verify": "both", "save_timeline": "./both"},
            "save_timeline: both is given twice",
        ),
    ],
)
def test_refused_before_anything_has_changed(arguments, message):
    allocate = torch.Tensor.numpy
    with pytest.raises(teraio.Error, match=re.escape(message)) as failure:
        teraio.offload(**arguments)
    assert "\n" not in str(failure.value)
    assert torch.Tensor.numpy is allocate


def test_a_device_of_pytorch_is_one():
    with budgets.offload("64MB", device=torch.device("cpu")):
        assert matmul(8) == 512


def test_arguments_of_other_functions_are_checked():
    with pytest.raises(teraio.Error, match='"5" cannot be pinned: expected a tensor'):
        teraio.pin(5)
    with pytest.raises(teraio.Error, match='the first iteration is "-1": expected an index'):
        teraio.offload("1GB").iterations(-1)


def test_option_that_the_core_does_not_know():
    known = "expected one of device, device_budget_bytes, "
    with pytest.raises(TypeError, match=f'Session has no option "ssd_directory": {known}'):
        core.Session(device_budget_bytes=1 << 20, ssd_directory="/tmp")


def train(layers, width=384, steps=5):
    torch.manual_seed(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(layers)])
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    losses = []
    for _ in range(steps):
        loss = model(torch.ones(64, width)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def test_trace_and_plan_that_there_are_not():
    with budgets.offload("64MB") as session:
        torch.ones(3) + 1
        for document in (session.trace, session.plan):
            with pytest.raises(teraio.Error, match="no iteration of the training loop"):
                document()


def test_an_end_for_which_there_is_no_memory_is_refused(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemAvailable: 10000 kB\nSwapFree: 0 kB\n")
    core.set_options_for_tests(system_root=tmp_path, evict_after_every_op=True)
    session = teraio.offload("16MB", ssd_capacity="200MB")
    running = session._core
    tensors = []
    with pytest.raises(teraio.Error, match=r"needs \d+ bytes .* and 10240000 bytes"), session:
        tensors += [torch.full((1 << 20,), float(i)) + 0 for i in range(20)]
        torch.zeros(1) + 1  # all have been offloaded after this op
    for i, tensor in enumerate(tensors):
        assert tensor[::1000].sum().item() == i * 1049
    del tensors[3:], tensor
    torch.zeros(1) + 1
    session.end()
    assert not running.is_running()
    assert [tensor.sum().item() for tensor in tensors] == [0, 1 << 20, 2 << 20]
    assert session.counters()["bytes_away"] == 0
    with budgets.offload("16MB"):  # the session has ended
        assert (torch.ones(1000) + 1).sum().item() == 2000


def test_a_process_may_exit_although_its_session_could_not_end(tmp_path, warm_python):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemAvailable: 0 kB\nSwapFree: 0 kB\n")
    (tmp_path / "program.py").write_text(
        "import gc, torch, teraio\n"
        "from teraio import core\n"
        "tensors = []\n"
        f"core.set_options_for_tests(system_root={str(tmp_path)!r}, evict_after_every_op=True)\n"
        "try:\n"
        "    with teraio.offload('16MB', ssd_capacity='200MB'):\n"
        "        tensors += [torch.full((1 << 20,), 2.0) + 0 for i in range(20)]\n"
        "except teraio.Error as error:\n"
        "    message = str(error)\n"
        "gc.collect()\n"
        "print(' and 0 bytes ' in message, [t.mean().item() for t in tensors] == [2.0] * 20)\n"
    )
    outcome = warm_python("program.py")
    assert (outcome.code, outcome.out.splitlines()[-1]) == (0, "True True"), outcome


def damage_file(size_bytes):
    """Overwrites a block in each of the first megabytes of the session's file."""
    for number in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{number}"
        if os.path.islink(path) and "/.teraio-" in os.readlink(path):
            with open(path, "r+b") as file:
                for offset_bytes in range(0, size_bytes, 1 << 20):
                    os.pwrite(file.fileno(), b"\xff" * 4096, offset_bytes)
                os.fsync(file.fileno())


def test_exit_restores_what_can_be_read_and_names_the_rest(tmp_path):
    tensors = []
    with (
        pytest.raises(teraio.Error, match="came back different from what was written") as failure,
        budgets.offload("64MB", ssd=tmp_path, checksum=True, evict_after_every_op=True),
    ):
        tensors += [torch.full((1 << 20,), float(i)) + 0 for i in range(10)]
        torch.zeros(1) + 1  # all have been offloaded after this op
        damage_file(20 << 20)  # half of them
    lost = 0
    for i, tensor in enumerate(tensors):
        try:
            assert torch.equal(tensor, torch.full((1 << 20,), float(i)))
        except RuntimeError as error:
            assert re.search(r"TERAIO: tensor \d+ \(4\.19 MB\) is not on the device", str(error))
            lost += 1
    assert 0 < lost < 10
    message = str(failure.value)
    assert re.search(rf"{lost} of \d+ tensors did not come back: \d+ \(4\.19 MB\)", message)
