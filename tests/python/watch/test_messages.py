"""What users read after a mistake: whole lines, each with what happened, what it means for the run,
and what to do. Paths of the test and sizes of the machine are replaced."""

import json
import re
import shlex

import pytest
import torch
from matrix import budgets
from tests.python.conftest import COMMAND


@pytest.fixture
def folder(tmp_path, small):
    """A folder with valid files for planning, some broken ones, and a script that runs no loop."""
    trace = json.loads((tmp_path / "trace.json").read_text()) | {"name": "large"}
    texts = {
        "other_trace.json": json.dumps(trace),
        "plan.json": json.dumps({"format": "teraio-plan/1", "trace": "small", "migrations": []}),
        "cut.json": '{"format": "teraio-plan/1",\n',
        "train.py": "import torch\ntorch.ones(3)\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "drive").mkdir()
    return tmp_path


def told(text, folder):
    """Returns a message without what differs from run to run or from machine to machine."""
    text = re.sub(r"^\[[^]]*\] \[\w+\] ", "", text, flags=re.MULTILINE)
    text = re.sub(r"[\d.]+ [GT]B(?= free)", "SIZE", text)
    text = re.sub(r"not writable \([\w ]+\)", "not writable (REASON)", text)
    text = re.sub(r"about [\d.]+ MB", "about LEAST", text)
    text = re.sub(r"iteration [0-9a-f]{16} [0-9a-f]{16}", "iteration NAME", text)
    return text.replace(f"{folder}/", "")


INPUTS = "--trace trace.json --hardware hardware.json"


@pytest.mark.parametrize(
    "line, expected",
    [
        (
            f"plan {INPUTS} --out no/plan.json",
            "no/plan.json: cannot create this file in its folder: No such file or directory",
        ),
        (
            f"plan {INPUTS} --out new.json --device-budget lots",
            '--device-budget: "lots" is not a size: expected e.g. 1.5GB, 800MiB, 1200000000 or 40%',
        ),
        (
            f"plan {INPUTS} --out new.json --device-budget 500",
            "op 0 (an_op) needs 600 bytes at once, the device budget is 500; the least budget that "
            "would do is 600",
        ),
        (
            f"plan {INPUTS} --out new.json --write-budget 10",
            "a write budget of 10 bytes per iteration is too small: the least that would do is 500",
        ),
        (
            "plan --trace cut.json --hardware hardware.json --out new.json",
            "cut.json: expected JSON: parse error at line 2, column 1: syntax error while "
            "parsing object key - unexpected end of input; expected string literal",
        ),
        (
            "plan --trace hardware.json --hardware hardware.json --out new.json",
            'hardware.json: format: expected "teraio-trace/1", found "teraio-hardware/1"',
        ),
        (
            "simulate --trace other_trace.json --hardware hardware.json --plan plan.json",
            'plan.json: trace: expected a plan for "large", found one for "small"',
        ),
        (
            "explain --run drive",
            "drive/run.json: cannot open: No such file or directory. Expected what `teraio "
            "run --report` writes",
        ),
        (
            "probe --bench --ssd nowhere",
            "ssd directory nowhere: expected an existing directory: No such file or directory"
            " (errno 2)",
        ),
        (
            "probe --bench --ssd drive --size 1PB",
            "ssd directory drive: 1.00 PB wanted, SIZE free. Free space there, name more "
            "drives, or ask for less",
        ),
        (
            "probe --ssd nowhere --out new.json",
            "ssd directory nowhere: expected an existing directory: No such file or directory",
        ),
        (
            "probe --ssd drive --out new.json --host lots",
            '--host: "lots" is not a size: expected e.g. 1.5GB, 800MiB, 1200000000 or 40%',
        ),
    ],
)
def test_line_of_the_native_command(execute, folder, line, expected):
    outcome = execute(COMMAND, *shlex.split(line))
    error = told(outcome.err, folder).removesuffix("\n").removesuffix(" (--verbose tells more)")
    assert (outcome.out, error) == ("", f"teraio: {expected}")


BUDGET = "--device-budget 64MB"


@pytest.mark.parametrize(
    "line, expected",
    [
        (
            f"run {BUDGET} 2 train.py",
            "the script 2 does not exist: expected a Python file after the options",
        ),
        (
            "run --device-budget lots train.py",
            '--device-budget: "lots" is not a size: expected e.g. 1.5GB, 800MiB, 1200000000 or 40%',
        ),
        (
            f"run {BUDGET} --ssd nowhere train.py",
            "SSD directory nowhere does not exist: create it on a drive",
        ),
        (
            f"run {BUDGET} --ssd /proc train.py",
            "SSD directory /proc is not writable (REASON): choose one on a drive",
        ),
        (
            f"run {BUDGET} --ssd drive --ssd-capacity 1PB train.py",
            "ssd directory drive: 1.00 PB wanted, SIZE free. Free space there, name more "
            "drives, or ask for less",
        ),
        (
            f"run {BUDGET} --ssd drive --plan cut.json train.py",
            "--plan: cut.json cannot be read: expected JSON, found something else in line 2",
        ),
        (
            f"run {BUDGET} --ssd drive --plan plan.json train.py",
            'plan.json: trace: expected the name of a recorded iteration, such as "iteration '
            'NAME", found "small". Make the plan from a trace of `teraio run --save-trace`',
        ),
        (
            f"run {BUDGET} --ssd drive --save-plan new.json train.py",
            "no plan saved to new.json: there is no plan yet: no iteration of the training "
            "loop has repeated. Let it run a few more",
        ),
        (
            "dry-run train.py",
            "the script ended, and no optimizer step was seen: let it run at least 3",
        ),
    ],
)
def test_line_of_a_launched_command(warm_python, folder, line, expected):
    words = shlex.split(line)
    outcome = warm_python("-m", "teraio", *words)
    assert (outcome.out, told(outcome.err, folder)) == ("", f"teraio {words[0]}: {expected}\n")


def test_line_of_an_op_that_the_budget_cannot_hold():
    with budgets.offload("10MB"), pytest.raises(torch.OutOfMemoryError) as failure:
        small = [torch.ones(8192) + 1 for _ in range(32)]
        torch.ones(1024, 1024) @ torch.ones(1024, 1024)
    assert str(failure.value) == (
        "TERAIO: op aten::matmul needs 4.19 MB more on the device; the budget is 10.0 MB, of "
        "which 9.44 MB are in use and cannot leave (8.39 MB are operands of running ops, 1.05 MB "
        "are small storages). This op needs a budget of at least 13631488 bytes (13.6 MB); "
        "`teraio suggest --least-budget SCRIPT` finds that of the first steps"
    ), small


def train(layers):
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(layers)])
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for _ in range(4):
        model(torch.ones(64, 256)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.usefixtures("one_settled_thread")
def test_line_of_a_write_budget_that_is_too_small(tmp_path, capfd):
    with budgets.offload("4MB", write_budget="1kB/iteration"):
        train(6)
    assert (
        "teraio: the write budget allows 1.00 kB per iteration, and about LEAST is the least that "
        "this device budget needs: plans write that much. Raise the device budget to write less"
    ) in told(capfd.readouterr().err, tmp_path).splitlines()


@pytest.mark.usefixtures("one_settled_thread")
def test_line_of_the_plan_of_another_program(tmp_path, capfd):
    with budgets.offload("4MB") as session:
        train(6)
        session.plan().save(tmp_path / "plan.json")
    capfd.readouterr()
    with budgets.offload("5MB", plan=tmp_path / "plan.json"):
        train(8)
    assert (
        "teraio: no plan, migrating on demand, which is slower: plan.json: trace: expected a plan "
        'for "iteration NAME", found one for "iteration NAME". Make one for this program with '
        "`teraio run --save-plan`"
    ) in told(capfd.readouterr().err, tmp_path).splitlines()
