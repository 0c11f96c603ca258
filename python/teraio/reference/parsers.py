"""One argparse parser with all subcommands of `teraio`, those in C++ among them."""

import argparse
import json
import subprocess

from teraio.commands import COMMANDS
from teraio.errors import Error
from teraio.files.native_command import command_path


def described_commands():
    """Returns the object that the C++ command prints about itself; see cli/help.h.

    Raises:
        teraio.Error: the C++ command cannot be executed.
    """
    command = [command_path(), "--describe"]
    try:
        described = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise Error(f"the options of the commands cannot be read: {error}") from None
    return json.loads(described.stdout)


def whole_parser(described):
    """Returns a parser of `teraio` whose subcommands are all commands."""
    parser = argparse.ArgumentParser("teraio", description=described["description"])
    _add_options(parser, described["options"])
    names = parser.add_subparsers(parser_class=argparse.ArgumentParser)
    for command in described["commands"]:
        name = command["name"]
        parent = COMMANDS[name].parser() if name in COMMANDS else _native_parser(command)
        names.add_parser(name, help=command["description"], parents=[parent], add_help=False)
    return parser


def _native_parser(command):
    parser = argparse.ArgumentParser(
        f"teraio {command['name']}",
        usage=command["usage"].replace("%", "%%"),
        description=command["description"],
        epilog=command["footer"] or None,
    )
    _add_options(parser, command["options"])
    return parser


def _add_options(parser, options):
    for option in options:
        names = [*option["names"], option["positional"]]
        positional, named = names[-1:], names[:-1]
        for each in (named, positional):
            if any(each):
                parser.add_argument(*each, **_argument(option, is_named=each is named))


def _argument(option, is_named):
    """Returns what describes an option, or a positional argument, to add_argument()."""
    argument = {"help": option["help"].replace("%", "%%")}
    if is_named and not option["value"]:
        return argument | {"action": "store_true"}
    if option["repeats"]:
        argument["nargs"] = "*"
    if option["value"].startswith("{"):
        return argument | {"choices": option["value"].strip("{}").split(",")}
    return argument | {"metavar": option["value"]}
