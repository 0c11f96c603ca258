"""`teraio.offload`: a device budget around any training loop."""

import atexit
import json
import logging
import os
import tempfile
from pathlib import Path

import torch

from teraio import core, intercepted_methods
from teraio.atomic_file import replace_file
from teraio.compiled import CompiledGraphs
from teraio.directories import cache_directory, directories_of_ranks
from teraio.errors import Error
from teraio.iterations import IterationHooks
from teraio.ranks import device_of_rank, find_ranks
from teraio.run_report import RunReporter
from teraio.units import format_size, parse_size, parse_write_budget
from teraio.verification import Verification

_log = logging.getLogger("teraio")


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
    """Returns a `Session`: a context in which training stays within a budget of device memory.

    The first iterations run on demand and are profiled. When two iterations in a row have executed
    the same ops, they are planned, and idle tensors move to the drives and back by that plan.
    Losses, gradients and parameters have the same bits as without offloading. Leaving the context
    restores all tensors to the device.

    Args:
        device_budget: device memory in bytes, as an int or as text: "1.5GB", "800MiB", "40%" (of
            all memory of the device). Required on the CPU; default on a GPU: 92 % of its free
            memory.
        ssd: a directory or a list of directories, one per drive. Default: a directory in the cache
            directory. False: no drive; tensors move to host memory only.
        host_limit: host memory in bytes for offloaded tensors, and for staging between drives and a
            GPU; written like the budget. 0: no offloaded tensors, and as much staging as needed.
        write_budget: the most that plans may write to the drives: "2TB/day", "80GB/hour",
            "5GB/iteration". Iterations on demand (the first ones, and those that deviate from the
            plan) are not limited.
        device: "cpu", "cuda" or "cuda:1". CUDA has not been run on a GPU yet.
        plan: a plan file to execute instead of making a plan, if it keeps the write budget.
        policy: "planned", or "on-demand" for migration without a plan.
        verify: a file of hashes. session.verify() writes it when it is missing, and compares with
            it otherwise.
        report: a directory to write progress.json and run.json to.
        ssd_capacity: bytes to reserve on the drives. 0: chosen from the budget and the free room.
        checksum: whether every chunk that is read from a drive is checked.
        evict_after_every_op: for tests: offload every tensor that can move after every op.
        local_rank: the number of this process among the machine's. Default: $LOCAL_RANK, which
            torchrun sets.
        local_world_size: the number of processes that share the machine. Default:
            $LOCAL_WORLD_SIZE, else 1.

    Raises:
        teraio.Error: an argument cannot be used. Nothing has changed then.

    Several processes on a machine ("ranks", one per device) share its host_limit, write_budget and
    ssd_capacity equally. A rank plans with an equal share of the rates and the room of each drive
    that several ranks use. The device budget is the rank's own. "{local_rank}" in ssd, plan, verify
    and report stands for the rank's number, and "cuda" for its GPU.
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
    """A run within a device budget. `offload` makes it; it can be entered once.

    One thread at a time may enter and leave it. All other methods may be called from any thread,
    during the run and afterwards. One session at a time can run in a process: entering another one
    raises teraio.Error.
    """

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
        self._reporter = RunReporter(self, report) if report else None
        self._process = os.getpid()

    def __enter__(self):
        if self._ranks.count > 1:
            print(f"teraio: {_share_line(self.share())}", flush=True)
        self._core.start()
        intercepted_methods.install(self._core)
        self._compiled_graphs.install()
        self._hooks.install()
        if self._reporter:
            self._reporter.start()
        return self

    def __exit__(self, kind, error, traceback):
        self._end(self._core.stop, error)

    def enter_until_exit(self):
        """Enters the session for the rest of the process, and returns it.

        Functions that the program has registered for the interpreter's exit still run within it.
        Tensors are not restored at the end, because that takes time and memory beyond the budget.
        """
        self.__enter__()
        atexit.register(self._end, self._core.discard)
        return self

    def _end(self, end_core, error=None):
        if os.getpid() != self._process:
            return  # a child that the program has forked: the session belongs to its parent
        try:
            self._hooks.remove()
            self._end_report(error)
        finally:
            try:
                end_core()
            finally:
                self._compiled_graphs.remove()
                intercepted_methods.remove()

    def _end_report(self, error):
        try:
            self.save_report()
        except Error as failure:
            if error is None:
                raise
            _log.warning("teraio: no report: %s", failure)  # the program's own error is raised

    def save_report(self):
        """Writes run.json and ends the report, as the end of the session does.

        Does nothing without a report.

        Raises:
            teraio.Error: the file cannot be written.
        """
        reporter, self._reporter = self._reporter, None
        if reporter is not None:
            reporter.stop()

    def counters(self):
        """Returns the counters of the run so far: a dict of bytes, nanoseconds and counts.

        - `device_bytes`, `device_peak_bytes` (of the running iteration): memory that PyTorch's
          allocations take.
        - `ssd_bytes_read`, `ssd_bytes_written`, and the same for `host`: traffic of the tiers.
        - `stall_read_ns`, `stall_memory_ns`: time spent waiting for bytes, and for memory.
        - `planned_*`, `on_demand_*`, `urgent_reads`, `late_prefetches`: numbers of migrations.
        - `unmovable_bytes`: resident bytes that can never move. `held_for_good_bytes` of them
          belong to tensors whose address the program knows.
        - `collective_bytes`: bytes that stay resident while a collective uses them.
        - `deviations`: how often an iteration deviated from the profile.
        """
        return self._core.counters()

    def iterations(self):
        """Returns a list with one dict per iteration so far.

        - `mode`: "on demand", "planned", or "deviated" if the iteration left the plan.
        - `duration_ns`: the time from the iteration's start to its end.
        - `stall_read_ns`, `stall_memory_ns`: time spent waiting for bytes, and for memory.
        - `ssd_bytes_read`, `ssd_bytes_written`, and the same for `host`: traffic of the tiers.
        - `device_peak_bytes`: the most memory that PyTorch's allocations took.
        - `op_count`: the number of ops.
        """
        return self._core.iterations()

    def memory_timeline(self):
        """Returns a list of pairs (time_ns, device_bytes) of the last complete iteration.

        There is a pair for each time at which the bytes changed. Times count from the iteration's
        start.
        """
        return self._core.memory_timeline()

    def prediction(self):
        """Returns the prediction for the plan in force as a dict, or None without a plan.

        - `ideal_ns`: the iteration with unlimited device memory.
        - `step_ns`: the iteration under the plan, as simulated.
        - `bound_ns`: a time that no plan can undercut.
        - `natural_peak_bytes`: the peak of the iteration with unlimited device memory.
        """
        prediction = self._core.prediction()
        if prediction is not None:
            prediction["bound_ns"] = self._core.bound_ns()
        return prediction

    def share(self):
        """Returns this rank's share of the machine, as planned with, as a dict.

        It has `local_rank`, `local_world_size`, `host_limit_bytes`, and a list `drives`: for each
        drive its `name`, its `directory`, how many `ranks` share it, and one rank's share of its
        `capacity_bytes`, `read_bytes_per_second` and `write_bytes_per_second`.
        """
        return {
            "local_rank": self._ranks.local_rank,
            "local_world_size": self._ranks.count,
            "host_limit_bytes": self._host_limit_bytes,
            "drives": self._core.drive_shares(),
        }

    def trace(self):
        """Returns the profiled iteration as a `Trace`.

        Raises:
            teraio.Error: no iteration has repeated yet.
        """
        return Trace(self._core.save_trace)

    def plan(self):
        """Returns the plan in force as a `Plan`.

        Raises:
            teraio.Error: there is no plan yet.
        """
        return Plan(self._core.save_plan)

    def verify(self):
        """Returns hashes of losses, parameters, gradients and optimizer states.

        The result is a dict of hex strings by name. Two runs with equal dicts have had equal bits
        throughout. The call is also possible after the session has ended. Optimizers that the
        program has dropped by then, and their parameters, are included only if `verify` was given
        to `offload`, which keeps them.

        Raises:
            teraio.Error: `verify` named a file, and hashes differ from it.
        """
        return self._verification.hashes(self._hooks.losses(), self._hooks.optimizers())


class _Document:
    def __init__(self, save):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "document.json"
            save(str(path))
            self._text = path.read_text()

    def to_dict(self):
        """Returns the content of the file as a dict."""
        return json.loads(self._text)

    def save(self, path):
        """Writes the file that docs/formats.md describes, compressed if the name ends in .gz.

        Raises:
            OSError: the file cannot be written.
        """
        data = self._text.encode()
        if Path(path).suffix == ".gz":
            import gzip

            data = gzip.compress(data, mtime=0)
        replace_file(path, data)


class Trace(_Document):
    """What one iteration did, as docs/formats.md describes it."""


class Plan(_Document):
    """What moves when in one iteration, as docs/formats.md describes it."""


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
    # All ranks share the CPU's memory.
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
        raise Error("ssd is False and host_limit is 0: there is no tier to offload tensors to")
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
