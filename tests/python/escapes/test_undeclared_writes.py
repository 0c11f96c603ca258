"""Operators that change arguments which their schemas do not mark."""

import itertools
import sys
import types
import unittest

import pytest
import torch
from matrix import budgets
from torch._subclasses.schema_check_mode import SchemaCheckMode
from torch.utils.cpp_extension import load_inline

import teraio

library = torch.library.Library("teraio_tests", "FRAGMENT")
SIZE = 40_000
_numbers = itertools.count()


def operator(schema, kernel, alias_analysis=""):
    """Returns a new operator. `schema`: without its name."""
    name = f"operator{next(_numbers)}"
    library.define(name + schema, alias_analysis=alias_analysis)
    library.impl(name, kernel, "CompositeExplicitAutograd")
    return getattr(torch.ops.teraio_tests, name)


def bytes_written_after(call):
    """Returns what leaves again after an operator has read a tensor that is on the drive."""
    with budgets.offload("64MB", evict_after_every_op=True) as session:
        tensor = torch.arange(float(SIZE)) * 1
        torch.zeros(1) + 1
        before = session.counters()["ssd_bytes_written"]
        assert before >= tensor.nbytes
        call(tensor)
        torch.zeros(1) + 1
        return session.counters()["ssd_bytes_written"] - before


READS_ONLY = [
    ("(Tensor x) -> Tensor", "", False),  # declared by a person
    ("(Tensor x, Tensor(a!)? y=None) -> Tensor", "", False),
    ("(Tensor x) -> Tensor", "CONSERVATIVE", True),  # as PyTorch infers it from a C++ function
    ("(Tensor x) -> ()", "", True),  # what else may it do?
]


@pytest.mark.parametrize("schema, alias_analysis, counts_as_written", READS_ONLY)
def test_a_schema_without_marks_is_no_evidence(schema, alias_analysis, counts_as_written):
    returns_nothing = schema.endswith("()")
    read = operator(schema, lambda x, *_: None if returns_nothing else x.sum(), alias_analysis)
    assert (bytes_written_after(read) >= 4 * SIZE) == counts_as_written


def test_lists_of_tensors_count_too():
    read = operator("(Tensor[] xs) -> Tensor", lambda xs: xs[0].sum(), "CONSERVATIVE")
    assert bytes_written_after(lambda tensor: read([tensor])) >= 4 * SIZE


def test_operators_of_pytorch_are_believed():
    assert bytes_written_after(torch.sum) == 0


def test_verify_names_the_operator_that_changes_an_argument_without_a_mark(tmp_path):
    change = operator("(Tensor(a!) x, Tensor y) -> Tensor", lambda x, y: y.mul_(2).sum())
    with budgets.offload("64MB", verify=tmp_path / "hashes.json"):
        x, y = torch.ones(SIZE), torch.ones(SIZE)
        name = str(change).replace(".", "::")
        with pytest.raises(RuntimeError, match=rf"{name} .* argument number 2, which its schema"):
            change(x, y)


def test_verify_says_nothing_of_marked_arguments_and_their_aliases(tmp_path):
    change = operator("(Tensor(a!) x, Tensor y) -> Tensor", lambda x, y: x.mul_(2).sum())
    with budgets.offload("64MB", verify=tmp_path / "hashes.json"):
        x = torch.ones(SIZE)
        assert change(x, x[1:]).item() == 2 * SIZE


# PyTorch checks itself here. These give one tensor as an argument and as the result `out`.
IN_PLACE = {"fft.hfft2", "fft.hfftn"}


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_schemas_of_pytorch_mark_what_its_operators_change(monkeypatch):
    parts = {"TestCase": unittest.TestCase, "assert_expected_inline": None}
    monkeypatch.setitem(sys.modules, "expecttest", types.SimpleNamespace(**parts))  # not used
    from torch.testing._internal.common_methods_invocations import op_db

    infos = [
        info for info in op_db if torch.float32 in info.dtypes and "jiterator" not in info.name
    ]
    wrong = set()
    for info in infos:
        for sample in itertools.islice(info.sample_inputs("cpu", torch.float32), 2):
            try:
                with SchemaCheckMode(), torch.no_grad():
                    info(sample.input, *sample.args, **sample.kwargs)
            except RuntimeError as error:
                assert "mutated" in str(error)
                wrong.add(info.name)
    assert len(infos) > 500
    assert wrong <= IN_PLACE


SOURCE = """
#include <torch/library.h>
void scale(at::Tensor x) {
  float* p = x.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) p[i] *= 0.5f;
}
TORCH_LIBRARY(teraio_tests_undeclared, m) { m.def("scale", &scale); }
"""


@pytest.mark.full
def test_what_an_extension_changes_is_kept(tmp_path):
    load_inline(
        "teraio_tests_undeclared", SOURCE, is_python_module=False, build_directory=str(tmp_path)
    )
    with teraio.offload("100MB", ssd=[tmp_path], ssd_capacity="600MB") as session:
        state = torch.ones(4_000_000)
        for _ in range(6):
            others = [torch.full((4_000_000,), float(n)) * 2 for n in range(8)]  # `state` leaves
            assert session.counters()["bytes_away"] >= state.nbytes
            _ = [float(each.sum()) for each in others]
            torch.ops.teraio_tests_undeclared.scale(state)
            others = [each * 2 for each in others]
        assert state.unique().tolist() == [0.5**6]
