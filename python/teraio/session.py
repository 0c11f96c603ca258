"""`teraio.offload`: a device budget around any training loop."""

import atexit
import json
import os
import sys
import tempfile
from pathlib import Path

import torch

from teraio import core, entry_points
from teraio.compiled import CompiledGraphs
from teraio.directories import cache_directory, directories_of_ranks
from teraio.errors import Error
from teraio.files import replace_file
from teraio.iterations import IterationHooks
from teraio.ranks import device_of_rank, find_ranks
from teraio.report import Reporter
from teraio.sizes import format_size, parse_size, parse_write_budget
from teraio.verification import Verification


def offload(
    device_budget=None,
    ssd=None,
    host_limit=0,
    *,
    write_budget=None,
    device="cpu",
    plan=None,
    policy="planned",
    verify=None,
    report=None,
    ssd_capacity=0,
    checksum=False,
    evict_after_every_op=False,
    local_rank=None,
    local_world_size=None,
):
    """A context manager: inside it, training stays within `device_budget` bytes of device memory.

    The first iterations run on demand and are observed; once two in a row were equal they are
    planned, and tensors that lie idle move to the drives and back by that plan. Losses, gradients
    and parameters have the same bits as without it. On exit every tensor is back.

    Args:
        device_budget: bytes, as an int or written "1.5GB", "800MiB", "40%" (of all memory of the
            device). On a GPU it may be left out: 92 % of what is free then.
        ssd: a directory or a list of them, one per drive. Default: one in the cache directory.
            False: no drive, tensors go to host memory alone.
        host_limit: bytes of host memory for tensors, and for what is on its way between drives and
            a GPU; written like the budget. 0: no tensors, and as much on its way as needed.
        write_budget: what plans may write to the drives: "2TB/day", "80GB/hour", "5GB/iteration".
            Iterations on demand (the first ones, and those that leave the plan) are not limited.
        device: "cpu", "cuda" or "cuda:1". Nothing has been run on a GPU yet.
        plan: a plan file to run instead of making a plan, where it keeps the write budget.
        policy: "planned", or "on-demand" for migration without a plan.
        verify: a file of hashes that session.verify() writes when missing, else compares with.
        report: a directory to write progress.json and run.json to.
        ssd_capacity: bytes to reserve on the drives; 0 chooses from the budget and the free room.
        checksum: whether every chunk on a drive is checked when it comes back.
        evict_after_every_op: for tests: everything that can leave does so after every op.
        local_rank: which of the machine's processes this is; default: $LOCAL_RANK, which torchrun
            sets.
        local_world_size: how many processes share the machine; default: $LOCAL_WORLD_SIZE, else 1.

    Where several processes ("ranks", one per device) train on a machine, host_limit, write_budget
    and ssd_capacity are the machine's, and each rank has an equal share; of a drive that several
    ranks use, each plans with an equal share of rates and room. The device budget is the rank's
    own. "{local_rank}" in ssd, plan, verify and report is the rank's number, and "cuda" its GPU.

    Returns a `Session` when entered. Raises teraio.Error for input that cannot be used, before
    anything has changed.
    """
    _check_policy(policy, plan)
    ranks = find_ranks(local_rank, local_world_size)
    device = device_of_rank(device, ranks, torch.cuda.device_count)
    return Session(
        ranks=ranks,
        device=device,
        device_budget_bytes=_budget_bytes(device_budget, device, ranks),
        directories=_directories(ssd, host_limit, ranks),
        host_limit_bytes=ranks.share_of(parse_size(host_limit)),
        **_write_budget_options(write_budget, ranks),
        plan=_plan_file(ranks.named(plan)),
        policy=policy,
        verify=ranks.named(verify),
        report=ranks.named(report),
        ssd_capacity_bytes=ranks.share_of(parse_size(ssd_capacity)),
        checksum=checksum,
        evict_after_every_op=evict_after_every_op,
    )


