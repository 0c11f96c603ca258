"""Times of ops on an accelerator, and the files that say what it can do."""

import json
from dataclasses import replace

import pytest
import torch

from teraio.dry_run.accelerator import known_names, load, parse, to_json
from teraio.dry_run.collectives import Links
from teraio.dry_run.roofline import Roofline
from teraio.errors import Error

aten = torch.ops.aten
H100 = load("h100-nvl")


def duration_ns(func, *args, on=H100, **kwargs):
    """Of the op on meta tensors: nothing is computed."""
    roofline = Roofline(on, Links(on, 1))
    return roofline.duration_ns(func, args, kwargs, func(*args, **kwargs))


def meta(*shape, dtype=torch.float32):
    return torch.empty(shape, device="meta", dtype=dtype)


def test_large_product_takes_what_its_flops_take():
    found = duration_ns(aten.mm.default, meta(8192, 8192), meta(8192, 8192))
    assert found == pytest.approx(2 * 8192**3 / (0.75 * 60e12) * 1e9, rel=0.001)


def test_half_precision_has_its_own_peak():
    half = meta(8192, 8192, dtype=torch.bfloat16)
    found = duration_ns(aten.mm.default, half, half)
    assert found == pytest.approx(2 * 8192**3 / (0.75 * 835.5e12) * 1e9, rel=0.001)


def test_convolution_is_in_tensor_float_unless_the_script_says_not(monkeypatch):
    arguments = (meta(64, 256, 64, 64), meta(256, 256, 3, 3), None, [1, 1], [1, 1], [1, 1])
    convolution = aten.convolution.default
    default_ns = duration_ns(convolution, *arguments, False, [0, 0], 1)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    full_ns = duration_ns(convolution, *arguments, False, [0, 0], 1)
    assert full_ns / default_ns == pytest.approx(417.5 / 60, rel=0.001)
    assert full_ns == pytest.approx(2 * 64**3 * 256**2 * 9 / (0.6 * 60e12) * 1e9, rel=0.001)


def test_product_with_a_vector_is_bound_by_memory():
    found = duration_ns(aten.mm.default, meta(16384, 16384), meta(16384, 1))
    assert found == pytest.approx(4 * 16384**2 / (0.85 * 3.9e12) * 1e9, rel=0.01)


def test_sum_takes_what_its_three_tensors_take():
    found = duration_ns(aten.add.Tensor, meta(10**8), meta(10**8))
    assert found == pytest.approx(12e8 / (0.85 * 3.9e12) * 1e9, rel=0.001)


def test_expanded_tensor_is_read_once():
    found = duration_ns(aten.add.Tensor, meta(10**4, 10**4), meta(1, 10**4).expand(10**4, 10**4))
    assert found == pytest.approx(8e8 / (0.85 * 3.9e12) * 1e9, rel=0.001)


def test_copy_does_not_read_what_it_writes_over():
    found = duration_ns(aten.copy_.default, meta(10**8), meta(10**8))
    assert found == pytest.approx(8e8 / (0.85 * 3.9e12) * 1e9, rel=0.001)


def test_embedding_reads_only_the_rows_that_are_asked_for():
    indices = meta(4, 256, dtype=torch.int64)
    found = duration_ns(aten.embedding.default, meta(10**7, 1024), indices)
    assert found == H100.kernel_ns


def test_views_and_empty_memory_take_no_time():
    assert duration_ns(aten.t.default, meta(8, 8)) == 0
    assert duration_ns(aten.view.default, meta(8, 8), [64]) == 0
    assert duration_ns(aten.empty_like.default, meta(8, 8)) == 0


def test_small_op_takes_a_kernel():
    assert duration_ns(aten.add.Tensor, meta(2), meta(2)) == H100.kernel_ns


def test_causal_attention_is_half_the_work():
    attention = aten._scaled_dot_product_flash_attention_for_cpu.default
    heads = [meta(4, 32, 4096, 128) for _ in range(3)]
    whole = duration_ns(attention, *heads, 0.0, False)
    assert whole == pytest.approx(4 * 4 * 32 * 4096**2 * 128 / (0.5 * 60e12) * 1e9, rel=0.001)
    assert duration_ns(attention, *heads, 0.0, True) == pytest.approx(whole / 2, rel=0.001)


def test_causal_attention_has_rates_of_its_own():
    attention = aten._scaled_dot_product_flash_attention_for_cpu.default
    heads = [meta(4, 32, 4096, 128) for _ in range(3)]
    rates = {"attention.float32": [[1, 4 * 10**12]]}
    measured = replace(H100, measured=rates)
    whole = duration_ns(attention, *heads, 0.0, False, on=measured)
    assert duration_ns(attention, *heads, 0.0, True, on=measured) == pytest.approx(whole / 2)
    measured = replace(H100, measured=rates | {"causal_attention.float32": [[1, 10**12]]})
    assert duration_ns(attention, *heads, 0.0, True, on=measured) == pytest.approx(2 * whole)
    assert duration_ns(attention, *heads, 0.0, False, on=measured) == whole


