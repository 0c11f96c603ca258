"""Times of ops on an accelerator, and the files that say what it can do."""

import json
from dataclasses import replace

import pytest
import torch

from teraio.accelerator import Accelerator, known_names, load, parse, to_json
from teraio.dry_run.collectives import Links
from teraio.dry_run.roofline import Roofline
from teraio.errors import Error

aten = torch.ops.aten

# A thousand FLOPs, and a thousand bytes, in a nanosecond.
DEVICE = Accelerator(
    name="a round one",
    memory_bytes=10**9,
    memory_bytes_per_second=10**12,
    flops_per_second={"float32": 10**12, "tensorfloat32": 8 * 10**12, "bfloat16": 2 * 10**12},
    link_bytes_per_second=10**12,
    link_latency_ns=10,
    kernel_ns=100,
    op_ns=0,
    efficiency={"memory": 1.0, "link": 1.0},
)


def duration_ns(func, *args, on=DEVICE, **kwargs):
    """Of the op on meta tensors: nothing is computed."""
    roofline = Roofline(on, Links(on, 1))
    return roofline.duration_ns(func, args, kwargs, func(*args, **kwargs))


def meta(*shape, dtype=torch.float32):
    return torch.empty(shape, device="meta", dtype=dtype)


def convolution_ns(on=DEVICE):
    arguments = (meta(8, 64, 32, 32), meta(64, 64, 3, 3), None, [1, 1], [1, 1], [1, 1])
    return duration_ns(aten.convolution.default, *arguments, False, [0, 0], 1, on=on)


def test_a_large_product_takes_the_time_of_its_arithmetic():
    square, half = meta(1000, 1000), meta(1000, 1000, dtype=torch.bfloat16)
    assert duration_ns(aten.mm.default, square, square) == 2_000_000
    assert duration_ns(aten.mm.default, half, half) == 1_000_000
    as_a_share = replace(DEVICE, efficiency=DEVICE.efficiency | {"matmul": 0.5})
    assert duration_ns(aten.mm.default, square, square, on=as_a_share) == 4_000_000


def result_ns(func, *args, result):
    return Roofline(DEVICE, Links(DEVICE, 1)).duration_ns(func, args, {}, result)


def test_products_of_groups_take_the_time_of_their_arithmetic():
    """Eight experts, and 1,000 tokens that are routed to them."""
    tokens, weights, ends = meta(1000, 100), meta(8, 100, 1000), meta(8, dtype=torch.int32)
    forward = result_ns(aten._grouped_mm.default, tokens, weights, ends, result=meta(1000, 1000))
    assert forward == 200_000
    gradients = (tokens.t(), meta(1000, 1000), ends)
    assert result_ns(aten._grouped_mm.default, *gradients, result=weights) == 200_000


def test_a_recurrent_layer_uses_its_weights_at_each_position():
    tokens, weights = meta(64, 10, 100), [meta(400, 100), meta(400, 100), meta(400), meta(400)]
    state, results = meta(1, 10, 100), meta(64, 10, 100)
    layer, backward = aten.mkldnn_rnn_layer.default, aten.mkldnn_rnn_layer_backward.default
    forward_ns = result_ns(layer, tokens, *weights, state, state, result=results)
    assert forward_ns == 2 * 640 * 80_000 / 1000
    assert result_ns(backward, tokens, *weights, state, state, result=results) == 2 * forward_ns


def test_a_convolution_is_in_tensor_float_unless_the_script_says_not(monkeypatch):
    default_ns = convolution_ns()
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    assert convolution_ns() == pytest.approx(8 * default_ns, abs=8)


def test_bytes_are_moved_once_and_only_where_they_are_used():
    whole, row = meta(1000, 1000), meta(1, 1000)
    assert duration_ns(aten.add.Tensor, whole, whole.clone()) == 12_000
    assert duration_ns(aten.add.Tensor, whole, row.expand(1000, 1000)) == 8_004
    assert duration_ns(aten.copy_.default, whole, whole.clone()) == 8_000  # not what it overwrites
    table, indices = meta(10**7, 1000), meta(10, dtype=torch.int64)
    assert duration_ns(aten.embedding.default, table, indices) == 100  # ten rows: a kernel


def test_views_and_empty_memory_take_no_time():
    assert duration_ns(aten.t.default, meta(8, 8)) == 0
    assert duration_ns(aten.view.default, meta(8, 8), [64]) == 0
    assert duration_ns(aten.empty_like.default, meta(8, 8)) == 0


def test_measured_rates_stand_before_peaks_and_are_interpolated():
    measured = replace(DEVICE, measured={"memory": [[10**6, 10**9], [10**8, 3 * 10**9]]})
    assert duration_ns(aten.neg.default, meta(10**9), on=measured) == 8 * 10**9 // 3
    assert duration_ns(aten.neg.default, meta(1250), on=measured) == 10_000  # constant below
    assert measured.rate("memory", 10**7) == pytest.approx(2e9)
    assert measured.rate("matmul.float32", 10**7) is None


def test_a_ring_moves_a_share_over_each_link():
    """Four ranks sum 4 MB in six steps, each of which passes on a quarter."""
    tensor = meta(10**6)
    reduce = torch.ops.c10d.allreduce_.default
    assert Links(DEVICE, 4).duration_ns(reduce, (), [tensor], []) == 6 * (1_000 + 10)
    assert Links(DEVICE, 1).duration_ns(reduce, (), [tensor], []) == 0


@pytest.mark.parametrize("name", known_names())
def test_known_accelerators_have_a_source(name):
    accelerator = load(name)
    assert accelerator.source.startswith("https://")
    assert "efficienc" in accelerator.note.lower()
    content = to_json(accelerator)
    assert parse(content | {"memory_bytes": float(content["memory_bytes"])}, name) == accelerator


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"format": "x"}, 'field "format": expected "teraio-accelerator/1"'),
        ({"name": ""}, 'field "name"'),
        ({"memory_bytes": 0}, 'field "memory_bytes": expected an integer of at least 1'),
        ({"memory_bytes": 25.5}, 'field "memory_bytes": expected an integer of at least 1'),
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
    path.write_text(json.dumps(to_json(DEVICE) | change))
    with pytest.raises(Error) as error:
        load(str(path))
    assert str(path) in str(error.value) and complaint in str(error.value)
