"""The state of a session at this moment: what the status line and `teraio top` show."""

import logging
import statistics
import time
from collections import deque

from teraio.units import format_size

_STEPS = 10  # that figures per step are taken over
_RATE_SAMPLES = 6  # that rates are taken over: 5 s with a sample per second
HISTORY_CELLS = 40  # of the memory's history
_HISTORY_STEPS = 4
_CELL_SECONDS_MIN = 1
_SECONDS_PER_DAY = 86400

_log = logging.getLogger("teraio")


class RunStatus:
    """Reads the state of a session again and again. One thread uses it.

    Args:
        core: the `core.Session`.
        is_planned: whether the session makes plans.
        accelerator: the `Accelerator` that it runs on, or None if that is not known.
    """

    def __init__(self, core, is_planned, accelerator=None):
        self._accelerator = accelerator
        self._core = core
        self._is_planned = is_planned
        self._drives = core.drive_shares()
        self._link = core.device_link() or {}
        self._step = 0
        self._recent = deque(maxlen=_STEPS)  # the newest steps, all with a plan or all without
        self._traffic = deque(maxlen=_RATE_SAMPLES)  # pairs (seconds, counters)
        self._memory = MemoryHistory()
        self._told = set()  # what is told once

    def read(self):
        """Returns the state as a dict. Values that are not known yet are None.

        - `phase`: "learning", "planning", "following a plan" or "on demand".
        - `step`: the number of steps so far. `step_seconds`: the median of the last ones.
        - `predicted_step_seconds`, `ideal_step_seconds`: with the plan, and with unlimited memory.
        - `plan`: None, or a dict about the plan that holds: `from_step`, `is_kept` from an earlier
          search, `is_found_by_search`, the `predicted_gain` of a found one, `is_searching` for a
          better one, and `search_seconds`.
        - `device_bytes`, `device_peak_bytes`, `device_budget_bytes`: now, of the step, allowed.
        - `natural_peak_bytes`: as `Session.counters()` has it.
        - `tiers`: for "ssd" and "host", a dict with the rates `read_bytes_per_second` and
          `write_bytes_per_second` over the last seconds, and with what the tier can do,
          `read_limit_bytes_per_second` and `write_limit_bytes_per_second`.
        - `stall_share`: of the last steps, the share of their time that was spent waiting.
        - `flop_utilisation`: of the time of a step, the share that its model FLOPs take at the peak
          rates of the device. None if these are not known.
        - `wear_per_day`: the share of its rated writes that the drive which wears out first gets
          per day, at the rate of the last steps. None if no drive is rated.
        - `memory_bytes`: the maxima of equal parts of the last steps, the newest last.
        """
        now = time.monotonic()
        counters = self._core.brief_counters()
        peak_bytes = self._count_steps(counters["iterations"])
        self._traffic.append((now, counters))
        step_seconds = self._step_seconds()
        self._memory.add(now, max(peak_bytes, counters["device_bytes"]), step_seconds or 0)
        prediction = self._core.prediction() or {}
        return {
            "phase": self._phase(counters, prediction),
            "step": self._step,
            "step_seconds": step_seconds,
            "predicted_step_seconds": _seconds(prediction.get("step_ns")),
            "ideal_step_seconds": _seconds(prediction.get("ideal_ns")),
            "plan": _plan(prediction, counters),
            "device_bytes": counters["device_bytes"],
            "device_peak_bytes": max(peak_bytes, counters["device_peak_bytes"]),
            "device_budget_bytes": self._core.budget_bytes(),
            "natural_peak_bytes": counters["natural_peak_bytes"],
            "tiers": {tier: self._tier(tier) for tier in self._tiers(counters)},
            "stall_share": self._stall_share(),
            "flop_utilisation": self._flop_utilisation(prediction, step_seconds),
            "wear_per_day": self._wear_per_day(counters),
            "memory_bytes": self._memory.cells(),
        }

    def _count_steps(self, count):
        """Takes note of the steps that have ended since the last call. Returns their peak."""
        peak_bytes = 0
        known, self._step = self._step, count
        for iteration in self._core.iterations(known)[: count - known]:
            peak_bytes = max(peak_bytes, iteration["device_peak_bytes"])
            if self._recent and _has_plan(self._recent[-1]) != _has_plan(iteration):
                self._recent.clear()
            self._recent.append(iteration)
        return peak_bytes

    def _phase(self, counters, prediction):
        if not self._is_planned:
            return "on demand"
        if counters["is_following_plan"]:
            self._tell_if_needless(counters["natural_peak_bytes"], prediction)
            return "following a plan"
        if counters["is_planning"]:
            return "planning"
        return "learning" if counters["plans_made"] == 0 else "on demand"

    def _tell_if_needless(self, needed_bytes, prediction):
        budget_bytes = self._core.budget_bytes()
        if not prediction or needed_bytes > budget_bytes:
            return
        if prediction["step_ns"] > prediction["ideal_ns"]:
            return
        self._tell_once(
            "fits",
            f"the program has needed {format_size(needed_bytes)} so far, less than its budget of "
            f"{format_size(budget_bytes)}: no tensor moves, and it would train without TERAIO",
        )

    def _tell_once(self, what, message):
        if what not in self._told:
            self._told.add(what)
            _log.warning("teraio: %s", message)

    def _step_seconds(self):
        durations_ns = [step["duration_ns"] for step in self._recent]
        return _seconds(statistics.median(durations_ns)) if durations_ns else None

    def _stall_share(self):
        duration_ns = sum(step["duration_ns"] for step in self._recent)
        stall_ns = sum(step["stall_read_ns"] + step["stall_memory_ns"] for step in self._recent)
        return stall_ns / duration_ns if duration_ns else None

    def _flop_utilisation(self, prediction, step_seconds):
        if self._accelerator is None or step_seconds is None:
            return None
        at_peak = self._accelerator.seconds_at_peak(prediction.get("flops", {}))
        return at_peak and at_peak / step_seconds

    def _tiers(self, counters):
        has_host = counters["host_reserved_peak_bytes"] > 0
        return [*(["ssd"] if self._drives else []), *(["host"] if has_host else [])]

    def _tier(self, tier):
        return {
            "read_bytes_per_second": self._rate(f"{tier}_bytes_read"),
            "write_bytes_per_second": self._rate(f"{tier}_bytes_written"),
            "read_limit_bytes_per_second": self._limit(tier, "read_bytes_per_second"),
            "write_limit_bytes_per_second": self._limit(tier, "write_bytes_per_second"),
        }

    def _rate(self, counter):
        (begin, before), (end, after) = self._traffic[0], self._traffic[-1]
        return (after[counter] - before[counter]) / (end - begin) if end > begin else 0

    def _limit(self, tier, rate):
        if tier == "ssd":
            return sum(drive[rate] for drive in self._drives)
        return self._link.get(rate)

    def _wear_per_day(self, counters):
        duration_ns = sum(step["duration_ns"] for step in self._recent)
        if duration_ns == 0:
            return None
        written_bytes = sum(step["ssd_bytes_written"] for step in self._recent)
        per_day = written_bytes / (duration_ns / 1e9) * _SECONDS_PER_DAY
        return wear(self._drives, counters.get("ssd_drives", []), per_day)


