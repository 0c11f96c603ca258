"""`teraio dry-run`: a real run does what it predicts, and it says what it cannot know."""

import gzip
import inspect
import json
import re
from collections import Counter
from pathlib import Path

import pytest
import torch
from trace_peak import peak_bytes

ROOT = Path(__file__).parents[3]
TRAININGS = ROOT / "tests" / "python" / "programs" / "refused_trainings.py"
PRETRAIN = ROOT / "examples" / "pretrain_llama.py"
HARDWARE = ROOT / "tests" / "data" / "traces" / "h100_ssd.json"

LOOP = """\
for step in range({steps}):
    optimizer.zero_grad()
    loss = loss_of(step)
    loss.backward()
    optimizer.step()
    print(f"{{loss.item():.3f}}")
"""

MLP = """\
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
optimizer = torch.optim.AdamW(model.parameters())
def loss_of(step):
    return torch.linalg.cholesky(model(torch.randn(32, 64)).T.cov()).square().mean()
"""


@pytest.fixture
def refused(dry_run):
    """The one line that a dry run ends with, which is not a traceback."""

    def refused(*arguments, code):
        outcome = dry_run(*arguments)
        assert outcome.code == code, outcome
        lines = outcome.err.splitlines()
        assert len(lines) == 1 and lines[0].startswith("teraio dry-run: "), outcome
        return lines[0].removeprefix("teraio dry-run: ")

    return refused


@pytest.fixture
def script(tmp_path):
    """Writes train.py: a model and its loss, and a loop of steps."""

    def script(model, steps=6):
        (tmp_path / "train.py").write_text(model + LOOP.format(steps=steps))
        return "train.py"

    return script


def op_names(trace):
    return [op["name"] for op in trace["ops"]]


def lasting_tensors(trace):
    """How many tensors live across iterations, of each size and kind."""
    return Counter((t["bytes"], t["kind"]) for t in trace["tensors"] if t["persistent"])


def used_bytes(trace):
    """The sizes of the tensors that each op reads and writes, from 8 KiB on.

    Smaller ones are numbers, and the state of the generator that checkpointing keeps.
    """
    sizes = {tensor["id"]: tensor["bytes"] for tensor in trace["tensors"]}
    return [
        [
            sorted(sizes[number] for number in op[uses] if sizes[number] >= 8192)
            for op in trace["ops"]
        ]
        for uses in ("reads", "writes")
    ]


def assert_alike(real, dry):
    assert op_names(dry) == op_names(real)
    assert used_bytes(dry) == used_bytes(real)
    unlike = {
        op["name"]
        for op, predicted in zip(real["ops"], dry["ops"], strict=True)
        if op.get("replayable") != predicted.get("replayable")
    }
    assert unlike <= {"aten::stack"}  # of a batch, which a dry run loads for real
    assert any(op.get("replayable") for op in dry["ops"])
    assert lasting_tensors(dry) == lasting_tensors(real)
    assert peak_bytes(dry) == pytest.approx(peak_bytes(real), rel=0.02)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "text.json.gz"
    with gzip.open(path, "wt") as lines:
        for n in range(400):
            text = f"Chapter {n}. The tensor {n} leaves the device and returns, {n % 7} times."
            lines.write(json.dumps({"text": text}) + "\n")
    return path


@pytest.fixture
def llama(corpus, tmp_path):
    """The command line that trains the tiny Llama."""
    files = ["--data", corpus, "--cache", tmp_path / "cache"]
    return lambda *more: [PRETRAIN, "--preset", "tiny", *files, "--steps", "6", *more]


@pytest.mark.parametrize(
    "settings",
    [
        [],
        pytest.param(["--accumulation", "2", "--activation-checkpointing"], marks=pytest.mark.full),
        pytest.param(["--bf16"], marks=pytest.mark.full),
        pytest.param(["--tie-embeddings"], marks=pytest.mark.full),
    ],
    ids=["plain", "checkpointing", "bf16", "tied"],
)
def test_llama_is_predicted_op_by_op(both_traces, llama, settings):
    real, dry = both_traces(*llama(*settings))
    assert_alike(real, dry)
    kinds = {tensor.get("name"): tensor["kind"] for tensor in dry["tensors"]}
    assert kinds["blocks.0.attention.wq.weight"] == "parameter"
    assert kinds["blocks.0.attention.wq.weight.grad"] == "gradient"
    assert kinds["blocks.0.attention.wq.weight.exp_avg"] == "optimizer_state"
    assert dry["source"] == "modelled on NVIDIA H100 NVL"


