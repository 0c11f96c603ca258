"""Child processes that the program forks read what they can reach, as it was at the fork."""

import multiprocessing.pool
import os
from concurrent.futures import ProcessPoolExecutor

import numpy
import pytest
import torch
from matrix import budgets
from torch.utils.data import ConcatDataset, DataLoader, Dataset, TensorDataset

import teraio

SIZE = 40_000
shared = {"frames": None}
frames = None


class Sums(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.rows()[index].double().sum()  # exact


class ByGlobal(Sums):
    def rows(self):
        return frames


class ByItemOfGlobal(Sums):
    def rows(self):
        return [shared["frames"] for _ in range(1)][0]


class ByClass(Sums):
    kept = None

    def rows(self):
        return self.kept


class ByBaseClass(ByClass):
    pass


class ByClosure(Sums):
    def __init__(self, tensor):
        self.rows = lambda: tensor


def by_holder(hold):
    """A dataset that finds its tensor in what `hold` makes of it."""

    def dataset(tensor):
        holder, read = hold(tensor)
        dataset = Sums()
        dataset.rows = lambda: read(holder)
        return dataset

    return dataset


def objects(tensor):
    holder = numpy.empty(1, object)
    holder[0] = tensor
    return holder, lambda holder: holder[0]


def attribute_of_a_tensor(tensor):
    holder = torch.zeros(1)
    holder.rows = tensor
    return holder, lambda holder: holder.rows


def keep(tensor):
    global frames
    frames = shared["frames"] = ByClass.kept = tensor


WAYS = {
    "global": lambda tensor: ByGlobal(),
    "item of a global": lambda tensor: ByItemOfGlobal(),
    "class": lambda tensor: ByClass(),
    "base class": lambda tensor: ByBaseClass(),
    "closure": ByClosure,
    "sparse": by_holder(lambda tensor: (tensor.to_sparse_csr(), torch.Tensor.to_dense)),
    "array of objects": by_holder(objects),
    "attribute of a tensor": by_holder(attribute_of_a_tensor),
}


@pytest.fixture(autouse=True)
def forget():
    yield
    keep(None)


@pytest.mark.parametrize("way", WAYS)
def test_workers_read_what_was_away(way):
    with budgets.offload("64MB", evict_after_every_op=True) as session:
        tensor = torch.arange(4.0 * SIZE).view(4, SIZE) * 2
        keep(tensor)
        dataset = WAYS[way](tensor)
        for _ in range(2):
            torch.zeros(1) + 1
            assert session.counters()["bytes_away"] >= tensor.nbytes
            loader = DataLoader(dataset, num_workers=1, multiprocessing_context="fork")
            sums = [batch.item() for batch in loader]
            assert sums == [row.double().sum().item() for row in tensor]


def sum_of_row(index):
    torch.set_num_threads(1)
    return frames[index].double().sum().item()


@pytest.mark.parametrize("pool", [multiprocessing.pool.Pool, ProcessPoolExecutor])
def test_workers_of_a_pool_call_any_function_of_the_program(pool):
    with budgets.offload("64MB", evict_after_every_op=True):
        keep(torch.arange(4.0 * SIZE).view(4, SIZE) * 2)
        torch.zeros(1) + 1
        with pool(1) as workers:
            sums = list(workers.map(sum_of_row, range(4)))
        assert sums == [row.double().sum().item() for row in frames]


def more_than_fits():
    return [torch.full((4, SIZE), float(n)) * 2 for n in range(12)]


def test_a_dataset_that_is_larger_than_the_budget():
    def sums(loader):
        return [batch.double().sum().item() for (batch,) in loader]

    with budgets.offload("4MB"):
        tensors = more_than_fits()
        parts = [TensorDataset(each) for each in tensors]
        for change in (0, 1):  # what the parent changes, the next children see
            tensors[3].add_(change)
            loaders = [
                DataLoader(
                    ConcatDataset(parts), 4, num_workers=workers, multiprocessing_context=way
                )
                for workers, way in ((0, None), (2, "fork"))
            ]
            assert sums(loaders[0]) == sums(loaders[1])


def test_children_keep_the_bytes_of_their_fork():
    fork = multiprocessing.get_context("fork")

    def child(question, answer):
        torch.set_num_threads(1)
        question.get()
        tensors[0][0] += 1  # of its own
        answer.put(tensors[0].double().sum().item())

    def start():
        queues = fork.SimpleQueue(), fork.SimpleQueue()
        fork.Process(target=child, args=queues).start()
        return queues

    with budgets.offload("4MB"):
        tensors = more_than_fits()
        before = start()
        tensors[0].add_(10)
        after = start()
        tensors[0].add_(10)
        sums = []
        for question, answer in (before, after):
            question.put(True)
            sums.append(answer.get())
        assert sums == [SIZE, 41 * SIZE]
        assert tensors[0].double().sum().item() == 80 * SIZE


def test_no_file_stays_after_the_session():
    def files():
        names = (os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd"))
        return [name for name in names if name.endswith("(deleted)")]

    with budgets.offload("4MB"):
        tensors = more_than_fits()
        before = files()
        loader = DataLoader(ByClosure(tensors), num_workers=1, multiprocessing_context="fork")
        loader.dataset.rows = lambda: tensors[-1]
        assert len(list(loader)) == 4
        assert len(files()) == len(before) + 1
    assert len(files()) <= len(before)


def test_what_finds_no_room_is_an_error_in_the_child_that_says_so():
    with teraio.offload("4MB", ssd=False, host_limit="100MB"):
        tensors = more_than_fits()
        dataset = ByClosure(tensors)
        dataset.rows = lambda: tensors[-1]  # the last one that is looked at
        loader = DataLoader(dataset, num_workers=1, multiprocessing_context="fork")
        with pytest.raises(RuntimeError, match="or in a child process"):
            list(loader)


def test_what_only_children_read_can_leave():
    with budgets.offload("10MB") as session:
        dataset = TensorDataset(*[torch.zeros(4, SIZE) for _ in range(12)])  # 7.7 MB
        assert len(list(DataLoader(dataset, num_workers=1, multiprocessing_context="fork"))) == 4
        assert (torch.full((1_000_000,), 2.0) * 2).sum().item() == 4_000_000  # 8 MB
        assert session.counters()["bytes_away"] > 0


def test_random_numbers_that_no_operator_has_used_can_leave():
    with budgets.offload("4MB") as session:
        tensors = [torch.randn(4, SIZE) for _ in range(12)]
        assert session.counters()["bytes_away"] >= 12 * tensors[0].nbytes - 4_000_000
        sums = [each.sum().item() for each in tensors]
        assert sums == [each.sum().item() for each in tensors]
