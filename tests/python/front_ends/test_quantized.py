"""Adapters of a quantized base train with equal bits in a half or a quarter of the peak."""

import importlib.util

import drawn
import pytest
from front_end_trainings import ENVIRONMENT, SHARES, Training, alone, check_equal_bits
from warm_python import WarmPython

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

# By how the base is quantized: the package that has the kernels.
WAYS = {
    "bitsandbytes, NF4": "bitsandbytes",
    "bitsandbytes, 8 bits": "bitsandbytes",
    "torchao, 8 bits": "torchao",
}
NEEDED = ("transformers", "peft")


@pytest.fixture(scope="module")
def warm_packages():
    names = [name for name in (*NEEDED, *WAYS.values()) if importlib.util.find_spec(name)]
    server = WarmPython(names, ENVIRONMENT)
    yield server
    server.close()


@pytest.mark.parametrize("way", drawn.in_turn(WAYS))
def test_equal_bits(warm_packages, tmp_path, way):
    for package in (*NEEDED, WAYS[way]):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"missing: the package {package}")
    training = Training(alone(warm_packages), tmp_path, "lora.py", way)
    check_equal_bits(training, drawn.one_of(SHARES, way))
