"""Manual pages: one about `teraio`, and one about each subcommand."""

import os
import re
import textwrap
import time
from argparse import SUPPRESS

from jinja2 import Environment, PackageLoader, StrictUndefined

from teraio import __version__
from teraio.reference.parsers import command_parsers

_LINE_WIDTH = 76


def manual_pages(described):
    """Returns the texts of all pages, in the language man(7), by the names of their files.

    Args:
        described: what `described_commands()` returns.
    """
    pages = Environment(
        loader=PackageLoader("teraio.reference", "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    pages.filters |= {"filled": _filled, "escaped": _escaped}
    page = pages.get_template("manual_page.1.j2")
    shared = {"version": __version__, "date": _date(), "commands": described["commands"]}
    parsers = command_parsers(described)
    texts = {"teraio.1": page.render(_content_of_teraio(described), **shared)}
    for command in described["commands"]:
        name = command["name"]
        texts[f"teraio-{name}.1"] = page.render(_content(command, parsers[name]), **shared)
    return texts


def _content_of_teraio(described):
    options = [
        {"synopsis": ", ".join(option["names"]), "value": option["value"], "help": option["help"]}
        for option in described["options"]
    ]
    return {
        "name": "teraio",
        "purpose": described["description"].rstrip("."),
        "usage": "COMMAND [OPTIONS]",
        "paragraphs": [described["footer"]],
        "options": options,
        "lists_commands": True,
    }


def _content(command, parser):
    usage = " ".join(parser.format_usage().split()).removeprefix("usage: ")
    paragraphs = [parser.description or "", *re.split(r"\n\s*\n", parser.epilog or "")]
    return {
        "name": f"teraio-{command['name']}",
        "purpose": command["description"],
        "usage": re.sub(rf"^(Usage: )?{re.escape(parser.prog)} ?", "", usage),
        "paragraphs": [each for each in paragraphs if each.strip()],
        "options": [_option(parser, action) for action in parser._actions if _is_shown(action)],
        "lists_commands": False,
    }


def _is_shown(action):
    return action.help != SUPPRESS and "--help" not in action.option_strings


def _option(parser, action):
    """Returns the names of an option, the name of its value, and its help."""
    expanded = parser._get_formatter()._expand_help(action) if action.help else ""
    choices = "{" + ",".join(action.choices) + "}" if action.choices else ""
    value = choices or action.metavar or ("" if action.nargs == 0 else action.dest.upper())
    if action.option_strings:
        return {"synopsis": ", ".join(action.option_strings), "value": value, "help": expanded}
    return {"synopsis": "", "value": value, "help": expanded}


def _date():
    """Returns today, or the day that $SOURCE_DATE_EPOCH tells for a build that can be repeated."""
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def _escaped(text):
    return text.replace("\\", "\\e").replace("-", "\\-")


def _filled(text):
    """Returns a paragraph as lines of man(7) that begin with no request and are not too long."""
    lines = textwrap.wrap(text, _LINE_WIDTH, break_on_hyphens=False, break_long_words=False)
    return "\n".join(re.sub(r"^(?=[.'])", r"\\&", _escaped(line)) for line in lines)
