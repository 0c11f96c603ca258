"""Memory that other code reaches from before the session on: it stays where it is, and is counted.

Every tensor is used by operators of the session, which moves everything out after every one.
"""

import gc

import numpy as np
import pytest
import torch
from matrix import budgets
from torch.utils import dlpack

import teraio
from teraio import core


@pytest.fixture
def kept_bytes():
    """Gives the bytes that a session keeps in place, without those that other tests have left."""
    gc.collect()
    with budgets.offload("64MB") as session:
        before_bytes = session.counters()["kept_in_place_bytes"]
    return lambda session: session.counters()["kept_in_place_bytes"] - before_bytes


@pytest.fixture
def kept_bytes_of_change(kept_bytes):
    """Changes the tensor under a session; gives the bytes that it kept in place."""

    def kept_bytes_of_change(tensor):
        with budgets.offload("200MB", evict_after_every_op=True) as session:
            tensor.add_(1)
            torch.full((200_000,), 7.0) + 1  # writes into memory that was freed
            return kept_bytes(session)

    return kept_bytes_of_change


def test_a_capsule_that_nobody_has_taken_yet(kept_bytes_of_change):
    tensor = torch.zeros(1 << 20)
    capsule = dlpack.to_dlpack(tensor)
    kept_bytes_of_change(tensor)
    other = torch.from_dlpack(capsule)
    assert other[7] == 1
    other[7] = 3
    assert tensor[7] == 3


def test_both_tensors_of_a_memory_are_written_in_the_session():
    tensor = torch.zeros(1 << 20)
    other = torch.from_dlpack(tensor)
    with budgets.offload("64MB", evict_after_every_op=True):
        for _ in range(3):
            tensor.add_(1)
            other.mul_(2)
        assert torch.equal(tensor, other) and tensor[0].item() == 14
    assert torch.equal(tensor, other) and tensor[0].item() == 14


def test_an_export_in_the_session_before_any_operator_has_used_the_tensor(kept_bytes):
    tensor = torch.zeros(1 << 20)
    with budgets.offload("64MB", evict_after_every_op=True) as session:
        array = np.from_dlpack(tensor)
        tensor.add_(1)
        torch.full((200_000,), 7.0) + 1
        assert array[1000] == 1
        assert kept_bytes(session) == tensor.nbytes


def address_of(tensor):
    """The address, as an extension learns it that nobody observes."""
    return core.original_c_function(torch.Tensor.data_ptr)(tensor)


def test_a_pin_holds_the_address_before_any_operator_has_used_the_tensor(kept_bytes):
    tensor = torch.zeros(1 << 20)
    with budgets.offload("64MB", evict_after_every_op=True) as session:
        with teraio.pin(tensor):
            address = address_of(tensor)
            tensor.add_(1)
            assert address_of(tensor) == address
        tensor.add_(1)
        assert kept_bytes(session) == 0 and session.counters()["bytes_away"] == tensor.nbytes


SCRIPT = """\
import atexit, ctypes, sys, teraio
from teraio.escapes import addresses
assert "torch" not in sys.modules
atexit.register(lambda: print(addresses.noted_storages([])))  # when PyTorch's modules go
import torch
import teraio.core
tensor = torch.zeros(1 << 20)
address = tensor.data_ptr() + 4000
teraio.core.set_options_for_tests(evict_after_every_op=True)
with teraio.offload("64MB", ssd_capacity="100MB"):
    tensor.add_(1)
    print(ctypes.c_float.from_address(address).value)
    ctypes.c_float.from_address(address).value = 7
print(tensor[1000].item())
x = torch.ones(400)
x.data_ptr()
"""


def test_addresses_are_seen_where_torch_is_imported_later_and_none_at_the_end(python):
    outcome = python("-c", SCRIPT)
    assert (outcome.out, outcome.err) == ("1.0\n7.0\n[]\n", "")


def test_aliases_stay_valid_in_later_sessions(kept_bytes_of_change):
    tensor = torch.zeros(1 << 20)
    alias = np.from_dlpack(tensor)
    for turn in range(1, 4):
        assert kept_bytes_of_change(tensor) == tensor.nbytes
        assert alias[1000] == turn


# What is counted and told.


def test_kept_bytes_count_against_the_budget_until_the_storage_dies(kept_bytes):
    tensor = torch.zeros(1 << 20)
    tensor.data_ptr()
    with budgets.offload("6MB") as session:
        counters = session.counters()
        for name in ("device_bytes", "unmovable_bytes", "held_for_good_bytes"):
            assert counters[name] >= tensor.nbytes, name
        with pytest.raises(torch.OutOfMemoryError, match=r"4\.\d+ MB are in use and cannot leave"):
            torch.ones(1 << 20) + 1
        taken_bytes = session.counters()["device_bytes"]
        size_bytes = tensor.nbytes
        del tensor
        assert kept_bytes(session) == 0
        assert session.counters()["device_bytes"] == taken_bytes - size_bytes
        torch.ones(1 << 19) + 1


