"""The options of a session: the arguments of `offload`, which `teraio run` has as `--options`.

The signature and the docstring of `offload` declare names, defaults and meanings. `_OPTIONS` has
what else the command line and the checks need.
"""

import inspect
import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from teraio.directories import directories_of_ranks
from teraio.errors import Error, MissingBudget
from teraio.files.json_file import check_json, read_hashes
from teraio.files.outputs import check_outputs
from teraio.ranks import default_device, find_ranks, path_text
from teraio.units import parse_seconds, parse_size, parse_write_budget


def offload(
    device_budget=None,
    ssd=None,
    host_limit=0,
    *,
    write_budget=None,
    device=None,
    plan=None,
    policy="planned",
    recompute="all",
    effort="auto",
    verify_replays=False,
    verify=None,
    report=None,
    save_timeline=None,
    timeline_steps=None,
    ssd_capacity=0,
    checksum=False,
    io_timeout=None,
    plans_in_background=None,
    status_line=False,
    local_rank=None,
    local_world_size=None,
):
    """Returns a `Session`: a context in which training stays within a budget of device memory.

    The first iterations run on demand and are profiled. When two iterations in a row have executed
    the same ops, TERAIO makes a plan for them, and the next iterations offload and prefetch tensors
    by that plan. Later iterations may have other sizes, or run other ops: TERAIO makes plans for
    those too. Losses, gradients and parameters have the same bits as without offloading. Leaving
    the context restores all tensors to the device.

    Args:
        device_budget: device memory that the run may use (default on a GPU: 92 % of what is free).
            It is an int in bytes, or text: "1.5GB", "800MiB", or "40%" of the device's memory. It
            is required on the CPU.
        ssd: a directory on a drive; give one per drive (default: one in the user's cache
            directory). It is a path or a list of them. With False, tensors are offloaded to host
            memory only.
        host_limit: host memory for offloaded tensors, and for staging between drives and a GPU
            (default: 0). With 0, no tensors are offloaded to host memory, and staging takes as much
            as it needs.
        write_budget: the most that plans may write to the drives, such as 2TB/day, 80GB/hour or
            5GB/iteration. Iterations on demand (the first ones, and those that deviate from the
            profile) are not limited.
        device: cpu, cuda (a rank's own GPU) or cuda:1 (default: a GPU, if this machine has one). It
            is text or a `torch.device`.
        plan: a plan to execute instead of making one. If it exceeds the write budget, another one
            is made.
        policy: planned (default), or on-demand for migration without a plan.
        recompute: tensors that a plan may discard and make again with the same bits (default: all).
            They are made by running the op that made them once more. "cheap" are those that take
            less than a tenth of the time to move them, and "off" are none.
        effort: how long plans are searched for (default: auto). Plans are always made fast first,
            and "fast" keeps them. With "auto", a search then goes on beside the training, on one
            core of a machine that has four or more for each rank, and a plan that is predicted to
            be at least 1 % better takes over between two steps. With "best", it goes on wherever
            the run is; without `plans_in_background`, the training waits for it. What it has found
            is kept for the next run of the program, which begins with it; "fast" uses none.
        verify_replays: check that tensors that are made again have the bits that were discarded. A
            difference raises an error that names the op. It takes time: every such tensor is copied
            to the host twice.
        verify: compare with the hashes in this file, or write it if it is missing. In Python,
            session.verify() does. An operator of another library that changes an argument which its
            schema does not mark raises an error that names it.
        report: write a report of the run to this directory. It has the files that `teraio report`
            makes a page of.
        save_timeline: write what happened when, for ui.perfetto.dev, at the end; ranks may share
            the file. docs/watching.md describes it.
        timeline_steps: the steps in the timeline, such as 10:13 (default: -3: for the last three).
            10:13 are the steps 10 to 12. An unfinished step after the last three is shown, too.
            Without `save_timeline`, these steps are recorded for `session.save_timeline()`.
        ssd_capacity: space to use on the drives (default: chosen from the budget and the free
            space).
        checksum: check all bytes that are read from the drives.
        io_timeout: leave a drive alone that has not answered a request for so many seconds
            (default: wait). Until it answers, writes go to other drives or stay on the device, and
            an operator raises an error that names the drive when it needs bytes that are only
            there. The device memory of such a request stays in use until then.
        plans_in_background: make plans on another thread while the training goes on. With False,
            each plan is made before the next iteration begins, so that runs repeat exactly; the
            default is $TERAIO_PLANS_IN_BACKGROUND (0 or 1), or True without it.
        status_line: show on stderr what the run does. docs/watching.md describes the line. In a
            notebook, it is a panel in the output of the cell.
        local_rank: the number of this process on the machine (default: $LOCAL_RANK). torchrun sets
            that variable.
        local_world_size: the number of processes that share the machine (default:
            $LOCAL_WORLD_SIZE, else 1).

    Raises:
        teraio.Error: an argument cannot be used. PyTorch is unchanged then.

    Several processes on a machine ("ranks", one per device) share host_limit, write_budget and
    ssd_capacity equally. A rank plans with an equal share of the rates and the space of each drive
    that several ranks use. The device budget belongs to the rank alone. "{local_rank}" in ssd,
    plan, verify, report and save_timeline stands for the rank's number, and "cuda" for the rank's
    GPU.
    """
    options = checked(locals())
    from teraio.session import session_of  # imports torch

    return session_of(options)


