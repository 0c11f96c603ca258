import doctest

import pytest

import teraio.units
from teraio.errors import Error
from teraio.units import parse_seconds, parse_size, parse_write_budget


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0),
        ("1200000000", 1_200_000_000),
        (1_200_000_000, 1_200_000_000),
        ("1.5GB", 1_500_000_000),
        (" 1.5 gb ", 1_500_000_000),
        ("800MiB", 800 << 20),
        ("1k", 1000),
        ("1KiB", 1024),
        ("2T", 2 * 10**12),
        (".5kB", 500),
        ("7B", 7),
        ("1.0009kB", 1000),
    ],
)
def test_size(text, size_bytes):
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize(
    "text", ["", "GB", "-1", "1e9", "1.5XB", "1 2", "40%", "0x10", "5EB", "1..5", "\udcff"]
)
def test_not_a_size(text):
    with pytest.raises(Error, match="is not a size"):
        parse_size(text)


def test_share_of_the_whole():
    assert parse_size("40%", whole_bytes=1000) == 400
    assert parse_size("12.5 %", whole_bytes=8) == 1
    assert parse_size("1kB", whole_bytes=8) == 1000


def test_error_tells_what_is_expected():
    with pytest.raises(ValueError, match='"40 percent" is not a size: expected e.g. .* or 40%'):
        parse_size("40 percent", whole_bytes=1000)


def test_example_of_the_docstring():
    assert doctest.testmod(teraio.units).failed == 0


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


@pytest.mark.parametrize("text", ["", "0", "0.0009", "-1", "1000001", "inf", "nan", "1 s", None])
def test_not_seconds(text):
    with pytest.raises(Error, match="is not a number of seconds: expected 0.001 to 1000000"):
        parse_seconds(text)