def wear(shares, drives, written_bytes):
    """Returns the largest share of its rated writes that a drive gets when `written_bytes` are
    written to all drives, or None if no drive is rated.

    Args:
        shares: `Session.share()["drives"]`.
        drives: the counters of the same drives. Their parts of what is written stay the same.
        written_bytes: a number of bytes.
    """
    total_bytes = sum(drive["bytes_written"] for drive in drives) or 1
    return max(
        (
            written_bytes * drive["bytes_written"] / total_bytes / share["rated_bytes_written"]
            for share, drive in zip(shares, drives, strict=False)
            if share["rated_bytes_written"]
        ),
        default=None,
    )


class MemoryHistory:
    """The maxima of device memory in equal parts of the last steps, or of the last seconds."""

    def __init__(self):
        self._cells = deque(maxlen=HISTORY_CELLS)
        self._began = 0  # when the newest cell began, in seconds

    def add(self, now, size_bytes, step_seconds):
        """Adds a sample that was taken at `now`, in seconds, while steps take `step_seconds`."""
        cell_seconds = max(_CELL_SECONDS_MIN, _HISTORY_STEPS * step_seconds / HISTORY_CELLS)
        if self._cells and now - self._began < cell_seconds * 0.99:  # wake-ups are not exact
            self._cells[-1] = max(self._cells[-1], size_bytes)
        else:
            self._cells.append(size_bytes)
            self._began = now

    def cells(self):
        """Returns a list of at most 40 sizes in bytes, the newest last."""
        return list(self._cells)


def _plan(prediction, counters):
    if "plan_from_step" not in prediction:
        return None
    return {
        "from_step": prediction["plan_from_step"],
        "is_kept": prediction["is_kept_plan"],
        "is_found_by_search": prediction["is_found_by_search"],
        "predicted_gain": prediction["predicted_gain"],
        "is_searching": counters["is_searching"],
        "search_seconds": counters["search_ns"] / 1e9,
    }


def _has_plan(iteration):
    return iteration["mode"] != "on demand"


def _seconds(duration_ns):
    return duration_ns / 1e9 if duration_ns else None