def parse_steps(text):
    """Returns the steps that a timeline shows as a pair (begin, end).

    Args:
        text: "10:13" for the steps 10 to 12, "10:" for those from 10 on, "-3:" for the last three.

    Raises:
        teraio.Error: `text` is none of these.
    """
    begin, colon, end = str(text).partition(":")
    try:
        first, last = int(begin), int(end) if end else (1 << 63) - 1
        if not colon or (first < 0 and end) or last <= first:
            raise ValueError
    except ValueError:
        raise Error(
            f'the steps of the timeline are "{text}": expected steps such as 10:13, or -3: for the '
            "last three"
        ) from None
    return first, last


def _budget(text):
    """Returns `text`: a percentage of memory becomes a size when the device is known."""
    if parse_size(text, whole_bytes=10**15) == 0:
        raise Error("the budget is 0: no op can run without memory. Expected e.g. 8GB")
    return text


def _directories(paths):
    if paths is False:
        return False
    return [path_text(path) for path in (paths if isinstance(paths, (list, tuple)) else [paths])]


def _plan_file(path):
    check_json(path, "teraio-plan/1", "teraio-plan/2")
    return str(path)


def _hashes_file(path):
    if os.path.exists(path):
        read_hashes(path)
    return path


@dataclass(frozen=True)
class _Option:
    """What the signature of `offload` does not tell of an option.

    Attributes:
        metavar: the name of its value in `--help`.
        parse: a function that returns its value for the core, and raises teraio.Error for another.
        choices: all values but the default, if they are few.
        repeats: whether it may be given several times.
        is_path: whether "{local_rank}" in it stands for the rank's number.
    """

    metavar: str | None = None
    parse: Callable | None = None
    choices: tuple | None = None
    repeats: bool = False
    is_path: bool = False


_OPTIONS = {
    "device_budget": _Option("SIZE", _budget),
    "ssd": _Option("DIR", _directories, repeats=True),
    "device": _Option(parse=str),  # also a torch.device
    "host_limit": _Option("SIZE", parse_size),
    "write_budget": _Option("RATE", parse_write_budget),
    "plan": _Option("FILE", _plan_file, is_path=True),
    "policy": _Option(choices=("planned", "on-demand")),
    "recompute": _Option(choices=("off", "cheap", "all")),
    "effort": _Option(choices=("fast", "auto", "best")),
    "verify_replays": _Option(choices=(True, False)),
    "verify": _Option("FILE", _hashes_file, is_path=True),
    "report": _Option("DIR", is_path=True),
    "save_timeline": _Option("FILE", is_path=True),
    "timeline_steps": _Option("A:B", parse_steps),
    "ssd_capacity": _Option("SIZE", parse_size),
    "checksum": _Option(choices=(True, False)),
    "io_timeout": _Option("SECONDS", parse_seconds),
    "plans_in_background": _Option(choices=(True, False)),
    "status_line": _Option(choices=(True, False)),
    "local_rank": _Option("N"),
    "local_world_size": _Option("N"),
}
_PLAIN = _Option()
_DEFAULTS = {name: each.default for name, each in inspect.signature(offload).parameters.items()}


def flag(name):
    """Returns how the command line calls an argument of `offload`: "--host-limit"."""
    return "--" + name.replace("_", "-")


