"""A session: a device budget around any training loop."""

import atexit
import logging
import os
import sys
import tempfile
from datetime import datetime
from pathlib import Path

import torch

from teraio import accelerator, core, verbosity
from teraio.directories import cache_directory
from teraio.errors import Error
from teraio.escapes import address_pins, higher_order_ops, intercepted_methods, unfinished_ops
from teraio.escapes.compiled_graphs import CompiledGraphs
from teraio.files.documents import Hardware, Plan, Trace
from teraio.files.timelines import add_to_timeline
from teraio.hooks.iterations import IterationHooks
from teraio.hooks.verification import Verification
from teraio.ranks import device_of_rank
from teraio.units import format_size, parse_size
from teraio.watch import notebook
from teraio.watch.environment import versions
from teraio.watch.progress_thread import ProgressThread
from teraio.watch.run_writer import RunWriter
from teraio.watch.status_display import StatusDisplay

_log = logging.getLogger("teraio")


def session_of(options):
    """Returns the `Session` that `teraio.options.checked` describes.

    Raises:
        teraio.Error: the machine does not have what the options ask for.
    """
    ranks = options["ranks"]
    device = device_of_rank(options["device"], ranks, torch.cuda.device_count)
    return Session(
        ranks=ranks,
        device=device,
        device_budget_bytes=_budget_bytes(options["device_budget"], device, ranks),
        host_limit_bytes=ranks.share_of(options["host_limit"]),
        **_write_budget(options["write_budget"], ranks),
        timeline=options["save_timeline"],
        ssd_capacity_bytes=ranks.share_of(options["ssd_capacity"]),
        io_timeout_ns=options["io_timeout"] or 0,
        **{name: options[name] for name in _PASSED_ON},
    )


# The options that a session takes as they are.
_PASSED_ON = (
    "directories",
    "plan",
    "policy",
    "verify",
    "report",
    "timeline_steps",
    "status_line",
    "checksum",
    "plans_in_background",
    "recompute",
    "effort",
    "verify_replays",
)


def _budget_bytes(text, device, ranks):
    if text is None:
        return core.default_budget_bytes(device)
    memory_bytes = core.device_memory_bytes(device)
    # On the CPU, all ranks share the memory that a percentage refers to.
    whole_bytes = ranks.share_of(memory_bytes) if device == "cpu" else memory_bytes
    budget_bytes = parse_size(text, whole_bytes=whole_bytes)
    if budget_bytes > memory_bytes:
        limit = f"the memory of {device}, {format_size(memory_bytes)}"
        raise Error(f"the device budget is {text}: expected at most {limit}")
    return budget_bytes


def _write_budget(write_budget, ranks):
    if write_budget is None:
        return {}
    size_bytes, seconds = write_budget
    share_bytes = ranks.share_of(size_bytes)
    return {"write_budget_bytes": share_bytes, "write_budget_period_seconds": seconds}


_running = None


def running_session():
    """Returns the `Session` that runs in this process, or None.

    So a script that `teraio run` executes, or a library, finds the session.
    """
    return _running


