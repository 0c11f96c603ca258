"""What tests of dry runs share: the traces of both runs, and a device."""

import json
from dataclasses import replace

import pytest

from teraio.accelerator import load, to_json


@pytest.fixture
def processor(tmp_path):
    """The options that predict a CPU, whose library is oneDNN."""
    device = replace(load("h100-nvl"), library="onednn")
    (tmp_path / "device.json").write_text(json.dumps(to_json(device)))
    return ["--accelerator", "device.json"]


@pytest.fixture
def both_traces(dry_run, warm_python, tmp_path):
    """The traces of a real run and of a dry run of the same command, one for each pattern."""

    def both_traces(*command, dry_options=()):
        options = ["--device-budget", "2GB", "--save-trace", "real.json"]
        real = warm_python("-m", "teraio", "run", *options, *command)
        assert real.code == 0, real
        dry = dry_run("--save-trace", "dry.json", *dry_options, *command)
        assert dry.code == 0, dry
        traces = [tmp_path / "real.json", *sorted(tmp_path.glob("dry*.json"))]
        return [json.loads(trace.read_text()) for trace in traces]

    return both_traces
