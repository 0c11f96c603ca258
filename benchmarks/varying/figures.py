"""What the arms of a program show: the rows of varying_steps.json."""

from statistics import median

from arms.arm import ArmResult
from arms.results import measured
from measures.rows import row

PARTS_PLANNED_TARGET, SLOWER_THAN_ON_DEMAND_AT_MOST = 0.8, 1.05
FASTER_THAN_ON_DEMAND = ("experts",)


class ArmSteps:
    """The steps of an arm after the warm-up."""

    def __init__(self, result: ArmResult, warm_up_steps: int):
        self.seconds = measured(result.training["step_seconds"], warm_up_steps)
        self.tokens = measured(result.training["tokens_per_step"], warm_up_steps)
        self.of_session = measured(result.session["steps"], warm_up_steps) if result.session else []

    def seconds_per_token(self) -> float:
        """Returns the median over the steps."""
        return median(s / t for s, t in zip(self.seconds, self.tokens, strict=True))

    def overall_seconds_per_token(self) -> float:
        return sum(self.seconds) / sum(self.tokens)

    def planned_share(self) -> float:
        """Returns the share of the ops that followed a plan."""
        return self._sum("planned_op_count") / self._sum("op_count")

    def bytes_per_step(self) -> float:
        """Returns the mean of what a step reads from the drive and writes to it."""
        moved = self._sum("ssd_bytes_read") + self._sum("ssd_bytes_written")
        return moved / len(self.of_session)

    def _sum(self, field: str) -> int:
        return sum(step[field] for step in self.of_session)


def rows(program, results: dict[str, ArmResult], warm_up_steps: int) -> list[dict]:
    """Returns the rows of a program: each has a ratio to a reference, and whether it is met."""
    arms = {name: ArmSteps(each, warm_up_steps) for name, each in results.items()}
    found = [
        *planned_rows(program, arms["planned"], results["planned"], warm_up_steps),
        *time_rows(program, arms),
        *cost_rows(arms, results["planned"]),
    ]
    return [entry | {"name": f"{program.name}: {entry['name']}"} for entry in found]


def rows_of_parts(name: str, planned: dict, on_demand: dict) -> list[dict]:
    """Returns the rows of a program that repeats in parts, of two sessions."""
    halves = [run["steps"][len(run["steps"]) // 2 :] for run in (planned, on_demand)]
    ops, planned_ops = (sum(s[key] for s in halves[0]) for key in ("op_count", "planned_op_count"))
    seconds = [sum(step["seconds"] for step in half) for half in halves]
    reads = [run["counters"]["urgent_reads"] for run in (planned, on_demand)]
    is_planned = planned_ops >= PARTS_PLANNED_TARGET * ops
    is_fast = seconds[0] <= SLOWER_THAN_ON_DEMAND_AT_MOST * seconds[1]
    return [
        row(f"{name}: share of ops planned in the second half", planned_ops / ops, 1, is_planned),
        row(f"{name}: seconds of the second half, planned / on demand", *seconds, is_fast),
        row(f"{name}: reads that ops waited for, planned / on demand", *reads, None),
    ]


def planned_rows(program, planned: ArmSteps, result: ArmResult, warm_up_steps) -> list[dict]:
    share, target = planned.planned_share(), program.planned_target
    counters = result.session["counters"]
    of_all = counters["planned_ops"] / counters["ops"]
    after = f"share of ops planned after {warm_up_steps} steps / target"
    return [
        row(after, share, target, share >= target),
        row("share of ops planned, of the whole run", of_all, 1, None),
    ]


def time_rows(program, arms: dict[str, ArmSteps]) -> list[dict]:
    times = {name: arm.seconds_per_token() for name, arm in arms.items()}
    overall = {name: arm.overall_seconds_per_token() for name, arm in arms.items()}
    planned, on_demand = times["planned"], times["on demand"]
    met = planned < on_demand if program.name in FASTER_THAN_ON_DEMAND else None
    return [
        row("seconds per token, planned / ideal", planned, times["ideal"], None),
        row("seconds per token, planned / on demand", planned, on_demand, met),
        row("overall, planned / ideal", overall["planned"], overall["ideal"], None),
        row("overall, planned / on demand", overall["planned"], overall["on demand"], None),
    ]


def cost_rows(arms: dict[str, ArmSteps], result: ArmResult) -> list[dict]:
    """Returns what plans move, and what making and keeping them takes."""
    moved = arms["planned"].bytes_per_step(), arms["on demand"].bytes_per_step()
    session, patterns = result.session, result.session["patterns"]
    planning_seconds = session["counters"]["planning_ns"] / 1e9
    size_bytes, budget_bytes = (
        sum(p["size_bytes"] for p in patterns),
        session["device_budget_bytes"],
    )
    run_seconds = sum(result.training["step_seconds"])
    return [
        row("bytes read and written per step, planned / on demand", *moved, None),
        row("CPU seconds of planning / seconds of the run", planning_seconds, run_seconds, None),
        row("bytes of the patterns / device budget", size_bytes, budget_bytes, None),
        row("plans made / patterns", session["counters"]["plans_made"], len(patterns), None),
    ]