class Session:
    """A run under a budget. Made by `offload`; entered once."""

    def __init__(self, *, ranks, directories, plan, policy, verify, report, **core_options):
        self._ranks = ranks
        self._host_limit_bytes = core_options["host_limit_bytes"]
        by_rank = [[str(directory) for directory in each] for each in directories]
        self._core = core.Session(
            ssd_directories=by_rank[ranks.local_rank],
            rank_directories=by_rank,
            cache_directory=str(cache_directory()),
            plan_path=plan,
            is_planned=policy == "planned",
            progress=lambda line: print(f"teraio: {line}", flush=True),
            **core_options,
        )
        self._hooks = IterationHooks(self._core, keeps_optimizers=bool(verify))
        self._compiled_graphs = CompiledGraphs()
        self._verification = Verification(verify)
        self._reporter = Reporter(self, report) if report else None
        self._process = os.getpid()

    def __enter__(self):
        if self._ranks.count > 1:
            print(f"teraio: {_share_line(self.share())}", flush=True)
        self._core.start()
        entry_points.install(self._core)
        self._compiled_graphs.install()
        self._hooks.install()
        if self._reporter:
            self._reporter.start()
        return self

    def __exit__(self, kind, error, traceback):
        self._end(self._core.stop, error)

    def enter_until_exit(self):
        """Enters the session for the rest of the process, and returns it.

        What the program has registered for the interpreter's exit still runs under it. Nothing
        comes back at the end: that would take time, and memory beyond the budget.
        """
        self.__enter__()
        atexit.register(self._end, self._core.abandon)
        return self

    def _end(self, end_core, error=None):
        if os.getpid() != self._process:
            return  # a child that the program has forked: the session is its parent's
        try:
            self._hooks.remove()
            self._end_report(error)
        finally:
            try:
                end_core()
            finally:
                self._compiled_graphs.remove()
                entry_points.remove()

    def _end_report(self, error):
        try:
            self.save_report()
        except Error as failure:
            if error is None:
                raise
            print(
                f"teraio: no report: {failure}", file=sys.stderr
            )  # the program's own error counts

    def save_report(self):
        """Ends the report, as the end of the session does; nothing without one. Raises teraio.Error
        when it cannot be written."""
        reporter, self._reporter = self._reporter, None
        if reporter is not None:
            reporter.stop()

    def counters(self):
        """What has happened so far: a dict of bytes, nanoseconds and counts.

        `device_bytes` and `device_peak_bytes` (of the running iteration) are what PyTorch's
        allocations take; `ssd_bytes_read`, `ssd_bytes_written` and the same for `host` have gone
        over the tiers; `stall_read_ns` and `stall_memory_ns` were spent waiting for bytes and for
        memory; `planned_*`, `on_demand_*`, `urgent_reads`, `late_prefetches` count migrations;
        `unmovable_bytes` are resident and can never leave, `held_for_good_bytes` of them because
        their address has been given away; `collective_bytes` stay while a collective works on them;
        `deviations` counts the times that an iteration left the profile.
        """
        return self._core.counters()

    def iterations(self):
        """One dict per iteration so far: mode, duration_ns, stalls, bytes moved, peak."""
        return self._core.iterations()

    def memory_timeline(self):
        """(time_ns, device_bytes) of the last whole iteration, where the bytes have changed."""
        return self._core.memory_timeline()

    def prediction(self):
        """What the plan promises, as a dict; None without a plan.

        `ideal_ns` is the iteration with all the memory, `step_ns` what the simulator says that the
        plan takes, `bound_ns` what no plan can beat, `natural_peak_bytes` what the iteration takes
        with all the memory.
        """
        prediction = self._core.prediction()
        if prediction is not None:
            prediction["bound_ns"] = self._core.bound_ns()
        return prediction

    def share(self):
        """What of the machine this rank has, as planned with: a dict.

        `local_rank`, `local_world_size`, `host_limit_bytes`, and `drives`: for each its name,
        directory, how many `ranks` share it, and one rank's part of its room and rates.
        """
        return {
            "local_rank": self._ranks.local_rank,
            "local_world_size": self._ranks.count,
            "host_limit_bytes": self._host_limit_bytes,
            "drives": self._core.drive_shares(),
        }

    def trace(self):
        """The profiled iteration, a `Trace`. Raises teraio.Error while none has repeated."""
        return Trace(self._core.save_trace)

    def plan(self):
        """The plan in force, a `Plan`. Raises teraio.Error while there is none."""
        return Plan(self._core.save_plan)

    def verify(self):
        """Hashes of losses, parameters, gradients and optimizer states, as a dict of hex strings.

        Two runs with equal dicts have had equal bits throughout. May be called after the session.
        Of optimizers that the program has dropped by then nothing is known, unless `verify` was
        given: then they, and their parameters, are kept.
        """
        return self._verification.hashes(self._hooks.losses(), self._hooks.optimizers())