def test_batch_norm_has_a_rate_of_its_own():
    measured = replace(H100, measured={"batch_normalization": [[1, 10**9]]})
    images, channel = meta(8, 64, 32, 32), [meta(64) for _ in range(4)]
    found = duration_ns(
        aten.native_batch_norm.default, images, *channel, True, 0.1, 1e-5, on=measured
    )
    assert found == pytest.approx(2 * 4 * images.numel() / 10**9 * 1e9, rel=0.001)


@pytest.mark.parametrize("kind", ["normalization", "batch_normalization"])
def test_the_more_general_rate_counts_where_a_kind_has_none(kind):
    images, channel = meta(64, 64, 64, 64), [meta(64) for _ in range(5)]
    arguments = (images, images, *channel, True, 1e-5, [True, True, True])
    backward = aten.native_batch_norm_backward.default
    measured = replace(H100, measured={kind: [[1, 10**9]]})
    slow = duration_ns(backward, *arguments, on=measured)
    assert slow > 100 * duration_ns(backward, *arguments, on=H100)
    half = replace(H100, efficiency=H100.efficiency | {kind: H100.efficiency["memory"] / 2})
    assert duration_ns(backward, *arguments, on=half) == pytest.approx(
        2 * duration_ns(backward, *arguments, on=H100), rel=0.01
    )


def test_convolution_of_a_library_with_its_own_layout_makes_copies():
    arguments = (meta(64, 256, 64, 64), meta(256, 256, 3, 3), None, [1, 1], [1, 1], [1, 1])
    arguments += (False, [0, 0], 1)
    convolution = aten.convolution.default
    without = duration_ns(convolution, *arguments)
    onednn = replace(H100, library="onednn")
    copied = 2 * 4 * (64 * 256 * 64 * 64 + 256 * 256 * 3 * 3)  # the input and the weight
    found = duration_ns(convolution, *arguments, on=onednn)
    assert found - without == pytest.approx(copied / (0.85 * 3.9e12) * 1e9, rel=0.01)


def test_measured_rates_stand_before_peaks():
    measured = replace(H100, measured={"memory": [[10**6, 10**9], [10**8, 10**11]]})
    assert duration_ns(aten.add.Tensor, meta(10**9), meta(10**9), on=measured) == 120_000_000
    between = duration_ns(aten.neg.default, meta(1250), on=measured)
    assert between == pytest.approx(1e4 / 1e9 * 1e9, rel=0.01)  # level below the least


def test_rates_between_measurements_are_interpolated():
    measured = replace(H100, measured={"memory": [[10**6, 10**9], [10**8, 3 * 10**9]]})
    assert measured.rate("memory", 10**7) == pytest.approx(2e9)
    assert measured.rate("matmul.float32", 10**7) is None


def test_ring_moves_a_share_over_each_link():
    links = Links(H100, 4)
    size = 10**9
    tensor = torch.empty(size // 4, device="meta")
    reduce = torch.ops.c10d.allreduce_.default
    found = links.duration_ns(reduce, (), [tensor], [])
    assert found == pytest.approx(2 * 3 / 4 * size / (0.8 * 300e9) * 1e9 + 6 * 8000, rel=0.001)
    assert Links(H100, 1).duration_ns(reduce, (), [tensor], []) == 0


@pytest.mark.parametrize("name", known_names())
def test_known_accelerators_have_a_source(name):
    accelerator = load(name)
    assert accelerator.source.startswith("https://")
    assert "efficiencies" in accelerator.note.lower()
    assert parse(to_json(accelerator), name) == accelerator


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"format": "x"}, 'field "format": expected "teraio-accelerator/1"'),
        ({"name": ""}, 'field "name"'),
        ({"memory_bytes": 0}, 'field "memory_bytes": expected an integer of at least 1'),
        ({"kernel_ns": -1}, 'field "kernel_ns": expected an integer of at least 0'),
        ({"flops_per_second": {"float16": 1}}, 'expected a rate for "float32"'),
        ({"flops_per_second": {"float32": "1"}}, "expected a number above 0"),
        ({"efficiency": {}}, 'expected a share for "memory"'),
        ({"measured": {"memory": [[1]]}}, 'field "measured.memory": expected pairs'),
        ({"measured": []}, 'field "measured": expected an object'),
    ],
)
def test_broken_file_is_refused_by_its_field(tmp_path, change, complaint):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(to_json(H100) | change))
    with pytest.raises(Error) as error:
        load(str(path))
    assert str(path) in str(error.value) and complaint in str(error.value)
