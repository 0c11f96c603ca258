"""Files of safetensors: the same bytes as the library's, and one tensor at a time on the device."""

import pytest
import torch
from matrix import budgets

safetensors = pytest.importorskip("safetensors.torch")

TENSORS = {
    "weight": lambda: torch.arange(300_000.0).reshape(300, 1000),
    "half": lambda: torch.linspace(-1, 1, 70_001).to(torch.bfloat16),
    "eight": lambda: torch.linspace(-1, 1, 513).to(torch.float8_e4m3fn),
    "counts": lambda: torch.arange(100_000),
    "mask": lambda: torch.arange(77) % 3 == 0,
    "number": lambda: torch.tensor(1.5, dtype=torch.float64),
    "nothing": lambda: torch.empty(0, 4),
    'quoted "Zähler"': lambda: torch.arange(7, dtype=torch.uint8),
}
METADATA = [None, {"format": "pt"}, {"Größe": 'a "b"\n'}]


def made():
    return {name: make() for name, make in TENSORS.items()}


@pytest.mark.parametrize("metadata", METADATA)
def test_bytes_are_those_of_the_library(tmp_path, metadata):
    safetensors.save_file(made(), tmp_path / "stock", metadata)
    with budgets.offload("64MB", evict_after_every_op=True) as session:
        tensors = {name: tensor + 0 if tensor.dtype.itemsize > 1 else tensor.clone()
                   for name, tensor in made().items()}  # fmt: skip
        torch.ones(1) + 1  # an op, after which all that may leave has left
        assert session.counters()["bytes_away"] > 2_000_000
        safetensors.save_file(tensors, tmp_path / "ours", metadata)
        assert safetensors.save(tensors, metadata) == (tmp_path / "stock").read_bytes()
        torch.ones(1) + 1
        assert session.counters()["bytes_away"] > 2_000_000
        assert session.counters()["held_for_good_bytes"] == 0
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "stock").read_bytes()


def test_a_file_may_have_more_than_the_budget(tmp_path):
    with budgets.offload("12MB") as session:
        tensors = {
            f"{number:02}": torch.full((500_000,), float(number)) + 0 for number in range(20)
        }
        safetensors.save_file(tensors, tmp_path / "large")
        assert session.counters()["device_peak_bytes"] <= 12_000_000
    loaded = safetensors.load_file(tmp_path / "large")
    assert [tensor[[0, -1]].tolist() for tensor in loaded.values()] == [[n, n] for n in range(20)]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda weight: {"weight": weight, "alias": weight[1:]},
        lambda weight: {"weight": weight.t()},
        lambda weight: {"weight": weight.to_sparse()},
        lambda weight: [weight],
    ],
)
def test_what_the_library_refuses_is_refused_as_it_does(tmp_path, spoil):
    refused = []
    for is_in_session in (False, True):
        if is_in_session:
            with budgets.offload("64MB"), pytest.raises((ValueError, RuntimeError)) as error:
                safetensors.save_file(spoil(torch.ones(200, 300)), tmp_path / "spoilt")
        else:
            with pytest.raises((ValueError, RuntimeError)) as error:
                safetensors.save_file(spoil(torch.ones(200, 300)), tmp_path / "spoilt")
        refused.append((error.type, sorted(str(error.value))))  # sets have no order
    assert refused[0] == refused[1]
    assert not (tmp_path / "spoilt").exists()


def test_the_library_is_itself_after_the_session():
    before = safetensors.serialize_file
    with budgets.offload("64MB"):
        assert safetensors.serialize_file is not before
    assert safetensors.serialize_file is before
