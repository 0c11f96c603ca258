"""What Python adds to the units of src/base: numbers, shares of a whole, and errors."""

import doctest

import pytest

import teraio.units
from teraio.errors import Error
from teraio.units import parse_seconds, parse_size, parse_write_budget


def test_numbers_texts_and_shares_are_sizes():
    assert parse_size(1_200_000_000) == parse_size("1200000000") == 1_200_000_000
    assert parse_size(" 1.5 gb ") == 1_500_000_000
    assert parse_size("40%", whole_bytes=1000) == 400
    assert doctest.testmod(teraio.units).failed == 0


@pytest.mark.parametrize("text", ["", "-1", "40%", "\udcff"])
def test_not_a_size(text):
    with pytest.raises(Error, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    "text", ["2TB", "2TB/week", "/day", "fast/day", "-1GB/day", "2TB/day/day", ""]
)
def test_no_write_budget(text):
    with pytest.raises(Error, match="is not a write budget: expected e.g. 2TB/day"):
        parse_write_budget(text)


def test_write_budget_of_a_period():
    assert parse_write_budget("80 GB / hour") == (80 * 10**9, 3600)


def test_seconds():
    assert parse_seconds(0.001) == 1_000_000
    assert parse_seconds("1e6") == 10**15


@pytest.mark.parametrize("text", ["", "0.0009", "1000001", "-1", "inf", "nan", "soon", "1 s", None])
def test_not_seconds(text):
    with pytest.raises(Error, match="is not a number of seconds: expected 0.001 to 1000000"):
        parse_seconds(text)
