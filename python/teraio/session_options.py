"""What `teraio.offload` is asked for, as the core needs it. Each function raises teraio.Error for a
value that cannot be used."""

import os
from pathlib import Path

from teraio import core
from teraio.arguments import RECOMPUTE_CHOICES
from teraio.directories import directories_of_ranks
from teraio.errors import Error
from teraio.timelines import DEFAULT_STEPS, parse_steps
from teraio.units import format_size, parse_size, parse_write_budget


def budget_bytes(text, device, ranks):
    if text is None:
        return core.default_budget_bytes(device)
    memory_bytes = core.device_memory_bytes(device)
    # On the CPU, all ranks share the memory that a percentage refers to.
    whole_bytes = ranks.share_of(memory_bytes) if device == "cpu" else memory_bytes
    budget_bytes = parse_size(text, whole_bytes=whole_bytes)
    if budget_bytes == 0:
        raise Error("the device budget is 0: no op can run without memory. Expected e.g. 8GB")
    if budget_bytes > memory_bytes:
        limit = f"the memory of {device}, {format_size(memory_bytes)}"
        raise Error(f"the device budget is {text}: expected at most {limit}")
    return budget_bytes


def directories(ssd, host_limit, ranks):
    if ssd is not False:
        return directories_of_ranks(ssd, ranks)
    if parse_size(host_limit) == 0:
        raise Error(
            "ssd is False and host_limit is 0: there is no tier to offload tensors to. Give one of "
            "the two"
        )
    return [[] for _ in ranks.all()]


def write_budget_options(write_budget, ranks):
    if write_budget is None:
        return {}
    size_bytes, seconds = parse_write_budget(write_budget)
    share_bytes = ranks.share_of(size_bytes)
    return {"write_budget_bytes": share_bytes, "write_budget_period_seconds": seconds}


def plan_file(plan):
    if plan is None:
        return None
    if not Path(plan).is_file():
        raise Error(
            f"the plan {plan} is not a file: expected one that a run or `teraio plan` saved"
        )
    return str(plan)


def plans_in_background(choice):
    if choice is not None:
        return choice
    text = os.environ.get("TERAIO_PLANS_IN_BACKGROUND", "1")
    if text not in ("0", "1"):
        raise Error(f'TERAIO_PLANS_IN_BACKGROUND is "{text}": expected 0 or 1')
    return text == "1"


def recompute_choice(recompute):
    if recompute not in RECOMPUTE_CHOICES:
        expected = ", ".join(RECOMPUTE_CHOICES)
        raise Error(f'recompute is "{recompute}": expected one of {expected}')
    return recompute


def timeline_steps(save_timeline, timeline_steps):
    if save_timeline is None and timeline_steps is None:
        return None
    return parse_steps(timeline_steps or DEFAULT_STEPS)


def check_policy(policy, plan):
    if policy not in ("planned", "on-demand"):
        raise Error(f'the policy "{policy}" is not known: expected "planned" or "on-demand"')
    if plan is not None and policy == "on-demand":
        raise Error(
            f'the plan {plan} is not run with the policy "on-demand": leave one of the two out'
        )
