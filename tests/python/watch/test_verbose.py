"""Details on request: -v, TERAIO_VERBOSE and the level of the logger tell more, and nothing else
does."""

import json
import logging
import os

import pytest
import torch
from matrix import budgets
from tests.python.conftest import COMMAND

import teraio

VERBOSE = os.environ | {"TERAIO_VERBOSE": "1"}


@pytest.fixture
def bad_hardware(tmp_path, small):
    """The options of `teraio plan` with a hardware file that has a wrong field."""
    hardware = json.loads((tmp_path / "hardware.json").read_text())
    hardware["drives"][0]["capacity_bytes"] = "1TB"
    (tmp_path / "bad.json").write_text(json.dumps(hardware))
    return ["--trace", "trace.json", "--hardware", "bad.json", "--out", "plan.json"]


LINE = (
    "teraio: bad.json: drives[0].capacity_bytes: expected an integer that is not negative, "
    'found "1TB"'
)


def test_without_asking_there_is_one_line(execute, bad_hardware):
    for environment in (os.environ, VERBOSE | {"TERAIO_VERBOSE": "0"}):
        outcome = execute(COMMAND, "plan", *bad_hardware, env=environment)
        assert (outcome.code, outcome.out) == (2, "")
        assert outcome.err == f"{LINE} (--verbose tells more)\n"


def test_each_way_of_asking_tells_the_same_more(execute, bad_hardware, tmp_path):
    outcomes = [
        execute(COMMAND, "plan", "-v", *bad_hardware),
        execute(COMMAND, "-v", "plan", *bad_hardware),
        execute(COMMAND, "plan", *bad_hardware, env=VERBOSE),
    ]
    for outcome in outcomes:
        assert (outcome.code, outcome.out) == (2, "")
        line, *details = outcome.err.splitlines()
        assert line == LINE
        assert details[0].startswith('  entry: drives[0] is {"capacity_bytes":"1TB","duplex":2.0')
        size_bytes = (tmp_path / "bad.json").stat().st_size
        assert details[1] == f"  file: {tmp_path}/bad.json, {size_bytes} bytes"
        assert details[-2:-1] == [f"  working directory: {tmp_path}"]


@pytest.mark.parametrize(
    "text, expected",
    [
        ('{"format": "teraio-trace/1",\n "name": oops}', '  line 2:  "name": oops}'),
        ("", "  line 1: "),
        ('{"a":\n"' + "x" * 5000, '  line 2: "' + "x" * 299 + " ..."),
    ],
)
def test_the_line_of_a_text_that_is_no_json(execute, tmp_path, small, text, expected):
    (tmp_path / "trace.json").write_text(text)
    outcome = execute(COMMAND, "plan", "-v", *small, "--out", "plan.json")
    assert outcome.code == 2
    assert expected in outcome.err.splitlines()


def test_the_op_that_does_not_fit(execute, small):
    outcome = execute(COMMAND, "plan", *small, "--out", "plan.json", "--device-budget", "500", "-v")
    assert outcome.code == 1
    assert (
        "  op 0 (an_op) uses tensor 7 (parameter, 600 bytes), and 0 bytes of workspace"
        in outcome.err.splitlines()
    )
    assert "  limits: device budget 500 bytes, host limit all, write budget none" in outcome.err
    assert "  drive: d0, 1000000 bytes, " in outcome.err


def test_stdout_stays_json(execute, small):
    planned = execute(COMMAND, "plan", "-v", *small, "--out", "plan.json")
    assert planned.code == 0, planned
    simulated = execute(COMMAND, "simulate", *small, "--plan", "plan.json", "--json", "-v")
    assert simulated.code == 0, simulated
    assert json.loads(simulated.out)["step_ns"] > 0


@pytest.mark.full
def test_commands_in_python_show_the_cause(warm_python, tmp_path):
    (tmp_path / "train.py").write_text("import torch\n")
    words = ["run", "--device-budget", "64MB", "--plan", "no.json"]
    (tmp_path / "no.json").write_text("{oops}")
    brief = warm_python("-m", "teraio", *words, "train.py")
    assert (brief.code, brief.out, brief.err.count("\n")) == (2, "", 1)
    for verbose in (
        warm_python("-m", "teraio", *words, "-v", "train.py"),
        warm_python("-m", "teraio", "-v", *words, "train.py"),
    ):
        assert (verbose.code, verbose.out) == (2, "")
        assert verbose.err.startswith(brief.err + "Traceback")
        assert "json.decoder.JSONDecodeError: Expecting property name" in verbose.err
        assert f"PyTorch {torch.__version__}" in verbose.err.splitlines()[-1]


def test_words_behind_the_script_are_its_own(warm_python, tmp_path):
    (tmp_path / "train.py").write_text("import sys\nprint(sys.argv[1:])\n")
    outcome = warm_python("-m", "teraio", "run", "--device-budget", "64MB", "train.py", "-v")
    assert (outcome.code, outcome.err) == (0, "")
    assert "['-v']" in outcome.out


def too_large_an_op():
    with budgets.offload("10MB"), pytest.raises(torch.OutOfMemoryError) as failure:
        torch.ones(1024, 1024) @ torch.ones(1024, 1024)
    return str(failure.value).splitlines()


def test_an_op_that_the_budget_cannot_hold(caplog):
    line, *none = too_large_an_op()
    assert none == []
    with caplog.at_level(logging.DEBUG, "teraio"):
        same_line, *details = too_large_an_op()
    assert same_line == line
    assert details[0].startswith("  device memory: budget 10000000 bytes, allocated 8388608")
    assert details[1].startswith("  tensors: 2 in all, 8388608 bytes resident, ")
    assert [detail.partition(": ")[2].partition(", last")[0] for detail in details[2:]] == [
        "4194304 bytes, resident, 1 pins"
    ] * 2
    assert "teraio: session of {'policy': 'planned'" in caplog.text
    assert too_large_an_op() == [line]


def test_bad_input_in_python(tmp_path, caplog):
    path = tmp_path / "plan.json"
    path.write_text('{"format": "teraio-plan/2"}')
    with pytest.raises(teraio.Error) as brief:
        budgets.offload("8MB", plan=path)
    assert "\n" not in str(brief.value)
    with caplog.at_level(logging.DEBUG, "teraio"), pytest.raises(teraio.Error) as verbose:
        budgets.offload("8MB", plan=path)
    assert str(verbose.value) == f"{brief.value}\n  file: {path}, 27 bytes"