class _Document:
    def __init__(self, save):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "document.json"
            save(str(path))
            self._text = path.read_text()

    def to_dict(self):
        return json.loads(self._text)

    def save(self, path):
        """Writes the file of docs/formats.md; compressed when the name ends in .gz."""
        data = self._text.encode()
        if Path(path).suffix == ".gz":
            import gzip

            data = gzip.compress(data, mtime=0)
        replace_file(path, data)


class Trace(_Document):
    """What one iteration did: see docs/formats.md."""


class Plan(_Document):
    """What moves when in one iteration: see docs/formats.md."""


def _share_line(share):
    drives = [
        f"1/{drive['ranks']} of drive {drive['name']} ({drive['directory']}): "
        f"read {format_size(drive['read_bytes_per_second'])}/s, "
        f"write {format_size(drive['write_bytes_per_second'])}/s"
        for drive in share["drives"]
    ]
    host = f"{format_size(share['host_limit_bytes'])} of host memory"
    rank = f"local rank {share['local_rank']} of {share['local_world_size']}"
    return f"{rank} has {', '.join([host, *drives])}"


def _budget_bytes(text, device, ranks):
    if text is None:
        return core.default_budget_bytes(device)
    memory_bytes = core.device_memory_bytes(device)
    # The CPU's memory is that of all ranks.
    whole_bytes = ranks.share_of(memory_bytes) if device == "cpu" else memory_bytes
    budget_bytes = parse_size(text, whole_bytes=whole_bytes)
    if budget_bytes == 0:
        raise Error("the device budget is 0: no op can run without memory")
    if budget_bytes > memory_bytes:
        limit = f"the memory of {device}, {format_size(memory_bytes)}"
        raise Error(f"the device budget is {text}: expected at most {limit}")
    return budget_bytes


def _directories(ssd, host_limit, ranks):
    if ssd is not False:
        return directories_of_ranks(ssd, ranks)
    if parse_size(host_limit) == 0:
        raise Error("ssd is False and host_limit is 0: tensors would have nowhere to go")
    return [[] for _ in ranks.all()]


def _write_budget_options(write_budget, ranks):
    if write_budget is None:
        return {}
    size_bytes, seconds = parse_write_budget(write_budget)
    share_bytes = ranks.share_of(size_bytes)
    return {"write_budget_bytes": share_bytes, "write_budget_period_seconds": seconds}


def _plan_file(plan):
    if plan is None:
        return None
    if not Path(plan).is_file():
        raise Error(f"the plan {plan} is not a file")
    return str(plan)


def _check_policy(policy, plan):
    if policy not in ("planned", "on-demand"):
        raise Error(f'the policy "{policy}" is not known: expected "planned" or "on-demand"')
    if plan is not None and policy == "on-demand":
        raise Error(f'the plan {plan} is not run with the policy "on-demand"')