def add_arguments(parser, *names, **helps):
    """Adds arguments of `offload` to a parser of a command line.

    Args:
        parser: an `argparse.ArgumentParser`, or a group of one.
        names: the names of the arguments.
        helps: by name, other helps than those of `offload`.
    """
    for name in names:
        option = _OPTIONS.get(name, _PLAIN)
        default = _DEFAULTS[name]
        words = {"help": helps.get(name, _help_of(name)).replace("%", "%%")}
        if default is False:
            words["action"] = "store_true"
        else:
            words |= {"default": default, "choices": option.choices, "metavar": option.metavar}
        if option.repeats:
            words["action"] = "append"
            del words["choices"]
        parser.add_argument(flag(name), **words)


def _help_of(name):
    """Returns the first sentence about an argument in the docstring of `offload`."""
    text = re.search(
        rf"^    {name}: ((?:.|\n     +)+)", inspect.getdoc(offload) or "", re.MULTILINE
    )
    sentences = " ".join(text[1].split()) if text else ""
    return sentences.partition(". ")[0].rstrip(".")


def parsed(name, parse, value, *more):
    """Returns `parse(value, *more)`. The message of an error that it raises begins with `name`."""
    try:
        return parse(value, *more)
    except Error as error:
        raise Error(f"{name}: {error}") from None


def check(values, named, *names):
    """Returns the values of some arguments of `offload` as the core needs them, by name.

    Args:
        values: a dict that has the arguments.
        named: a function from an argument's name to how the user knows it.
        names: those to check.

    Raises:
        teraio.Error: a value cannot be used. The message begins with what `named` returns.
    """
    return {name: _value(name, named(name), values[name]) for name in names}


def _value(name, known_as, value):
    option = _OPTIONS.get(name, _PLAIN)
    if value is None and _DEFAULTS[name] is None:
        return None
    if option.choices and value not in option.choices:
        expected = ", ".join(map(str, option.choices))
        raise Error(f'{known_as}: "{value}" is not known: expected one of {expected}')
    return parsed(known_as, option.parse, value) if option.parse else value


def checked(values, named=str, outputs=None, inputs=()):
    """Returns all options of a session as `session_of` needs them. It imports torch at the end, to
    look for a GPU.

    Args:
        values: a dict from arguments of `offload` to their values. Others have their defaults.
        named: a function from an argument's name to how the user knows it.
        outputs, inputs: further files that are written and read; see check_outputs().

    Raises:
        teraio.Error: a value cannot be used. The message begins with what `named` returns.
    """
    values = {name: values.get(name, default) for name, default in _DEFAULTS.items()}
    ranks = find_ranks(values["local_rank"], values["local_world_size"])
    values |= {
        name: parsed(named(name), ranks.named, values[name])
        for name, option in _OPTIONS.items()
        if option.is_path
    }
    options = check(values, named, *values)
    _check_together(options, named)
    _check_files(options, named, outputs or {}, inputs)
    options["ranks"] = ranks
    options["directories"] = (
        [[] for _ in ranks.all()]
        if options["ssd"] is False
        else directories_of_ranks(options["ssd"], ranks)
    )
    options["plans_in_background"] = _plans_in_background(options["plans_in_background"])
    if options["device"] is None:
        options["device"] = default_device()
    _check_budget(options, named)
    if options["save_timeline"] and options["timeline_steps"] is None:
        options["timeline_steps"] = parse_steps("-3:")
    return options


def _check_files(options, named, outputs, inputs):
    inputs = [options["plan"], *inputs]
    outputs = outputs | {named("save_timeline"): options["save_timeline"]}
    verify = options["verify"]
    if verify and os.path.exists(verify):
        inputs.append(verify)
    else:
        outputs[named("verify")] = verify
    check_outputs(outputs, inputs)


def _check_budget(options, named):
    if options["device_budget"] is None and options["device"] == "cpu":
        raise MissingBudget(
            f"{named('device_budget')} is missing: on the CPU it has no default. Expected a size "
            "such as 8GB or 40%"
        )


def _check_together(options, named):
    if options["plan"] is not None and options["policy"] == "on-demand":
        raise Error(
            f"{named('plan')}: there is no plan with {named('policy')} on-demand. Leave one of the "
            "two out"
        )
    if options["ssd"] is False and options["host_limit"] == 0:
        raise Error(
            "ssd is False and host_limit is 0: there is no tier to offload tensors to. Give one of "
            "the two"
        )


def _plans_in_background(choice):
    if choice is not None:
        return choice
    text = os.environ.get("TERAIO_PLANS_IN_BACKGROUND", "1")
    if text not in ("0", "1"):
        raise Error(f'TERAIO_PLANS_IN_BACKGROUND is "{text}": expected 0 or 1')
    return text == "1"
