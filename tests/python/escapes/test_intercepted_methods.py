"""Tensors that are away, reached without an operator: they come back first, and read as they were.

The session moves everything out after every op: every tensor here is away when it is reached.
"""

import copy
import gc
import importlib
import io
import pickle
import sys

import numpy as np
import pytest
import torch
from matrix import budgets
from torch.distributed._state_dict_utils import pin_memory_utils
from torch.distributed.checkpoint._state_dict_stager import StateDictStager
from torch.distributed.checkpoint.staging import BlockingAsyncStager, DefaultStager, StagingOptions
from torch.testing._internal.two_tensor import TwoTensor

import teraio
from teraio import core

EXPECTED = torch.arange(40_000.0)  # made before any session, which adopts it when an op uses it


@pytest.fixture
def session():
    with budgets.offload("64MB", evict_after_every_op=True) as session:
        yield session


@pytest.fixture
def away(session):
    tensor = EXPECTED * 1
    torch.zeros(1) + 1  # the op after which it has left
    assert session.counters()["bytes_away"] >= tensor.nbytes
    return tensor


def saved(tensor, **options):
    file = io.BytesIO()
    torch.save({"weight": tensor}, file, **options)
    file.seek(0)
    return torch.load(file)["weight"]


READERS = {
    "numpy": lambda t: torch.from_numpy(t.numpy().copy()),
    "asarray": lambda t: torch.from_numpy(np.asarray(t).copy()),
    "tolist": lambda t: torch.tensor(t.tolist()),
    "items": lambda t: torch.tensor([x.item() for x in t[:3]] + t[3:].tolist()),
    "dlpack": lambda t: torch.from_dlpack(t) + 0,
    "deepcopy": copy.deepcopy,
    "pickle": lambda t: pickle.loads(pickle.dumps(t)),
    "save": saved,
    "legacy save": lambda t: saved(t, _use_new_zipfile_serialization=False),
    "storage clone": lambda t: t.new_empty(0).set_(t.untyped_storage().clone()),
    "share_memory_": lambda t: t.share_memory_(),
    "detach": lambda t: t.detach(),
    "data": lambda t: t.data,
    "frozen view": lambda t: t.view(200, 200).flatten(),
}


@pytest.mark.parametrize("way", READERS)
def test_reads_as_it_was(away, way):
    assert torch.equal(READERS[way](away), EXPECTED)
    assert torch.equal(away, EXPECTED)


def test_prints_as_it_was(away):
    assert repr(away) == repr(EXPECTED)
    assert f"{away[7]:.1f}" == "7.0"


@pytest.mark.full
def test_storage_as_a_list(session):
    tensor = EXPECTED[:16_384] * 1  # the least that moves
    torch.zeros(1) + 1
    assert session.counters()["bytes_away"] >= tensor.nbytes
    bytes_of_list = torch.tensor(tensor.untyped_storage().tolist(), dtype=torch.uint8)
    assert torch.equal(bytes_of_list.view(torch.float32), EXPECTED[:16_384])


def test_storage_byte_by_byte(away):
    storage = away.untyped_storage()
    for i, byte in enumerate(np.float32(5.0).tobytes()):
        storage[i] = byte
    assert bytes(storage[i] for i in range(4)) == np.float32(5.0).tobytes()
    assert away[0].item() == 5.0 and away[1].item() == 1.0


def test_resized_storage(away):
    away.untyped_storage().resize_(2 * away.nbytes)
    assert torch.equal(away, EXPECTED)
    away.untyped_storage().resize_(0)
    assert away.untyped_storage().nbytes() == 0


def test_resized_and_replaced_in_an_op(away):
    other = EXPECTED * 2
    away.resize_(80_000)
    assert torch.equal(away[:40_000], EXPECTED)
    away.set_(other)
    assert torch.equal(away, EXPECTED * 2)
    other.resize_(0)
    assert torch.equal(away[:0], other)


