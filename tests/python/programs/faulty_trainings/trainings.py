"""What a seed chooses, and whether a training ends as it must."""

import dataclasses
import os
import random
import re
from dataclasses import dataclass

from matrix import budgets, catalogue
from matrix.jobs import train

import teraio
from teraio.hooks.verification import tensor_hash

from .drives import DRIVE_COUNT, FaultyDrives, Rates
from .references import new_model, reference


@dataclass(frozen=True)
class Scenario:
    """What happens to the drives: rates, and the rest."""

    rates: Rates
    dies: bool = False
    hangs: bool = False
    lies: bool = False  # the checksum is needed

    def scaled_rates(self, scale):
        return Rates(*(getattr(self.rates, name) * scale for name, _ in Rates._fields_))

    @property
    def may_fail(self):
        return self.may_lose or self.rates.write_error > 0 or self.rates.full > 0

    @property
    def may_lose(self):
        """Whether bytes that were on a drive may be gone."""
        return self.dies or self.hangs or self.lies or self.rates.read_error > 0


SCENARIOS = {
    "slow and interrupted": Scenario(Rates(passing_error=0.05, partial=0.05, late=0.1)),
    "writes fail": Scenario(Rates(write_error=0.03, full=0.03, partial=0.03, late=0.02)),
    "reads fail": Scenario(Rates(read_error=0.004, late=0.02)),
    "a drive dies": Scenario(Rates(late=0.02), dies=True),
    "a drive hangs": Scenario(Rates(late=0.02), hangs=True),
    "reads flip bits": Scenario(Rates(flipped_by_read=0.004), lies=True),
    "writes flip bits": Scenario(Rates(flipped_by_write=0.004), lies=True),
    "writes are lost": Scenario(Rates(lost=0.004), lies=True),
    "writes go astray": Scenario(Rates(misdirected=0.004), lies=True),
    "writes are torn": Scenario(Rates(torn=0.004), lies=True),
    "everything": Scenario(
        Rates(0.02, 0.02, 0.02, 0.002, 0.01, 0.01, 0.001, 0.001, 0.001, 0.001, 0.001),
        dies=True,
        lies=True,
    ),
}
# Discards after every op take twenty times as long as a training without them.
STRESSES = ("none",) * 89 + ("evict_after_every_op",) * 10 + ("discard_after_every_op",)
SHARES = (30, 40, 50, 65, 85)  # of the peak, in percent
IO_TIMEOUT_S = 1


@dataclass(frozen=True)
class Ending:
    name: str
    wrong: str | None = None
    faults: list = ()


@dataclass(frozen=True)
class Training:
    seed: int
    job: str
    scenario: str
    rate_scale: float  # fewer faults, so that more come late
    share: int
    host_limit_bytes: int
    stress: str
    plans_in_background: bool
    starts_early: bool  # the drives fail while the session opens, too
    checksum: bool
    death: tuple | None  # FaultyDrives.start()
    hang: tuple | None  # FaultyDrives.hang()
    faults: list | None = None  # these happen, instead of those that the seed brings

    @classmethod
    def of_seed(cls, seed):
        choose = random.Random(seed)
        job = choose.choice(list(catalogue.JOBS))
        scenario = choose.choice(list(SCENARIOS))
        least = catalogue.LEAST_SHARES.get(job, 0)
        shares = [share for share in SHARES if share >= least]
        drive = choose.randrange(DRIVE_COUNT)
        dies_at = choose.randrange(400)
        death = (drive, dies_at, dies_at + choose.choice((20, 200, 1 << 40)))
        direction = choose.choice((0, 1, 2))  # FaultyDrivesDirection
        hang = (drive, direction, choose.randrange(200), choose.choice((None, 1, 20, 100)))
        return cls(
            seed=seed,
            job=job,
            scenario=scenario,
            rate_scale=choose.choice((1, 0.2)),
            share=choose.choice(shares),
            host_limit_bytes=choose.choice((0, 0, 1 << 20, 4 << 20)),
            stress=choose.choice(STRESSES),
            plans_in_background=choose.random() < 0.2,
            starts_early=choose.random() < 0.1,
            checksum=SCENARIOS[scenario].lies,
            death=death if SCENARIOS[scenario].dies else None,
            hang=hang if SCENARIOS[scenario].hangs else None,
        )

    @classmethod
    def of_values(cls, values):
        """From what `values` returned, perhaps through JSON."""
        return cls(**values)

    def values(self):
        return dataclasses.asdict(self)

    def but(self, **changes):
        return dataclasses.replace(self, **changes)

    def __str__(self):
        return (
            f"seed {self.seed}: {self.job}, {self.scenario}, budget {self.share} % of the peak, "
            f"host {self.host_limit_bytes} bytes, stress {self.stress}"
        )

    def run(self, machine):
        """Returns the training's Ending."""
        expected = reference(self.job)
        machine.settle()
        drives = FaultyDrives()
        errors = []
        model = None
        outcome = None
        try:
            if self.starts_early:
                self._start(drives)
            with self._session(machine, expected.peak_bytes * self.share // 100):
                if not self.starts_early:
                    self._start(drives)
                try:
                    model = new_model(catalogue.JOBS[self.job])
                    outcome = train(catalogue.JOBS[self.job], model)
                except (RuntimeError, teraio.Error) as error:
                    errors.append(str(error))
        except (RuntimeError, teraio.Error) as error:
            errors.append(str(error))
        finally:
            fault_count = drives.stop()
        wrong = self._wrong(expected, outcome, errors, model) or _wrong_names(machine)
        name = "an error" if errors else "equal bits" + (", some faults" if fault_count else "")
        return Ending(name, wrong, drives.faults() if wrong else [])

    def _start(self, drives):
        if self.faults is None:
            rates = SCENARIOS[self.scenario].scaled_rates(self.rate_scale)
            drives.start(self.seed, rates, self.death)
        else:
            drives.repeat(self.seed, self.faults)
        if self.hang:
            drives.hang(*self.hang)

    def _session(self, machine, budget_bytes):
        os.environ["XDG_CACHE_HOME"] = str(machine.cache)
        return budgets.offload(
            budget_bytes,
            ssd=machine.drives,
            host_limit=self.host_limit_bytes,
            checksum=self.checksum,
            plans_in_background=self.plans_in_background,
            io_timeout=IO_TIMEOUT_S if self.hang else None,
            **({} if self.stress == "none" else {self.stress: True}),
        )

    def _wrong(self, expected, outcome, errors, model):
        if not errors:
            equal = outcome == expected.outcome
            return None if equal else "ends without an error, with other bits"
        if not SCENARIOS[self.scenario].may_fail:
            return f"an error although every request succeeds in the end: {errors}"
        return _wrong_errors(errors) or self._wrong_tensors(expected.states, model)

    def _wrong_tensors(self, states, model):
        for name, tensor in {} if model is None else model.state_dict().items():
            try:
                if tensor_hash(tensor) not in states[name]:
                    return f"{name} has bytes that it never had"
            except (RuntimeError, teraio.Error) as error:
                if not SCENARIOS[self.scenario].may_lose:
                    return f"{name} is lost although every read succeeds: {error}"
        return None


def _wrong_errors(errors):
    for error in errors:
        if not re.search(r"/drive\d|cannot leave", error):
            return f"the error names no drive: {error}"
    return None


def _wrong_names(machine):
    left = machine.left_behind()
    return f"left behind: {left}" if left else None
