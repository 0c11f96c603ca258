"""Sessions in a program that does other things too."""

import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from matrix import budgets
from matrix.catalogue import JOBS
from matrix.jobs import train

import teraio
from teraio.hooks.verification import tensor_hash

pytestmark = pytest.mark.usefixtures("one_settled_thread")

NAME = "llama, AdamW"
JOB = JOBS[NAME]


@pytest.fixture
def budget_bytes():
    return budgets.natural_peak_bytes(NAME) * 40 // 100


def test_several_sessions_one_after_another_keep_no_addresses(budget_bytes):
    def reserved_bytes():
        gc.collect()
        fields = dict(line.split(":") for line in Path("/proc/self/status").open())
        return int(fields["VmSize"].split()[0]) * 1024

    after = []
    for _ in range(4):
        assert budgets.train_within(JOB, budget_bytes)[0] == budgets.reference(NAME)
        after.append(reserved_bytes())
    assert after[-1] < after[0] + 2**30
    assert train(JOB) == budgets.reference(NAME)


def test_session_gives_its_room_on_the_drive_back(budget_bytes):
    def open_files_and_threads():
        files = [str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
        return [f for f in files if "teraio" in f], len(list(Path("/proc/self/task").iterdir()))

    before = open_files_and_threads()
    with budgets.offload(budget_bytes) as session:
        model = torch.nn.Linear(1024, 1024)
        assert train(JOB) == budgets.reference(NAME)
        assert open_files_and_threads() != before
    assert open_files_and_threads() == before
    assert session.counters()["ssd_bytes_read"] > 0
    assert model(torch.ones(1, 1024)).isfinite().all()


def test_natural_peak_has_an_evaluation_that_takes_more_than_a_step():
    def peaks(budget, **options):
        model = torch.nn.Linear(512, 512)
        optimizer = torch.optim.AdamW(model.parameters())
        with budgets.offload(budget, **options) as session:
            for step in range(7):
                model(torch.ones(8, 512)).square().mean().backward()
                optimizer.step()
                if step == 5:
                    _ = [model(torch.ones(n, 512)).detach() for n in (1500, 1600, 1700)]
            taken = max(iteration["device_peak_bytes"] for iteration in session.iterations())
            return session.counters()["natural_peak_bytes"], taken

    needed, taken = peaks("1GB")
    assert 0.99 * taken < needed <= taken
    assert peaks(needed * 6 // 10)[0] == needed
    assert peaks("1GB", discard_after_every_op=True)[0] == needed


def test_model_made_before_the_session_and_used_after_it(budget_bytes):
    torch.manual_seed(1)
    model = JOB.model()
    expected = train(JOB, model)
    torch.manual_seed(1)
    model = JOB.model()
    with budgets.offload(budget_bytes) as session:
        assert train(JOB, model) == expected
        assert session.counters()["ssd_bytes_read"] > 0
    assert train(JOB, model).losses  # and on
    with budgets.offload(budget_bytes):
        assert train(JOB, model).losses


def test_second_session_within_the_first_is_refused(budget_bytes):
    with budgets.offload(budget_bytes):
        with pytest.raises(teraio.Error, match="is running in this process"):
            with budgets.offload(budget_bytes):
                pass
        assert train(JOB) == budgets.reference(NAME)


def test_session_is_entered_once():
    session = budgets.offload("64MB")
    with session:
        pass
    with pytest.raises(teraio.Error, match="has ended"):
        with session:
            pass


def test_exception_in_the_middle_of_a_step_then_more_steps(budget_bytes):
    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(6)])
    optimizer = torch.optim.AdamW(model.parameters())

    def step(fails=False):
        loss = model(torch.ones(64, 512)).square().mean()
        if fails:
            loss.register_hook(lambda gradient: 1 / 0)
        try:
            loss.backward()
        except ZeroDivisionError:
            return None
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    def run():
        torch.manual_seed(1)
        for layer in model:
            layer.reset_parameters()
        optimizer.state.clear()
        return [step(fails=n in (2, 5)) for n in range(8)]

    expected = run()
    with budgets.offload("9MB"):
        assert run() == expected
    assert run() == expected


def test_op_that_fails_leaves_its_inputs_usable():
    with budgets.offload("64MB", evict_after_every_op=True):
        left, right = torch.ones(300, 300), torch.ones(200, 200)
        for _ in range(3):
            with pytest.raises(RuntimeError, match="cannot be multiplied"):
                left @ right
        assert left.sum().item() == 90_000 and right.sum().item() == 40_000