def test_tensor_that_an_operator_uses_besides_its_arguments(session, away):
    @torch.library.custom_op("teraio_tests::plus_other", mutates_args=())
    def plus_other(tensor: torch.Tensor) -> torch.Tensor:
        return tensor + away

    ones = torch.ones_like(EXPECTED)
    torch.zeros(1) + 1  # an op, after which all that may leave has left
    assert session.counters()["bytes_away"] >= EXPECTED.nbytes
    assert torch.equal(plus_other(ones), EXPECTED + 1)
    assert session.counters()["held_for_good_bytes"] == 0


def use_in_hook(away):
    leaf = torch.ones_like(EXPECTED, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t + away, lambda t: t - away):
        (leaf * leaf).sum().backward()
    return leaf.grad


def use_as_tangent(away):
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.ones_like(EXPECTED), away)
        torch.zeros(1) + 1
        return torch.autograd.forward_ad.unpack_dual(dual * 2).tangent - 2 * EXPECTED + 2


def use_in_cache(away):
    weight = torch.eye(200, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        torch.nn.functional.linear(away.view(200, 200), weight)
        torch.zeros(1) + 1  # after which the cast weight has left, too
        return torch.mm(torch.full((200, 200), 2.0), weight).float().flatten()


def use_in_kernel(away):
    def kernel(tensor):
        return tensor + away

    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("silu", kernel, "CPU", allow_override=True)
        torch.zeros(1) + 1
        return torch.nn.functional.silu(2 - EXPECTED)


# While no op may run again, the calls inside of most kernels are not observed.
@pytest.mark.parametrize("use", [use_in_hook, use_as_tangent, use_in_cache, use_in_kernel])
def test_tensor_that_a_kernel_of_autograd_or_autocast_uses_besides(use):
    with budgets.offload("64MB", evict_after_every_op=True, recompute="off") as session:
        away = EXPECTED * 1
        torch.zeros(1) + 1
        assert session.counters()["bytes_away"] >= away.nbytes
        assert torch.equal(use(away), torch.full((40_000,), 2.0))
        assert session.counters()["held_for_good_bytes"] == 0


def test_callback_uses_the_tensor_of_the_op_before_it(away):
    away * 1
    callback = core.CallbackOps()
    found = away + 0
    callback.end()
    assert torch.equal(found, EXPECTED)


def test_array_keeps_the_bytes_where_they_are(session, away):
    before_bytes = session.counters()["bytes_away"]
    array = away.numpy()
    view = array[10:20]
    del array
    away.add_(1)
    torch.zeros(1) + 1
    assert view.tolist() == (EXPECTED[10:20] + 1).tolist()
    view[:] = 3
    assert away[10:20].tolist() == [3] * 10
    assert session.counters()["bytes_away"] == before_bytes - away.nbytes
    del view
    torch.zeros(1) + 1
    assert session.counters()["bytes_away"] == before_bytes


def test_saved_model_needs_no_more_than_the_budget():
    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(16)])
    expected = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    with budgets.offload("6MB"):
        model(torch.zeros(1, 512))
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        file.seek(0)
        for name, value in torch.load(file, weights_only=True).items():
            assert np.array_equal(value.numpy(), expected[name])


def test_pin_keeps_it_until_released(session, away):
    before_bytes = session.counters()["bytes_away"]
    with teraio.pin(away):
        assert session.counters()["bytes_away"] == before_bytes - away.nbytes
        torch.zeros(1) + 1
        assert session.counters()["bytes_away"] == before_bytes - away.nbytes
    torch.zeros(1) + 1
    assert session.counters()["bytes_away"] == before_bytes


def test_pinned_past_its_death_and_past_the_session():
    with budgets.offload("64MB") as session:
        tensor = EXPECTED * 1
        pin = teraio.pin(tensor)
        array = tensor.numpy()
        del tensor
        assert np.array_equal(array, EXPECTED)
    pin.release()
    assert np.array_equal(array, EXPECTED)
    assert session.counters()["bytes_away"] == 0


