"""The least device budget with which a script runs, by a trial: a dry run of its first steps."""

import shlex
from dataclasses import dataclass

from teraio.dry_run.options import dry_run_of
from teraio.dry_run.summary import assumptions
from teraio.errors import Error
from teraio.suggest.suggestion import run_command
from teraio.units import format_size

# What a run needs beyond the tensors of its largest op and those that stay: a plan leaves a
# hundredth of the budget free, blocks are whole pages, and the workspaces of small ops are not
# measured.
_ROOM = 1.05
_ROOM_BYTES = 32 << 10


@dataclass(frozen=True)
class LeastBudget:
    """A device budget that suffices for the first steps of a script."""

    size_bytes: int
    has_guessed_size: bool  # of results that depend on data
    assumptions: list  # of lines
    command: list  # of words

    def text(self):
        """Returns the budget with what it depends on, and the command line."""
        lines = [
            f"\nleast device budget  {format_size(self.size_bytes)}: the first steps run with it, "
            "and more is faster",
            *self.assumptions,
            "\nRun it with:",
            f"  {shlex.join(self.command)}",
        ]
        return "\n".join(lines)

    def to_json(self):
        """Returns the budget as a JSON object."""
        return {
            "least_device_budget_bytes": self.size_bytes,
            "has_guessed_size": self.has_guessed_size,
            "assumptions": self.assumptions,
            "command": self.command,
        }


def find_least_budget(program, options):
    """Runs a `Program` on fake tensors and returns its `LeastBudget`.

    Args:
        program: the program, whose exceptions pass through.
        options: the checked options of `teraio suggest`.

    Raises:
        teraio.Error: a dry run cannot execute the program.
    """
    run = dry_run_of(options, options.device.accelerator, is_trial=True)
    run.execute(program)
    if run.unmovable_peak_bytes == 0:
        raise Error("the script executes no op")
    size_bytes = int(_ROOM * run.unmovable_peak_bytes) + _ROOM_BYTES
    command = run_command(options, options.device.name) + ["--device-budget", str(size_bytes)]
    guessed = run.value_policy.has_guessed_size
    return LeastBudget(size_bytes, guessed, assumptions(run), command + options.words)