class Session:
    """A run within a device budget, as `offload` returns it. It can be entered once.

    In a notebook, `display(session)`, or the session as the last expression of a cell, is a panel
    that follows the run.

    One thread enters and leaves it. Any thread may call the other methods, during the run and
    afterwards. A process can run one session at a time: entering another one raises teraio.Error.
    """

    def __init__(
        self,
        *,
        ranks,
        directories,
        plan,
        policy,
        verify,
        report,
        timeline,
        status_line,
        **core_options,
    ):
        self._created_at = datetime.now().astimezone()
        self._ranks = ranks
        self._timeline = timeline
        settings = {
            "policy": policy,
            "plan": plan,
            "verify": verify and str(verify),
            **core_options,
        }
        verbosity.follow_environment()
        core.set_verbose(verbosity.is_verbose())
        self._host_limit_bytes = core_options["host_limit_bytes"]
        by_rank = [[str(directory) for directory in each] for each in directories]
        self._directories = by_rank[ranks.local_rank]
        _log.debug("teraio: session of %s on %s, drives %s", settings, versions(), by_rank)
        self._core = core.Session(
            ssd_directories=self._directories,
            rank_directories=by_rank,
            cache_directory=str(cache_directory()),
            plan_path=plan,
            is_planned=policy == "planned",
            checks_schemas=bool(verify),
            progress=lambda line: print(f"teraio: {line}", flush=True),
            **core_options,
        )
        self._hooks = IterationHooks(self._core, keeps_optimizers=bool(verify))
        self._compiled_graphs = CompiledGraphs()
        self._verification = Verification(verify)
        self._settings = settings
        self._writer = RunWriter(self, report, settings, self._created_at) if report else None
        self._accelerator = accelerator.of_device(core_options["device"])
        self._status_display = StatusDisplay(
            self._core,
            accelerator=self._accelerator,
            ranks=ranks,
            is_planned=policy == "planned",
            report=report,
            has_line=status_line,
        )
        self._progress_thread = ProgressThread(self._status_display.update)
        self._process = os.getpid()

    @property
    def device_budget_bytes(self):
        """The device memory that the run may use."""
        return self._settings["device_budget_bytes"]

    def __repr__(self):
        return notebook.text(self._status_display.newest)

    def _repr_html_(self):
        return notebook.html(self._status_display.newest)

    def _ipython_display_(self):
        self._status_display.add_panel()

    def __enter__(self):
        if self._ranks.count > 1:
            print(f"teraio: {_share_line(self.share())}", flush=True)
        higher_order_ops.let_observer_through()
        aliases = self._core.find_aliases()
        self._core.start()
        try:
            self._begin_to_observe(aliases)
        except BaseException:  # also Ctrl-C
            self._hooks.remove()
            try:
                self._core.stop()
            finally:
                self._restore_patched()
            raise
        global _running
        _running = self
        self._status_display.begin()
        self._progress_thread.start()
        return self

    def _begin_to_observe(self, aliases):
        address_pins.keep_in_place(self._core, aliases)
        intercepted_methods.install(self._core, self._directories)
        unfinished_ops.wait_for_end()
        self._core.begin_adoption()
        self._compiled_graphs.install()
        self._hooks.install()

    def _restore_patched(self):
        self._compiled_graphs.remove()
        intercepted_methods.remove()

    def __exit__(self, kind, error, traceback):
        self._end(self._core.stop, error)

    def end(self):
        """Ends the session as leaving the `with` block does: restores all tensors.

        When the system has too little memory for all tensors, leaving the block raises, and the
        session goes on, with every tensor usable. The program may then drop or save tensors, and
        call this.

        Raises:
            teraio.Error: the memory does not suffice, and the message has the bytes that are
                needed and those that are available. Or some tensors cannot be read; then all
                others are restored, and the session has ended.
            KeyboardInterrupt: a drive does not answer, and the user has pressed Ctrl-C. The message
                names the tensors that did not come back, and the session has ended.
        """
        self._end(self._core.stop)

    def enter_until_exit(self):
        """Enters the session until the interpreter exits, and returns it.

        Functions that the program registers with atexit afterwards still run within the session.
        Tensors are not restored at the end, because that takes time and memory beyond the budget.

        Raises:
            teraio.Error: another session runs in this process, or this one has ended.
        """
        self.__enter__()
        atexit.register(self._end_with_process)
        return self

    def _end_with_process(self):
        # First: an operator of another thread may wait for a drive, and keep others from whatever
        # the rest of the end reads, until this ends its wait.
        if os.getpid() == self._process:
            self._core.discard()
        self._end(self._core.discard)

    def _end(self, end_core, error=None):
        if os.getpid() != self._process:
            return  # a child that the program has forked: the session belongs to its parent
        try:
            self._hooks.remove()
            self._progress_thread.stop()
            self._status_display.end()
            self._save_at_end(error)
        finally:
            try:
                end_core()
            finally:
                atexit.unregister(self._core.discard)
                if self._core.is_running():  # there is too little memory to restore all tensors
                    atexit.register(self._core.discard)  # also keeps it alive until then
                else:
                    global _running
                    _running = None
                    self._restore_patched()

    def _save_at_end(self, error):
        for what, save in (("report", self.save_report), ("timeline", self._save_timeline_once)):
            try:
                save()
            except (Error, OSError) as failure:
                if error is None:
                    raise
                # The error of the program passes through.
                _log.warning("teraio: no %s is saved: %s", what, failure)

    def save_report(self):
        """Writes run.json and ends the report. Otherwise the end of the session does both.

        Does nothing if the session has no report or has written it already.

        Raises:
            teraio.Error: the file cannot be written.
        """
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.save(self._core.brief_counters()["iterations"])

    def report(self):
        """Returns a `teraio.report.Report` of the run so far, during the run or afterwards.

        In a notebook, its page appears in the cell's output. The session needs no `report=` for it.

        Raises:
            teraio.Error: the page cannot be made.
        """
        from teraio.report import Report

        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "session"
            writer = RunWriter(self, path, self._settings, self._created_at)
            writer.save(self._core.brief_counters()["iterations"])
            return Report(path)

    def save_timeline(self, path):
        """Writes what happened when in the steps that `timeline_steps` names, for ui.perfetto.dev.

        The file has Chrome trace events. `teraio.merge_timelines()` merges it with a trace of
        torch.profiler.

        Args:
            path: the file, which is compressed if the name ends in .gz. Ranks that have the same
                path write to the same file, each its part.

        Returns:
            A list of the whole steps in the file, by their indices in `iterations()`.

        Raises:
            teraio.Error: the session records no steps, or none of them has begun yet.
            OSError: the file cannot be written.
        """
        script = Path(sys.argv[0]).name or "python"
        if self._ranks.count == 1:
            return self._core.save_timeline(str(path), script)
        name = f"{script}, rank {self._ranks.local_rank}"
        return add_to_timeline(
            path, lambda own: self._core.save_timeline(str(own), name), self._created_at.timestamp()
        )

    def _save_timeline_once(self):
        path, self._timeline = self._timeline, None
        if path is not None:
            self.save_timeline(path)

    def counters(self):
        """Returns the counters of the run so far: a dict of bytes, nanoseconds and counts.

        - `device_bytes`: device memory that PyTorch's allocations take now.
        - `device_peak_bytes`: the maximum of `device_bytes` in the current iteration.
        - `natural_peak_bytes`: the most that all tensors took at once so far, on the device or not:
          the device memory that the program needs without TERAIO.
        - `ssd_bytes_read`, `ssd_bytes_written`, and the same for `host`: traffic of the tiers.
        - `stall_read_ns`, `stall_memory_ns`: time spent waiting for transfers, and for memory.
        - `planned_*`, `on_demand_*`, `urgent_reads`, `late_prefetches`: numbers of migrations.
        - `relocations`, `relocated_bytes`: moves of tensors on the device, to make room for others.
        - `discards`: number of tensors that were discarded. `planned_replays`, `on_demand_replays`:
          numbers of ops that ran again to make them, which took `replay_ns`. `banned_replays`: ops
          that are not replayed, because they gave other bits. `verified_replays`,
          `differing_replays`: with `verify_replays`, how many tensors were made again with the same
          bits and with others.
        - `bytes_away`: bytes of offloaded tensors.
        - `unanswered_bytes`: device memory that drives may still use which have not answered for
          `io_timeout`. Each entry of `ssd_drives` counts in `unanswered_count` how often the drive
          did not answer in time.
        - `unmovable_bytes`: resident bytes that cannot be offloaded now, because their tensors are
          small, pinned, or not used by an op yet.
        - `held_for_good_bytes`: bytes of tensors that are pinned permanently, because the program
          knows their addresses.
        - `kept_in_place_bytes`: those of them that stay in memory of their own, because the program
          has exported their addresses before the session, or before an operator of it used them.
        - `collective_bytes`: bytes that are pinned while a collective uses them.
        - `deviations`: the number of deviations from the profile.
        - `iterations`: the number of complete ones. `ops`: the number of ops in them.
          `planned_ops`: those that followed a plan.
        - `plans_made`: the number of plans, which took `planning_ns` of CPU time. `is_planning`:
          whether a plan is being made now. `search_ns`: the CPU time of the searches for better
          plans that have ended. `is_searching`: whether one goes on now.
        """
        return self._core.counters()

    def iterations(self, first=0):
        """Returns a list with one dict per iteration so far, from the index `first` on.

        Only the newest 100,000 iterations are kept.

        - `mode`: "on demand", "planned", or "deviated" if it deviated from the profile.
        - `duration_ns`: the time from the iteration's start to its end.
        - `stall_read_ns`, `stall_memory_ns`: time spent waiting for transfers, and for memory.
        - `ssd_bytes_read`, `ssd_bytes_written`, and the same for `host`: traffic of the tiers.
        - `device_peak_bytes`: the most device memory that PyTorch's allocations took.
        - `op_count`: the number of ops. `planned_op_count`: those that followed a plan.
        - `pattern`: the `id` of the iteration's pattern (`patterns()`), or 0.

        Raises:
            teraio.Error: `first` is not the index of an iteration.
        """
        if not hasattr(first, "__index__") or first < 0:
            raise Error(f'the first iteration is "{first}": expected an index such as 0')
        return self._core.iterations(first)

    def patterns(self):
        """Returns a list with one dict per pattern of the run's iterations.

        Iterations of one pattern run the same ops on the same parameters, and may differ in sizes.
        TERAIO keeps the patterns whose plans ran last, within 64 MiB of host memory, or 2 % of the
        device budget if that is more.

        - `id`: a number that no other pattern of the session has.
        - `name`: what an iteration consists of, such as "2 forward from embed (model.py:31), 1
          backward, 1 update".
        - `op_count`: the number of ops of an iteration. `iterations`: how many there were.
        - `ops`, `planned_ops`: the ops of all of them, and those that followed a plan.
        - `is_planned`: whether there is a plan. `plans`: the number of plans, for different sizes.
        - `is_irregular`: whether the sizes of some tensors do not follow from those of others, so
          that one plan for the largest sizes serves all.
        - `size_bytes`: the host memory that its profiles and plans take.
        """
        return self._core.patterns()

    def differences(self):
        """Returns a list with one dict per way in which iterations differed from what was expected.

        The expected iteration is that of the pattern that was followed (`patterns()`). Of each
        iteration, the first op that differs and the first one with other sizes count. At most 100
        ways are kept.

        - `kind`: "ops" if the program ran another op, "sizes" if it ran the op on tensors of other
          sizes, or "end" if the iteration ended before the pattern does.
        - `op`: the op that the program ran. `expected_op`: that of the pattern, if it has more.
        - `location`: the line of the program and its function, if the op ran on a thread of Python.
        - `parameter`: the name of the parameter that the pattern has used last by then, or "".
        - `pattern`, `position`: the `id` of the pattern, and the number of the op in it.
        - `iterations`: how many iterations differed in this way.
        - `expected_bytes`, `smallest_bytes`, `largest_bytes`: for "sizes", the bytes of the op's
          inputs, without tensors that outlive iterations, such as parameters: those in the first
          iteration of the pattern, and the extremes of the others.
        """
        return self._core.differences()

    def memory_timeline(self):
        """Returns a list of pairs (time_ns, device_bytes) of the last complete iteration.

        There is one pair for the end of each op at which the bytes changed. Times are in
        nanoseconds from the iteration's start.
        """
        return self._core.memory_timeline()

    def prediction(self):
        """Returns the prediction for the plan that is followed as a dict, or None without a plan.

        - `ideal_ns`: the time of an iteration with unlimited device memory.
        - `step_ns`: the time of an iteration under the plan, as simulated.
        - `bound_ns`: a time that no plan can undercut.
        - `flops`: the FLOPs of an iteration's products, convolutions, attentions and recurrent
          layers by precision, without what is computed again. `at_peak_ns`: their time at the peak
          rates of the device, or None if these are not known.
        - `device_budget_bytes`, `write_budget_bytes`: the limits of one iteration that the plan was
          made for; the first one is below the session's budget. The second one may be None.
        - `plan_from_step`: the first step that followed the plan; that of the session is 1.
          `is_found_by_search`: whether a search beside the training has found the plan.
          `predicted_gain`: the share of the step that it saves then, or 0.
        - `first_timed_step`, `last_timed_step`: the steps whose op times the prediction has; 0 if
          those of the recorded step.
        """
        prediction = self._core.prediction()
        if prediction is not None:
            prediction["bound_ns"] = self._core.bound_ns()
            at_peak = self._accelerator and self._accelerator.seconds_at_peak(prediction["flops"])
            prediction["at_peak_ns"] = at_peak and round(at_peak * 1e9)
        return prediction

    def share(self):
        """Returns this rank's share of the machine as a dict.

        It has `local_rank`, `local_world_size`, `host_limit_bytes`, and a list `drives`. For each
        drive the list has a dict with its `name` and `directory`, the number of `ranks` that share
        it, and one rank's share of its `capacity_bytes`, `read_bytes_per_second` and
        `write_bytes_per_second`, as measured when the session was made, and of its
        `rated_bytes_written`, or None if its model's rating is not known.
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
        """Returns the newest plan as a `Plan`.

        Raises:
            teraio.Error: there is no plan, because no iteration has repeated yet, planning has
                failed, or the policy is "on-demand". The message tells which.
        """
        return Plan(self._core.save_plan)

    def hardware(self):
        """Returns what plans assume about the machine as `Hardware`: rates as measured."""
        return Hardware(self._core.save_hardware)

    def verify(self):
        """Returns hashes of losses, parameters, gradients and optimizer states.

        The result is a dict from names to SHA-256 hashes in hex. Runs with equal dicts have
        computed the same bits. The first 10,000 losses have a hash each; one hash represents all
        later ones. The call is also possible after the session has ended. Optimizers that the
        program has dropped, and their parameters, are included only if `offload` got `verify`,
        which keeps them alive.

        Raises:
            teraio.Error: `verify` names a file, and hashes differ from those in it, or there are
                none.
            OSError: the file cannot be written.
        """
        return self._verification.hashes(self._hooks.loss_hashes(), self._hooks.optimizers())


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
