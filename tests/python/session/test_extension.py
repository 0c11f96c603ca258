"""The extension that serves a PyTorch, and what an import of the package loads."""

import sys

import pytest

from teraio.extension import extension_for

WHEEL = ["torch_2_11_cuda13", "torch_2_11", "torch_2_12", "torch_2_15_cuda13", "torch_2_15"]


@pytest.mark.parametrize(
    "torch_version, cuda_version, extension",
    [
        ("2.11.0+cu130", "13.0", "torch_2_11_cuda13"),
        ("2.11.0+cpu", None, "torch_2_11"),
        ("2.11.0+cu126", "12.6", "torch_2_11"),
        ("2.12.1+cu130", "13.0", "torch_2_12"),
        ("2.15.0a0+git1234", "13.2", "torch_2_15_cuda13"),
        ("2.15.3", None, "torch_2_15"),
    ],
)
def test_the_one_of_its_minor_version_and_cuda(torch_version, cuda_version, extension):
    assert extension_for(torch_version, cuda_version, WHEEL) == extension


@pytest.mark.parametrize("torch_version", ["2.10.1", "2.16.0", "2.1.0", "3.11.0"])
def test_none_for_another_version(torch_version):
    with pytest.raises(ImportError) as refusal:
        extension_for(torch_version, None, WHEEL)
    told = str(refusal.value)
    assert "2.11 with CUDA 13, 2.11, 2.12, 2.15 with CUDA 13, 2.15" in told
    assert f"this is {torch_version} without CUDA" in told


def test_none_without_the_cuda_that_it_was_built_for():
    with pytest.raises(ImportError, match="2.11 with CUDA 13 and this is 2.11.0.cpu without"):
        extension_for("2.11.0+cpu", None, ["torch_2_11_cuda13"])


LOADED = """\
import sys, torch
before = set(sys.modules)
import teraio
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""


def test_import_loads_nothing_but_the_package(python):
    outcome = python("-c", LOADED)
    packages = set(outcome.out.split()) - set(sys.stdlib_module_names)
    assert packages == {"teraio"}, outcome


def test_core_may_be_what_imports_torch(python):
    program = """
from teraio import core
import torch
assert core.original_c_function(torch._C._to_dlpack) is not torch._C._to_dlpack
"""
    outcome = python("-c", program)
    assert outcome.code == 0, outcome
