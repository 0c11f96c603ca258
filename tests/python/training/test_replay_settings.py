"""A replay runs under the settings of PyTorch that its op had."""

import re

import torch

# Settings, each with what reads it, and what sets another value: a replay restores it.
# docs/limits.md has the list of all settings.
SETTINGS = {
    "deterministic algorithms": (
        "torch.are_deterministic_algorithms_enabled()"
        " and torch.is_deterministic_algorithms_warn_only_enabled()",
        "torch.use_deterministic_algorithms({0}, warn_only={0})",
    ),
    "filled memory": (
        "torch.utils.deterministic.fill_uninitialized_memory",
        "torch.utils.deterministic.fill_uninitialized_memory = {}",
    ),
    "oneDNN": ("torch._C._get_mkldnn_enabled()", "torch._C._set_mkldnn_enabled({})"),
    "deterministic oneDNN": (
        "torch._C._get_mkldnn_deterministic()",
        "torch._C._set_mkldnn_deterministic({})",
    ),
    "NNPACK": ("torch._C._get_nnpack_enabled()", "torch._C._set_nnpack_enabled({})"),
    "cuDNN": ("torch._C._get_cudnn_enabled()", "torch._C._set_cudnn_enabled({})"),
    "cuDNN's benchmark": ("cudnn.benchmark", "cudnn.benchmark = {}"),
    "limit of the benchmark": (
        "torch._C._cuda_get_cudnn_benchmark_limit() == 7",
        "torch._C._cuda_set_cudnn_benchmark_limit(7 if {} else 10)",
    ),
    "deterministic cuDNN": ("cudnn.deterministic", "cudnn.deterministic = {}"),
    "float16 accumulation": (
        "torch._C._get_cublas_allow_fp16_accumulation()",
        "torch._C._set_cublas_allow_fp16_accumulation({})",
    ),
    "float16 sums": (
        "torch._C._get_cublas_allow_fp16_reduced_precision_reduction() == (True, True)",
        "torch._C._set_cublas_allow_fp16_reduced_precision_reduction({0}, {0})",
    ),
    "bfloat16 sums": (
        "torch._C._get_cublas_allow_bf16_reduced_precision_reduction() == (True, True)",
        "torch._C._set_cublas_allow_bf16_reduced_precision_reduction({0}, {0})",
    ),
    "share of the GPU": (
        "torch._C._get_sm_carveout_experimental() == 7",
        "torch._C._set_sm_carveout_experimental(7 if {} else None)",
    ),
    "default type": (
        "torch.get_default_dtype() == torch.float64",
        "torch.set_default_dtype(torch.float64 if {} else torch.float32)",
    ),
    "autocast": ("torch.is_autocast_enabled('cpu')", "torch.set_autocast_enabled('cpu', {})"),
    "autocast's type": (
        "torch.get_autocast_dtype('cpu') == torch.float16",
        "torch.set_autocast_dtype('cpu', torch.float16 if {} else torch.bfloat16)",
    ),
    "gradients": ("torch.is_grad_enabled()", "torch.set_grad_enabled({})"),
    "threads": ("torch.get_num_threads() == 2", "torch.set_num_threads(2 if {} else 1)"),
}


def test_settings_of_pytorch_are_as_they_were(warm_text):
    """In a replay, all of them have the values of the first run, and afterwards the program's."""
    known = {
        name: pair
        for name, pair in SETTINGS.items()
        if all(hasattr(torch._C, each) for each in re.findall(r"torch\._C\.(\w+)", "".join(pair)))
    }
    assert len(known) >= len(SETTINGS) - 2
    script = f"""
import torch, teraio.core
import torch.utils.deterministic
library = torch.library.Library("aten", "IMPL")
cudnn = torch.backends.cudnn
readers = [{", ".join(f"lambda: {read}" for read, _ in known.values())}]
def set_all(is_on):
{"".join(f"    {change.format('is_on')}" + chr(10) for _, change in known.values())}
seen = []
def hardswish(x):
    seen.append([bool(read()) for read in readers])
    return x + 1
library.impl("hardswish", hardswish, "CPU")
set_all(False)
teraio.core.set_options_for_tests(discard_after_every_op=True)
with teraio.offload("64MB") as session:
    x = torch.zeros(1 << 18)
    set_all(True)
    y = torch.nn.functional.hardswish(x)
    set_all(False)
    assert y.sum() == 1 << 18
    assert session.counters()["on_demand_replays"] >= 1
assert len(seen) >= 2
print([name for i, name in enumerate({list(known)}) if not all(row[i] for row in seen)])
print([name for i, name in enumerate({list(known)}) if readers[i]()])
"""
    done = warm_text(script)
    assert done.code == 0, done
    assert done.out.splitlines()[-2:] == ["[]", "[]"], done
