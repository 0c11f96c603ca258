"""The subcommands of `teraio` that are written in Python."""

from dataclasses import dataclass
from importlib import import_module


@dataclass(frozen=True)
class Command:
    """A subcommand. Its module is imported when it is needed."""

    module: str
    function: str

    def execute(self, arguments):
        """Executes the command with the words after its name, and returns the exit code."""
        return getattr(import_module(self.module), self.function)(arguments)

    def parser(self):
        """Returns the `argparse.ArgumentParser` of the command's words."""
        return import_module(self.module).command_parser()


COMMANDS = {
    "run": Command("teraio.commands.run", "run"),
    "suggest": Command("teraio.commands.suggest", "suggest"),
    "dry-run": Command("teraio.commands.dry_run", "dry_run"),
    "report": Command("teraio.commands.report", "report"),
    "merge-timelines": Command("teraio.commands.merge_timelines", "merge"),
    "top": Command("teraio.commands.top", "top"),
    "completion": Command("teraio.reference.completion", "completion"),
}