def test_touched_past_every_hook_is_an_error_that_names_the_tensor(away):
    with pytest.raises(RuntimeError, match=r"TERAIO: tensor \d+ \(160 kB\) is not on the device"):
        core.original_c_function(torch._C._to_dlpack)(away)
    assert torch.equal(away, EXPECTED)


def test_intercepted_methods_are_pytorchs_own_after_the_session():
    before = torch.Tensor.__deepcopy__, torch.UntypedStorage.copy_
    with budgets.offload("64MB"):
        assert torch.Tensor.__deepcopy__ is not before[0]
    assert (torch.Tensor.__deepcopy__, torch.UntypedStorage.copy_) == before


def test_library_that_allocates_through_pytorch_and_frees_the_address(session):
    convolution = torch.nn.Conv2d(3, 32, 3)  # oneDNN: its workspace, and bfloat16 linears
    linear = torch.nn.Linear(512, 512)
    for _ in range(3):
        convolution(torch.ones(4, 3, 64, 64)).sum().backward()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            linear(torch.ones(64, 512)).sum().backward()
    assert session.counters()["device_bytes"] < 8_000_000


def test_a_forced_array_of_a_conjugate_keeps_its_bytes(session):
    spectrum = torch.complex(EXPECTED, EXPECTED * 2)
    array = spectrum.conj().numpy(force=True)
    torch.zeros(1) + 1
    torch.full((200_000,), 7.0) + 1
    assert np.array_equal(array.real, EXPECTED) and np.array_equal(array.imag, EXPECTED * -2)


def test_functions_of_elements_change_what_is_away(session, away):
    away.apply_(lambda x: x + 1)
    torch.zeros(1) + 1
    away.map_(EXPECTED * 2, lambda x, y: x + y)
    torch.zeros(1) + 1
    assert torch.equal(away, EXPECTED * 3 + 1)


# Addresses.


class Renewed(torch.Tensor):
    """A tensor of this kind asks for its address when it is copied."""

    def new_empty(self, *args, **kwargs):
        return super().new_empty(*args, **kwargs).as_subclass(Renewed)


