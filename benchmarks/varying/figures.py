"""What the arms of a program show: the rows of varying_steps.json."""

from statistics import median

from arms.arm import ArmResult
from arms.results import measured
from measures.rows import row

SLOWER_THAN_FIXED_AT_MOST = 1.05
FASTER_THAN_ON_DEMAND = ("experts",)


class ArmSteps:
    """The steps of an arm after the warm-up, of all rounds."""

    def __init__(self, results: list[ArmResult], warm_up_steps: int):
        self.seconds, self.tokens, self.of_session = [], [], []
        for result in results:
            self.seconds += measured(result.training["step_seconds"], warm_up_steps)
            self.tokens += measured(result.training["tokens_per_step"], warm_up_steps)
            if result.session:
                self.of_session += measured(result.session["steps"], warm_up_steps)

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


def rows(program, results: dict[str, list[ArmResult]], warm_up_steps: int) -> list[dict]:
    """Returns the rows of a program: each has a ratio to a reference, and whether it is met."""
    arms = {name: ArmSteps(each, warm_up_steps) for name, each in results.items()}
    found = [
        *planned_rows(program, arms["planned"], results["planned"], warm_up_steps),
        *time_rows(program, arms),
        *(fixed_rows(arms) if "planned, fixed" in arms else ()),
        *cost_rows(arms, results["planned"]),
        *drift_rows(results["ideal"], warm_up_steps),
    ]
    return [entry | {"name": f"{program.name}: {entry['name']}"} for entry in found]


def planned_rows(program, planned: ArmSteps, results: list[ArmResult], warm_up_steps) -> list[dict]:
    share, target = planned.planned_share(), program.planned_target
    counters = [result.session["counters"] for result in results]
    of_all = median(each["planned_ops"] / each["ops"] for each in counters)
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


def fixed_rows(arms: dict[str, ArmSteps]) -> list[dict]:
    times = {name: arm.seconds_per_token() for name, arm in arms.items()}
    drawn, fixed = times["planned"], times["planned, fixed"]
    gains = times["on demand"] / drawn, times["on demand, fixed"] / fixed
    met = drawn <= SLOWER_THAN_FIXED_AT_MOST * fixed
    return [
        row("seconds per token planned, drawn / fixed lengths", drawn, fixed, met),
        row("on demand / planned, drawn / fixed lengths", *gains, gains[0] >= gains[1]),
    ]


def cost_rows(arms: dict[str, ArmSteps], results: list[ArmResult]) -> list[dict]:
    """Returns what plans move, and what making and keeping them takes."""
    moved = arms["planned"].bytes_per_step(), arms["on demand"].bytes_per_step()
    sessions = [result.session for result in results]
    planning = median(session["counters"]["planning_ns"] for session in sessions) / 1e9
    run = median(sum(result.training["step_seconds"]) for result in results)
    library = max(sum(p["size_bytes"] for p in session["patterns"]) for session in sessions)
    plans = median(session["counters"]["plans_made"] for session in sessions)
    patterns = median(len(session["patterns"]) for session in sessions)
    return [
        row("bytes read and written per step, planned / on demand", *moved, None),
        row("CPU seconds of planning / seconds of the run", planning, run, None),
        row("bytes of the patterns / device budget", library, budget_of(sessions), None),
        row("plans made / patterns", plans, patterns, None),
    ]


def budget_of(sessions: list[dict]) -> int:
    return sessions[0]["device_budget_bytes"]


def drift_rows(ideal: list[ArmResult], warm_up_steps: int) -> list[dict]:
    """Returns how unequal the rounds of the reference arm were, if there were several."""
    times = [ArmSteps([result], warm_up_steps).seconds_per_token() for result in ideal]
    if len(times) == 1:
        return []
    return [row("ideal, slowest / fastest round", max(times), min(times), None)]