@pytest.mark.parametrize("name", ["perceptron", "convolutions", "recurrent"])
def test_models_of_other_kinds_are_predicted_op_by_op(both_traces, processor, name):
    assert_alike(*both_traces(TRAININGS, name, dry_options=processor))


def test_states_of_sparse_gradients_are_predicted(both_traces, processor):
    real, dry = both_traces(TRAININGS, "sparse_table", dry_options=processor)
    assert lasting_tensors(dry) == lasting_tensors(real)
    assert peak_bytes(dry) == pytest.approx(peak_bytes(real), rel=0.02)


def test_script_of_a_thousand_steps_is_ended_after_a_few(dry_run, script):
    outcome = dry_run(script(MLP, steps=1000))
    assert outcome.code == 0
    assert 0 < outcome.out.count("1.000") < 6
    assert "ops a step" in outcome.out
    assert "train.py:11: 1.0" in outcome.out  # what the script has read


def test_model_of_a_terabyte_needs_no_memory(dry_run, script):
    wide = MLP.replace("64", "262_144").replace("256", "262_144").replace("32,", "2,")
    outcome = dry_run(script(wide))
    assert outcome.code == 0, outcome
    assert "does not fit" in outcome.out and "1.65 TB at the peak" in outcome.out


def test_result_whose_size_depends_on_data_ends_the_run(refused, script):
    counting = MLP.replace(
        "    return", "    torch.bincount(model(torch.randn(32, 64)).argmax(1))\n    return"
    )
    line = refused(script(counting), code=1)
    assert "train.py:5: aten.bincount.default has a result whose size depends on data" in line


@pytest.mark.skipif(torch.accelerator.is_available(), reason="not applicable: the device is there")
def test_device_that_is_not_there_is_said_to_be(refused, script):
    on_device = MLP.replace("torch.nn.Linear(256, 8))", "torch.nn.Linear(256, 8)).to('cuda')")
    line = refused(script(on_device), code=1)
    assert 'train.py:2: a tensor is on "cuda"' in line and "Let the script use the CPU" in line


def test_of_steps_that_never_repeat_the_largest_is_predicted(dry_run, script):
    other = MLP.replace("torch.randn(32, 64)", "torch.randn(320 if step == 9 else 32 + step, 64)")
    said = dry_run(script(other, steps=1000)).out
    assert "no two of 24 steps in a row are alike: what is predicted is the mean" in said
    fixed = dry_run(script(MLP.replace("torch.randn(32, 64)", "torch.randn(320, 64)"))).out
    (peak,) = re.findall("memory: .* at the peak", fixed)
    assert peak in said


def test_error_of_the_script_is_its_own(dry_run, script):
    outcome = dry_run(script(MLP.replace("256, 8", "255, 8")))
    assert outcome.code == 1
    assert "Traceback" in outcome.err and "must have same reduction dim" in outcome.err


def test_frozen_weights_are_parameters(dry_run, script, tmp_path):
    frozen = MLP.replace("model.param", "model[2].param") + "model[0].requires_grad_(False)\n"
    dry_run("--save-trace", "trace.json", script(frozen))
    tensors = json.loads((tmp_path / "trace.json").read_text())["tensors"]
    kinds = {each.get("name"): each["kind"] for each in tensors}
    assert kinds["0.weight"] == kinds["2.weight"] == "parameter"


def test_step_of_which_everything_fits_is_not_planned(dry_run, script):
    outcome = dry_run("--hardware", HARDWARE, script(MLP))
    assert outcome.code == 0, outcome
    assert "everything fits: nothing moves" in outcome.out


def test_plan_for_a_machine_moves_tensors_and_makes_them_again(dry_run, llama, teraio, tmp_path):
    options = ["--hardware", HARDWARE, "--device-budget", "2MB"]
    trace, plan = tmp_path / "dry.json", tmp_path / "plan.json"
    outcome = dry_run(*options, "--save-trace", trace, *llama())
    assert outcome.code == 0, outcome
    assert "fits by moving" in outcome.out and "% of ideal" in outcome.out
    assert "none without replays" in outcome.out
    given = ["--trace", trace, *options]
    teraio("plan", *given, "--out", plan)
    said = teraio("explain", *given, "--plan", plan, "--time-limit", 1)
    assert re.search("^no replays ", said, re.MULTILINE), said