def test_the_storage_may_outlive_the_session(kept_bytes):
    tensor = torch.zeros(1 << 20)
    tensor.data_ptr()
    with budgets.offload("64MB") as session:
        tensor.add_(1)
    del tensor
    assert kept_bytes(session) == 0


def test_one_line_names_what_stays(caplog):
    weight = torch.nn.Parameter(torch.zeros(1 << 19))
    weight.data_ptr(), weight.detach().data_ptr()
    optimizer = torch.optim.SGD([weight], lr=0.1)
    caplog.set_level("INFO")
    with budgets.offload("10MB"):
        pass
    (line,) = [line for line in caplog.messages if "stay on the device" in line]
    assert "stay on the device, because other code knows their addresses" in line, optimizer


# What shares a storage, and no memory with another storage.


def model_of():
    layers = [torch.nn.Conv2d(8, 64, 3), torch.nn.BatchNorm2d(64), torch.nn.ReLU()]
    layers += [torch.nn.Conv2d(64, 64, 3), torch.nn.Flatten(), torch.nn.Linear(1024, 64)]
    return torch.nn.Sequential(*layers)


def trained(model):
    """A loss that is kept, with the graph of a second pass, and an optimizer with its state."""
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    model(torch.ones(4, 8, 8, 8)).square().mean().backward()
    optimizer.step()
    scheduler.step()
    return optimizer, scheduler, model(torch.ones(4, 8, 8, 8)).square().mean()


def loaded(model):
    dataset = torch.utils.data.TensorDataset(torch.ones(100, 8, 8, 8), torch.ones(100))
    batches = iter(torch.utils.data.DataLoader(dataset, batch_size=50))
    batch, _ = next(batches)
    return batches, model(batch).sum()


HOLDERS = {"optimizer, scheduler and a kept loss": trained, "batches of a DataLoader": loaded}


@pytest.mark.parametrize("holder", HOLDERS)
def test_other_references_keep_nothing_in_place(holder, kept_bytes):
    model = model_of()
    held = HOLDERS[holder](model)
    gc.collect()
    with budgets.offload("64MB", evict_after_every_op=True) as session:
        model.train()(torch.ones(4, 8, 8, 8)).sum()
        assert kept_bytes(session) == 0, held
        assert session.counters()["bytes_away"] >= 64 * 1024 * 4  # the linear layer's weight


@pytest.mark.parametrize("as_views", [False, True])
def test_ddp_keeps_nothing_in_place(as_views, tmp_path, kept_bytes):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1
    )
    try:
        model = torch.nn.parallel.DistributedDataParallel(
            model_of(), gradient_as_bucket_view=as_views
        )
        for _ in range(2):
            loss = model(torch.ones(4, 8, 8, 8)).sum()
            loss.backward()
        expected = [p.grad.clone() for p in model.parameters()]
        with budgets.offload("64MB", evict_after_every_op=True) as session:
            loss = loss * 2
            for p, before in zip(model.parameters(), expected, strict=True):
                assert torch.equal(p.grad, before)
            assert kept_bytes(session) == 0
            assert session.counters()["bytes_away"] > 0
    finally:
        del model
        torch.distributed.destroy_process_group()


def test_comparing_addresses_before_the_session_keeps_nothing(tmp_path, kept_bytes):
    model = model_of()
    torch.save(model.state_dict(), tmp_path / "model.pt")
    model.load_state_dict(torch.load(tmp_path / "model.pt"))
    with budgets.offload("64MB") as session:
        assert kept_bytes(session) == 0


# Memory that others own is never moved, so it needs no counting.


def mapped_file(path):
    torch.arange(100_000.0).numpy().tofile(path)
    return torch.from_file(str(path), shared=True, size=100_000)


def mapped_checkpoint(path):
    torch.save({"t": torch.arange(100_000.0)}, path)
    return torch.load(path, mmap=True)["t"]


IMPORTS = {
    "from_numpy": lambda path: torch.from_numpy(np.arange(100_000, dtype=np.float32)),
    "shared memory": lambda path: torch.arange(100_000.0).share_memory_(),
    "file": mapped_file,
    "torch.load(mmap=True)": mapped_checkpoint,
    "from_dlpack": lambda path: torch.from_dlpack(np.arange(100_000, dtype=np.float32)),
}


@pytest.mark.parametrize("way", IMPORTS)
def test_memory_of_others_stays_where_it_is(way, tmp_path, kept_bytes):
    tensor = IMPORTS[way](tmp_path / "bytes")
    address = tensor.data_ptr()
    with budgets.offload("64MB", evict_after_every_op=True) as session:
        doubled = tensor * 2
        tensor.add_(1)
        assert tensor.data_ptr() == address
        assert torch.equal(doubled, torch.arange(100_000.0) * 2)
        assert torch.equal(tensor, torch.arange(100_000.0) + 1)
        assert kept_bytes(session) == 0


def test_a_session_that_does_not_start_leaves_counting_to_the_one_that_runs(kept_bytes):
    tensor = torch.zeros(1 << 20)
    tensor.data_ptr()
    with budgets.offload("64MB") as session:
        with pytest.raises(teraio.Error, match="is running"):
            budgets.offload("64MB").__enter__()
        assert kept_bytes(session) == tensor.nbytes
