"""Changes of a script that make its training fit without offloading, by what its trace tells."""

import itertools
import json
import re
from dataclasses import dataclass, replace

_RANK = 16
_BYTES_OF_FP32 = 4
# An adapter has a weight, a gradient and two states of AdamW.
_TENSORS_OF_ADAPTER = 4
# AdamW8bit keeps a factor of four bytes for 256 elements, and small states in fp32.
_BYTES_OF_8_BITS = 1 + 4 / 256
_ELEMENTS_OF_8_BITS_MIN = 4096
# A block's number is the first one in the name of a module: model.layers.7 (modeling_llama.py:9)
_BLOCK = re.compile(r"(?:[^\d\W][^. ]*\.)*\d+(?=[. ])")


@dataclass(frozen=True)
class Alternative:
    """A change, and about what memory the training needs with it and without TERAIO."""

    what: str
    peak_bytes: int


def alternatives(paths, trained, budget_bytes):
    """Returns the `Alternative`s that keep a budget: each of them alone, or else the first and the
    last one together.

    Args:
        paths: the paths of the trace files of the training's steps.
        trained: the sizes of what is trained, `DryRun.trained`.
        budget_bytes: the device memory that the training may use.
    """
    traces = [json.loads(path.read_text()) for path in paths]
    lives = [_lives(trace) for trace in traces]
    adapters = sum(_RANK * sum(shape) for shape, _ in trained if len(shape) == 2)
    adapters_bytes = _TENSORS_OF_ADAPTER * _BYTES_OF_FP32 * adapters
    shorter = [_checkpointed(*each) for each in zip(traces, lives, strict=True)]
    lora, checkpointing = f"LoRA of rank {_RANK}", "checkpointing of each block"
    saved_bytes = _saved_by_8_bits(trained)
    alone = (
        Alternative(lora, adapters_bytes + _peak_bytes(traces, _frozen(lives))),
        Alternative("AdamW with states in 8 bits", _peak_bytes(traces, lives) - saved_bytes),
        Alternative(checkpointing, _peak_bytes(traces, shorter)),
    )
    both_bytes = adapters_bytes + _peak_bytes(traces, _frozen(shorter))
    both = [Alternative(f"{lora} and {checkpointing}", both_bytes)]
    fitting = [[each for each in some if each.peak_bytes <= budget_bytes] for some in (alone, both)]
    return fitting[0] or fitting[1]


def _frozen(lives):
    return [[life for life in each if not life.belongs_to_training] for each in lives]


def _saved_by_8_bits(trained):
    sizes = [size for _, states in trained for size in states]
    return sum(
        int(count * (width - _BYTES_OF_8_BITS))
        for count, width in sizes
        if count >= _ELEMENTS_OF_8_BITS_MIN
    )


@dataclass(frozen=True)
class _Life:
    """A tensor from the op that makes it to the last one before it is released, both included."""

    tensor: dict
    first: int
    last: int
    uses: tuple  # ops

    @property
    def belongs_to_training(self):
        return self.tensor["kind"] in ("gradient", "optimizer_state")

    @property
    def block(self):
        """The name of the block whose forward pass makes it, or None."""
        name = self.tensor.get("name", "")
        found = _BLOCK.match(name)
        is_made = not self.tensor["persistent"] and " backward" not in name
        return found[0] if found and is_made else None


def _lives(trace):
    uses = {tensor["id"]: [] for tensor in trace["tensors"]}
    freed = {}
    for op, content in enumerate(trace["ops"]):
        for tensor in (*content["reads"], *content["writes"]):
            uses[tensor].append(op)
        freed |= dict.fromkeys(content.get("frees", ()), op)
    end = len(trace["ops"]) - 1
    return [
        _Life(tensor, 0, end, tuple(ops))
        if tensor["persistent"]
        else _Life(tensor, ops[0], freed.get(tensor["id"], ops[-1]), tuple(ops))
        for tensor in trace["tensors"]
        if (ops := uses[tensor["id"]]) or tensor["persistent"]
    ]


def _peak_bytes(traces, lives):
    """Returns the most memory of any op."""
    return max(map(_peak_bytes_of_one, traces, lives))


def _peak_bytes_of_one(trace, lives):
    changes = [0] * (len(trace["ops"]) + 1)
    for life in lives:
        changes[life.first] += life.tensor["bytes"]
        changes[life.last + 1] -= life.tensor["bytes"]
    inside = (op.get("workspace_bytes", 0) for op in trace["ops"])
    return max(map(sum, zip(itertools.accumulate(changes), inside, strict=False)))


def _checkpointed(trace, lives):
    """Returns lives of which those inside of a block end with its forward pass, and begin again
    where its backward pass first reads one of them. What the block got lives until then."""
    is_backward = _backward_ops(trace)
    ends = _ends_of_passes(lives, is_backward)
    inside, others = {}, []  # inside: by the end of the pass
    for life in lives:
        end = ends.get(life.first) if life.block else None
        later = [op for op in life.uses if end is not None and op > end]
        if later and is_backward[later[0]]:
            inside.setdefault(end, []).append((later[0], life))
        else:
            others.append(life)
    begins = {end: min(op for op, _ in found) for end, found in inside.items()}
    kept = []
    for life in others:
        passes = {ends.get(op) for op in life.uses} - {ends.get(life.first)}
        kept.append(max(life.last, *(begins.get(end, 0) for end in (None, *passes))))
    shorter = [replace(life, last=last) for life, last in zip(others, kept, strict=True)]
    for end, found in inside.items():
        shorter += [replace(life, last=end) for _, life in found]
        shorter += [replace(life, first=begins[end]) for _, life in found]
    return shorter


def _backward_ops(trace):
    """Returns of each op whether it belongs to a backward pass."""
    made_there = {
        tensor["id"]
        for tensor in trace["tensors"]
        if tensor["kind"] == "gradient" or " backward" in tensor.get("name", "")
    }
    return [not made_there.isdisjoint(op["writes"]) for op in trace["ops"]]


def _ends_of_passes(lives, is_backward):
    """Returns the last op of the forward pass of a block, by each op that makes a tensor in it."""
    made = {life.first: life.block for life in lives if life.block}
    ends, ops = {}, []
    for op, backward in enumerate(is_backward):
        if ops and (backward or made.get(op, made[ops[0]]) != made[ops[0]]):
            ends |= dict.fromkeys(ops, ops[-1])
            ops = []
        if op in made and not backward:
            ops.append(op)
    return ends