def test_plan_may_use_all_host_memory_of_the_machine(dry_run, llama, tmp_path):
    machine = json.loads(HARDWARE.read_text()) | {"drives": []}
    machine["host"]["capacity_bytes"] = 10**9
    (tmp_path / "host.json").write_text(json.dumps(machine))
    options = ("--hardware", "host.json", "--device-budget", "2MB")
    assert "fits by moving" in dry_run(*options, *llama()).out
    outcome = dry_run(*options, "--host-limit", "0", *llama())
    assert outcome.code == 1 and "no plan" in outcome.err.splitlines()[-1]


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["--accelerator", "h99"], '"h99" is neither an accelerator file nor one of: a100-40gb, '),
        (["--rank", "2", "--world-size", "2"], "--rank is 2: expected 0 to 1"),
        (["--world-size", "0"], "--world-size is 0: expected at least 1"),
        (["--hardware", "nowhere.json"], "nowhere.json does not exist"),
        (["--hardware", __file__], "cannot be read"),
        (["--device-budget", "lots"], '--device-budget: "lots" is not a size'),
        (["--host-limit", "40%"], '--host-limit: "40%" is not a size'),
        (["--save-trace", "nowhere/t.json"], "nowhere does not exist"),
        (["--save-trace", "train.py"], "--save-trace: train.py is given twice"),
        (["--calibrate", "train.py"], "--calibrate: train.py is given twice"),
        (["--assume", "train.py=1"], "expected VALUE or FILE:LINE=VALUE"),
        (["--assume", "often"], '"often" is neither a number nor true or false'),
    ],
)
def test_wrong_options_are_refused_before_the_script_runs(refused, script, arguments, complaint):
    assert complaint in refused(*arguments, script("raise SystemExit('it ran')"), code=2)


def test_script_is_needed(refused):
    assert "no script given" in refused(code=2)
    assert "absent.py does not exist" in refused("absent.py", code=2)


DDP = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
print(f"rank {dist.get_rank()} of {dist.get_world_size()}")
model = DistributedDataParallel(torch.nn.Linear(1000, 1000, bias=False))
optimizer = torch.optim.SGD(model.parameters())
def loss_of(step):
    return model(torch.randn(32, 1000)).square().mean()
"""

FSDP = """\
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model = torch.nn.Sequential(*(torch.nn.Linear(1000, 1000, bias=False) for _ in range(4)))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters())
def loss_of(step):
    return model(torch.randn(32, 1000)).square().mean()
"""


PIPELINE = """\
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, {schedule}
dist.init_process_group("gloo")
rank, count = dist.get_rank(), dist.get_world_size()
model = torch.nn.Linear(64, 64, bias=False)
example = torch.randn(4, 64)
shapes = {shapes}
stage = PipelineStage(model, rank, count, torch.device("cpu"), **shapes)
schedule = {schedule}(stage, 8, loss_fn=torch.nn.functional.mse_loss)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(6):
    inputs, targets, losses = torch.randn(32, 64), torch.randn(32, 64), []
    if rank == 0:
        schedule.step(inputs)
    elif rank == count - 1:
        schedule.step(target=targets, losses=losses)
        print(sum(loss.item() for loss in losses))
    else:
        schedule.step()
    optimizer.step()
    optimizer.zero_grad()