def test_threads_that_use_torch(budget_bytes):
    torch.manual_seed(3)
    matrices = [torch.randn(256, 256) for _ in range(8)]
    expected = [torch.linalg.matrix_power(m / 16, 8) for m in matrices]
    failures = []

    def compute(mine):
        try:
            for _ in range(20):
                for i in mine:
                    product = torch.linalg.matrix_power(matrices[i] / 16, 8)
                    if not torch.equal(product, expected[i]):
                        failures.append(i)
        except Exception as error:
            failures.append(error)

    # The tensors of one thread alone do not fit: the threads may run one after the other.
    with budgets.offload("3MB") as session:
        threads = [threading.Thread(target=compute, args=(range(k, 8, 2),)) for k in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert session.counters()["ssd_bytes_read"] > 0
    assert failures == []


class Squares(torch.utils.data.Dataset):
    """Its numbers live in a tensor of the session."""

    def __init__(self):
        self.numbers = torch.arange(100_000.0) ** 2

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return self.numbers[index * 1000 : (index + 1) * 1000] + torch.zeros(1000)


@pytest.mark.parametrize("stress", [False, True])
def test_data_loader_with_workers(stress):
    expected = [float(batch.sum()) for batch in torch.utils.data.DataLoader(Squares(), 8)]
    with budgets.offload("8MB", evict_after_every_op=stress):
        dataset = Squares()
        work = torch.ones(700, 700)
        loader = torch.utils.data.DataLoader(dataset, 8, num_workers=2)
        for _ in range(2):
            sums = []
            for batch in loader:
                work = (work @ work).clamp(max=1)
                sums.append(float(batch.sum()))
            assert sums == expected


def test_forked_process_ends_without_the_sessions_threads():
    with budgets.offload("8MB"):
        tensor = torch.ones(512, 512) + 1
        child = os.fork()
        if child == 0:
            os._exit(0 if float((tensor * 2).sum()) == 4 * 512 * 512 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert float(tensor.sum()) == 2 * 512 * 512


def test_garbage_collection_at_every_moment(budget_bytes):
    thresholds = gc.get_threshold()
    gc.set_threshold(20, 2, 2)
    try:
        assert budgets.train_within(JOB.but(steps=2), budget_bytes)[0].losses
    finally:
        gc.set_threshold(*thresholds)


def test_storages_of_others_are_left_alone():
    import numpy as np

    array = np.ones(200_000, dtype=np.float32)
    buffer = bytearray(800_000)
    others = [
        torch.from_numpy(array),
        torch.frombuffer(buffer, dtype=torch.float32),
        torch.ones(200_000).share_memory_(),
    ]
    addresses = [other.data_ptr() for other in others]
    with budgets.offload("3MB") as session:
        for _ in range(3):
            for other in others:
                other.add_(1)
                torch.ones(300_000).mul_(2).sum()
        assert [other.data_ptr() for other in others] == addresses
        assert session.counters()["device_peak_bytes"] < 3_000_000
    assert array[0] == 4 and others[1][0] == 3 and others[2][0] == 4


def test_unmovable_bytes_are_counted():
    with budgets.offload("64MB", evict_after_every_op=True) as session:
        tensor = torch.ones(100_000) + 1
        before_bytes = session.counters()["unmovable_bytes"]
        array = tensor.numpy()
        assert session.counters()["unmovable_bytes"] == before_bytes + tensor.nbytes
        del array


# The signal comes while steps go on.
INTERRUPTED = """
import os, signal, sys, threading, torch, teraio
interrupt = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT))
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)])
optimizer = torch.optim.AdamW(model.parameters())
def step():
    model(torch.ones(64, 512)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
steps = 0
try:
    with teraio.offload("10MB", ssd=sys.argv[1], ssd_capacity="100MB"):
        while True:
            step()
            steps += 1
            if steps == 3:
                interrupt.start()
except KeyboardInterrupt:
    print("interrupted")
step()
print(all(torch.isfinite(p).all() for p in model.parameters()), os.listdir(sys.argv[1]))
"""


def test_interrupt_leaves_no_file_and_a_usable_process(warm_python, tmp_path):
    (tmp_path / "ssd").mkdir()
    (tmp_path / "train.py").write_text(INTERRUPTED)
    done = warm_python("train.py", "ssd")
    assert done.code == 0 and done.out.endswith("interrupted\nTrue []\n"), done


def test_verification_compares_losses_and_state_with_an_earlier_run(tmp_path):
    def run(budget, scale=1.0):
        with teraio.offload(budget, ssd=tmp_path, verify=tmp_path / "bits.json.gz") as session:
            torch.manual_seed(0)
            layer = torch.nn.Linear(256, 256)
            optimizer = torch.optim.AdamW(layer.parameters())
            for _ in range(4):
                (layer(torch.ones(64, 256)).square().mean() * scale).backward()
                optimizer.step()
                optimizer.zero_grad()
            return session.verify()

    hashes = run("64MB")
    assert {"loss0", "loss3", "optimizer0.group0.parameter0.exp_avg"} <= hashes.keys()
    assert run("2MB") == hashes
    with pytest.raises(teraio.Error, match="loss0"):
        run("64MB", scale=2.0)


def test_what_the_program_drops_takes_no_room():
    with budgets.offload("64MB") as session:
        for _ in range(3):
            model = torch.nn.Linear(512, 512)
            optimizer = torch.optim.AdamW(model.parameters())
            model(torch.ones(4, 512)).sum().backward()
            optimizer.step()
        assert "optimizer0.group0.parameter0" in session.verify()
        assert "optimizer1.group0.parameter0" not in session.verify()
        del model, optimizer
        gc.collect()
        counters = session.counters()
        assert counters["device_bytes"] + counters["bytes_away"] < 100_000


def test_losses_of_a_long_run_are_kept_as_hashes():
    with budgets.offload("64MB") as session:
        weight = torch.ones(3, requires_grad=True)
        hashes = {}
        for step in range(600):
            loss = (weight * step).sum()
            loss.backward()
            hashes[f"loss{step}"] = tensor_hash(loss)
        assert len(session._hooks._losses._newest) == 600 - 512
        assert session.verify() == hashes


def test_one_hash_represents_the_losses_of_a_run_that_goes_on(monkeypatch):
    monkeypatch.setattr("teraio.hooks.iterations.LOSSES_WITH_OWN_HASH", 3)

    def hashes_of(*factors):
        with budgets.offload("64MB") as session:
            weight = torch.ones(3, requires_grad=True)
            for factor in factors:
                (weight * factor).sum().backward()
            return session.verify()

    expected = hashes_of(*range(600))
    assert list(expected) == ["loss0", "loss1", "loss2", "losses from 3 on"]
    assert hashes_of(*range(600)) == expected
    for changed in ([*range(599), 0], [*range(599)], [*range(597), 598, 597, 599]):
        other = hashes_of(*changed)
        assert other.keys() == expected.keys()
        assert other["losses from 3 on"] != expected["losses from 3 on"]


def test_backward_from_a_generator_of_tensors():
    weight = torch.ones(3, requires_grad=True)
    with budgets.offload("64MB"):
        torch.autograd.backward((weight * n).sum() for n in (1, 2))
    assert weight.grad.tolist() == [3, 3, 3]


# A program whose model is there to its end, and what its process has had in memory at most.
KEPT = """
import atexit, sys, torch
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(int(sys.argv[1]))])
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
for _ in range(4):
    model(torch.ones(64, 1024)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
atexit.register(lambda: print("last", sum(p.sum() for p in model.parameters()).isfinite().item()))
"""
MEASURED = """
import resource, subprocess, sys
subprocess.run([sys.executable, *sys.argv[1:]], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


@pytest.mark.full
def test_program_ends_within_budget_and_a_fixed_overhead(python, tmp_path):
    (tmp_path / "train.py").write_text(KEPT)
    (tmp_path / "measure.py").write_text(MEASURED)
    run = ["-m", "teraio", "run", "--device-budget", "60MB"]
    runs = [python("measure.py", *run, "train.py", layers).out.split() for layers in (1, 24)]
    assert all("True" in words for words in runs), runs
    least_bytes, most_bytes = (int(words[-1]) for words in runs)
    assert most_bytes - least_bytes < 60_000_000 + 30_000_000


def test_iterations_from_an_index_on():
    parameter = torch.zeros(1000, requires_grad=True)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    with budgets.offload("64MB") as session:
        for _ in range(5):
            (parameter * 2).sum().backward()
            optimizer.step()
        all_of_them = session.iterations()
        assert len(all_of_them) >= 4
        assert session.iterations(first=3) == all_of_them[3:]
        assert session.iterations(first=100) == []


def test_documented_loop_logs_each_step_once():
    page = (Path(__file__).parents[3] / "docs" / "watching.md").read_text()
    _, _, section = page.partition("## Figures beside the loss")
    example = section.partition("```python\n")[2].partition("```")[0]
    parameter = torch.zeros(1000, requires_grad=True)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    logged = {}

    def train(batch):
        (parameter * batch).sum().backward()
        optimizer.step()

    def log(figures, step):
        assert step not in logged
        logged[step] = figures

    tiny = SimpleNamespace(offload=lambda budget: budgets.offload("64MB"))
    names = {"teraio": tiny, "batches": range(5), "train": train, "log": log}
    exec(example, names)
    iterations = names["session"].iterations()[: len(logged)]
    assert list(logged) == [1, 2, 3, 4, 5][: len(logged)] and len(logged) >= 4
    assert list(logged.values()) == [
        {f"teraio/{name}": iteration[name] for name in ("duration_ns", "ssd_bytes_read")}
        for iteration in iterations
    ]


def test_running_session_is_found():
    assert teraio.running_session() is None
    with budgets.offload("12MB") as session:
        assert teraio.running_session() is session
    assert teraio.running_session() is None


def test_threads_share_discarded_tensors():
    x = torch.arange(1 << 17, dtype=torch.float32)
    expected = [(x * n).sin() for n in range(6)]
    with budgets.offload("64MB", discard_after_every_op=True) as session:
        shared = [(x * n).sin() for n in range(6)]

        def are_equal(order):
            return [torch.equal(shared[n], expected[n]) for n in order]

        with ThreadPoolExecutor(2) as pool:
            orders = [range(6), range(5, -1, -1)] * 3
            assert [*pool.map(are_equal, orders)] == [[True] * 6] * 6
        assert session.counters()["on_demand_replays"] > 6
