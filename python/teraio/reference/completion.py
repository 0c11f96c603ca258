"""The command `teraio completion`: prints the script that completes words in a shell."""

import re

from teraio.commands.arguments import CommandParser
from teraio.errors import Error
from teraio.reference.parsers import described_commands, whole_parser

SHELLS = ("bash", "zsh", "fish")
_EPILOG = """\
bash: eval "$(teraio completion bash)" in ~/.bashrc; zsh: eval "$(teraio completion zsh)" in
~/.zshrc, after compinit; fish: teraio completion fish | source in ~/.config/fish/config.fish.
"""


def command_parser():
    parser = CommandParser(
        "completion",
        description="Prints a script that completes the commands, options, choices and files of "
        "`teraio` in a shell.",
        epilog=_EPILOG,
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    return parser


def completion(arguments):
    """Executes `teraio completion` and returns its exit code.

    Args:
        arguments: the words of the command line after `completion`.
    """
    parser = command_parser()
    options = parser.parse_args(arguments)
    try:
        print(completion_script(described_commands(), options.shell))
    except (Error, ImportError) as error:
        return parser.failure(error, 1)
    return 0


def completion_script(described, shell):
    """Returns the script for a shell of SHELLS, which starts no other program when it completes."""
    import shtab

    parser = whole_parser(described)
    _complete_paths(parser, shtab)
    return shtab.complete(parser, shell)


def _complete_paths(parser, shtab):
    """Marks the arguments that are files or directories, which their metavars tell."""
    for action in parser._actions:  # argparse has no public list of them
        if isinstance(action.choices, dict):
            for command in action.choices.values():
                _complete_paths(command, shtab)
        kinds = re.split(r"[ |]+", str(action.metavar or action.dest))
        if "FILE" in kinds or "script" in kinds:
            action.complete = shtab.FILE
        elif "DIR" in kinds:
            action.complete = shtab.DIRECTORY