"""
SHAPES = "dict(input_args=(example,), output_args=(example,))"


@pytest.fixture
def pipeline(tmp_path):
    """Writes train.py: a stage of a pipeline and its schedule of eight micro-batches."""
    from torch.distributed.pipelining import PipelineStage

    if "output_grads" in inspect.signature(PipelineStage.__init__).parameters:
        pytest.skip("not applicable: stages of this PyTorch ask other ranks for their shapes")

    def pipeline(schedule, shapes=SHAPES):
        (tmp_path / "train.py").write_text(PIPELINE.format(schedule=schedule, shapes=shapes))
        return "train.py"

    return pipeline


@pytest.fixture
def played(dry_run, tmp_path):
    """The trace of a dry run as rank 1 of some processes."""

    def played(world_size, *command):
        ranks = ["--world-size", world_size, "--rank", 1]
        outcome = dry_run(*ranks, "--save-trace", "dry.json", *command)
        assert outcome.code == 0, outcome
        assert f"rank 1 of {world_size}" in outcome.out
        return json.loads((tmp_path / "dry.json").read_text())

    return played


def collectives(trace):
    names = ("c10d::", "_c10d_functional::", "fsdp::")
    return [op for op in trace["ops"] if op["name"].startswith(names)]


def persistent_bytes(trace):
    return sum(tensor["bytes"] for tensor in trace["tensors"] if tensor["persistent"])


def test_data_parallel_rank_reduces_its_gradients(played, script):
    trace = played(4, script(DDP))
    reductions = [op for op in collectives(trace) if "allreduce" in op["name"]]
    whole_bytes, link = 4 * 10**6, 0.8 * 300e9
    assert len(reductions) == 1
    expected_ns = 2 * 3 / 4 * whole_bytes / link * 1e9 + 6 * 8000
    assert reductions[0]["duration_ns"] == pytest.approx(expected_ns, rel=0.01)


def replayable_shares(trace):
    """By the name of ops: how many of them can be run again."""
    counts, replayable = Counter(op_names(trace)), Counter()
    for op in trace["ops"]:
        replayable[op["name"]] += bool(op.get("replayable"))
    return {name: replayable[name] / count for name, count in counts.items()}


@pytest.mark.full
def test_fully_sharded_rank_keeps_its_part(played, script):
    trace = played(4, script(FSDP))
    kept = 3 * 4 * 4 * 10**6 / 4  # parameters and two states, fp32, of four layers
    assert persistent_bytes(trace) == pytest.approx(kept, rel=0.02)
    gathered = [op for op in collectives(trace) if "allgather" in op["name"]]
    assert gathered and all(op["duration_ns"] > 0 for op in gathered)
    shares = replayable_shares(trace)
    assert (
        shares["aten::sqrt"] == shares["aten::linear"] == 1
    )  # of a DTensor, and of what is gathered


def test_tensor_parallel_rank_has_its_part_of_the_llama(played, dry_run, llama, tmp_path):
    half = played(2, *llama("--tensor-parallel", "2"))
    assert dry_run("--save-trace", "whole.json", *llama()).code == 0
    whole = json.loads((tmp_path / "whole.json").read_text())
    assert persistent_bytes(half) == pytest.approx(persistent_bytes(whole) / 2, rel=0.02)
    assert len(collectives(half)) > 8
    shapes = {tensor.get("name"): tensor["bytes"] for tensor in half["tensors"]}
    assert shapes["blocks.0.feed_forward.w1.weight"] == 64 * 176 * 4 / 2
    shares = replayable_shares(half)
    on_parts = ("mm", "rms_norm", "silu", "mul.Tensor", "embedding", "linalg_vector_norm")
    assert all(shares[f"aten::{name}"] == 1 for name in on_parts), shares
    assert not any(share for name, share in shares.items() if not name.startswith("aten::"))


def passes(trace):
    """What a stage does in turn: "r" receives, "s" sends, "f" forward, "b" half of backward."""
    letters = {"c10d::recv_": "r", "c10d::send": "s", "aten::linear": "f", "aten::mm": "b"}
    return "".join(letters.get(op["name"], "") for op in trace["ops"])


def test_stage_of_a_pipeline_works_off_its_schedule(played, pipeline):
    trace = played(3, pipeline("Schedule1F1B"))
    # One ahead of the backward passes, as the stage in the middle of three.
    assert passes(trace) == "rfs" + "rfsrbbs" * 7 + "rbbs"
    assert persistent_bytes(trace) > 3 * 64 * 64 * 4  # parameter and two states
    sent = next(op for op in trace["ops"] if op["name"] == "c10d::send")
    assert sent["duration_ns"] == pytest.approx(4 * 64 * 4 / (0.8 * 300) + 8000, abs=2)


def test_later_stage_is_told_to_name_its_shapes(refused, pipeline):
    script = pipeline("Schedule1F1B", shapes="{}")
    line = refused("--world-size", "3", "--rank", "1", script, code=1)
    assert "train.py:20: " in line
    assert "give it input_args and output_args" in line


def test_branch_on_data_inside_a_stage_is_said_like_any_other(refused, pipeline, tmp_path):
    script = pipeline("ScheduleGPipe")
    text = (tmp_path / script).read_text()
    branch = "model.register_forward_hook(lambda m, i, o: None if (o > 3).any() else None)\n"
    (tmp_path / script).write_text(text.replace("example =", branch + "example ="))
    line = refused("--world-size", "3", "--rank", "1", script, code=1)
    assert "train.py:7 asks whether a tensor is true" in line


OBJECTS = """\
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
gathered = [None] * dist.get_world_size()
dist.all_gather_object(gathered, {"lines": 7})
assert gathered == [{"lines": 7}] * 4
dist.broadcast_object_list(["name"], src=1)
dist.broadcast_object_list([None], src=0)
"""


def test_objects_of_other_ranks_are_not_made_up(refused, script):
    line = refused("--world-size", "4", "--rank", "1", script(OBJECTS), code=1)
    assert "train.py:8: broadcast_object_list gets an object from rank 0" in line
    assert "a dry run executes rank 1 only" in line