UNPINNED = StagingOptions(False, False, False, False)
# Ask for addresses only to know whether there are any.
COPIES = {
    "staged for a checkpoint": lambda state: DefaultStager(UNPINNED).stage(state),
    "staged by the older class": lambda state: BlockingAsyncStager().stage(state),
    "deep copy": lambda state: copy.deepcopy({"weight": state["weight"].as_subclass(Renewed)}),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_hold_no_addresses(session, away, name):
    copied = COPIES[name]({"weight": away})["weight"]
    torch.zeros(1) + 1
    assert session.counters()["held_for_good_bytes"] == 0
    assert session.counters()["bytes_away"] >= away.nbytes + copied.nbytes
    assert torch.equal(copied, EXPECTED)


def test_saved_tensors_that_may_change_hold_no_addresses(session):
    x = (EXPECTED / 1000).requires_grad_()
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        saved = x * 2
        result = saved.sin()
        saved.zero_()  # autograd has a copy
        result.sum().backward()
    assert session.counters()["held_for_good_bytes"] == 0
    assert torch.equal(x.grad, (EXPECTED / 1000 * 2).cos() * 2)


@pytest.mark.parametrize(
    "copied",
    [
        copy.deepcopy,
        lambda pair: pickle.loads(pickle.dumps(pair)),
        lambda pair: StateDictStager().stage({"pair": pair})["pair"],
    ],
)
def test_copies_of_a_tensor_that_holds_others(session, copied):
    pair = TwoTensor(EXPECTED * 1, EXPECTED * 2)  # its own storage has no bytes, as a DTensor's
    torch.zeros(1) + 1
    assert session.counters()["bytes_away"] >= 2 * EXPECTED.nbytes
    other = copied(pair)
    assert torch.equal(other.a, EXPECTED) and torch.equal(other.b, EXPECTED * 2)
    assert session.counters()["held_for_good_bytes"] == 0


def test_copies_before_the_session_hold_no_addresses():
    tensor = EXPECTED * 1
    for copied in COPIES.values():
        copied({"weight": tensor})
    with budgets.offload("64MB", evict_after_every_op=True) as session:
        tensor.add_(1)
        torch.zeros(1) + 1
        assert session.counters()["bytes_away"] >= tensor.nbytes


def test_memory_that_is_staged_to_is_registered_by_its_address(session, away, monkeypatch):
    registered = []
    monkeypatch.setattr(pin_memory_utils, "pin_memory", lambda *memory: registered.append(memory))
    monkeypatch.setattr(pin_memory_utils, "unpin_memory", lambda address: None)
    stager = StateDictStager()
    stager.pin_memory = True  # as on a machine with CUDA
    staged = stager.stage({"weight": away})["weight"]
    assert registered == [(staged.data_ptr(), staged.nbytes)]
    assert session.counters()["held_for_good_bytes"] == staged.nbytes


KERNELS = """\
import ctypes, torch
from bitsandbytes.functional import get_ptr

@torch.library.custom_op("teraio_tests::scale_in_place", mutates_args=("state",))
def scale_in_place(state: torch.Tensor) -> None:
    factors = torch.full_like(state, 2.0)
    ones = torch.ones(1)  # an op, after which all that may leave has left
    address, end = get_ptr(state), get_ptr(factors) + factors.nbytes
    ones + 1
    floats = (ctypes.c_float * len(state)).from_address(address)
    for place in range(0, len(state), 1000):
        floats[place] *= ctypes.c_float.from_address(end - 4).value
"""


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """A module with a kernel that asks for addresses as those of bitsandbytes do."""
    folder = tmp_path / "bitsandbytes"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "functional.py").write_text("def get_ptr(tensor):\n    return tensor.data_ptr()\n")
    (folder / "ops.py").write_text(KERNELS)
    names = ["bitsandbytes", "bitsandbytes.functional", "bitsandbytes.ops"]
    monkeypatch.syspath_prepend(tmp_path)
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield lambda: importlib.import_module(names[-1])
    for name in names:
        sys.modules.pop(name, None)


def test_addresses_of_a_kernel_hold_until_its_operator_ends(session, kernels):
    module = kernels()
    state, expected = EXPECTED * 1, EXPECTED.clone()
    for _ in range(3):
        module.scale_in_place(state)
        expected[::1000] *= 2
        torch.zeros(1) + 1
        assert session.counters()["held_for_good_bytes"] == 0
        assert session.counters()["bytes_away"] >= state.nbytes
    assert torch.equal(state, expected)
    module.get_ptr(state)  # outside of an operator, nobody knows for how long
    assert session.counters()["held_for_good_bytes"] == state.nbytes


@pytest.mark.parametrize("is_in_operator", [True, False])
def test_addresses_of_a_kernel_before_the_session_hold_no_longer(kernels, is_in_operator):
    module = kernels()
    state = EXPECTED * 1
    module.scale_in_place(state)
    if not is_in_operator:
        module.get_ptr(state)  # somebody may have kept it
    with budgets.offload("64MB", evict_after_every_op=True) as session:
        state.add_(1)
        torch.zeros(1) + 1
        assert (session.counters()["bytes_away"] >= state.nbytes) == is_in_operator


def test_addresses_that_fill_the_budget_are_told_once_by_name(caplog):
    with budgets.offload("10MB") as session:
        model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Linear(512, 300))
        model(torch.ones(4, 512))
        small = torch.ones(20_000) + 1
        small.data_ptr()
        assert caplog.messages == []
        held_bytes = small.nbytes
        for parameter in model.parameters():
            held_bytes += parameter.nbytes
            assert parameter.data_ptr() == parameter.data_ptr()
        assert session.counters()["held_for_good_bytes"] == held_bytes
        (line,) = caplog.messages
        assert "of the 10.0 MB budget stay on the device permanently" in line
        assert "The largest: 0.weight (1.05 MB)" in line
        del model, parameter, small
        gc.collect()
        assert session.counters()["held_for_good_bytes"] == 0
