"""The command lines of the commands in Python, and checks of their options."""

import argparse
import gzip
import json
import sys
import tempfile
import zlib
from pathlib import Path

from teraio import verbosity
from teraio.errors import Error
from teraio.program import Program
from teraio.units import parse_seconds, parse_size

# Which tensors a plan may discard and make again.
RECOMPUTE_CHOICES = ("off", "cheap", "all")

# The limits of src/base/json_file.h.
_INFLATED_BYTES_FREE = 64 << 20
_INFLATION_MAX = 50


class _BeVerbose(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):
        verbosity.be_verbose()


class CommandParser(argparse.ArgumentParser):
    """A parser of `teraio NAME ...` that reports bad input in one line.

    With -v, which every command has, details follow.
    """

    def __init__(self, name, **options):
        super().__init__(prog=f"teraio {name}", allow_abbrev=False, **options)
        self.add_argument(
            "-v",
            "--verbose",
            action=_BeVerbose,
            nargs=0,
            help="tell the details of errors and warnings, also TERAIO_VERBOSE=1",
        )

    def error(self, message):
        """Ends the process with exit code 2 and the message in one line on stderr."""
        self.exit(2, f"{self.prog}: {message}\n")

    def failure(self, error, code):
        """Prints the error in one line on stderr, and returns the exit code `code`.

        In a verbose process, its causes and circumstances follow.
        """
        print(f"{self.prog}: {error}", file=sys.stderr)
        if verbosity.is_verbose():
            verbosity.print_circumstances(error)
        return code


class Parser(CommandParser):
    """A parser of `teraio NAME [options] (SCRIPT | -m MODULE) [ARGUMENT ...]`.

    `required` is the text of the required options in the usage.
    """

    def __init__(self, name, description, epilog, required=""):
        super().__init__(
            name,
            usage=f"teraio {name} {required}[options] (SCRIPT | -m MODULE) [ARGUMENT ...]",
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def add_limits(self, budget):
        """Adds --device-budget, whose help is `budget`, and --host-limit; see check_limits()."""
        host = "host memory to offload to (default: 0)"
        self.add_argument("--device-budget", metavar="SIZE", help=budget)
        self.add_argument("--host-limit", default="0", metavar="SIZE", help=host)

    def add_program(self):
        """Adds the words of the program's own command line, after all other options."""
        add = self.add_argument
        add("-m", dest="module", nargs=argparse.REMAINDER, help="run a module, as python -m does")
        add("script", nargs=argparse.REMAINDER, help="the training script and its arguments")


def program_words(options):
    """Returns the command line of the program as a list of strings.

    Raises:
        teraio.Error: it is empty.
    """
    words = options.module or options.script
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        raise Error("no script given: expected SCRIPT or -m MODULE after the options")
    return words


def program_of(options):
    """Returns the `Program` that the options name.

    Raises:
        teraio.Error: the options name no program, or one that does not exist.
    """
    return Program(program_words(options), is_module=bool(options.module))


def check_limits(options):
    """Checks the options of `Parser.add_limits()`.

    Raises:
        teraio.Error: the budget or the host limit is not a size, or the budget is 0.
    """
    budget = options.device_budget
    if budget is not None and check_size("--device-budget", budget, whole_bytes=10**15) == 0:
        raise Error("--device-budget is 0: no op can run without memory. Expected e.g. 8GB")
    check_size("--host-limit", options.host_limit)


def check_size(option, text, whole_bytes=0):
    """Returns the number of bytes of a size, as units.parse_size() does.

    Raises:
        teraio.Error: `text` is not a size. The message names `option`.
    """
    try:
        return parse_size(text, whole_bytes)
    except Error as error:
        raise Error(f"{option}: {error}") from None


def check_seconds(option, text):
    """Checks a number of seconds.

    Raises:
        teraio.Error: units.parse_seconds() does not accept `text`. The message names `option`.
    """
    try:
        parse_seconds(text)
    except Error as error:
        raise Error(f"{option}: {error}") from None


def check_output(option, path):
    """Checks that a file can be written at `path`, a `pathlib.Path`.

    Raises:
        teraio.Error: it cannot. The message names `option`.
    """
    if path.is_dir():
        raise Error(f"{option}: {path} is a directory, expected a file")
    if not path.parent.is_dir():
        raise Error(f"{option}: the directory {path.parent} does not exist: create it first")
    try:
        if path.exists():
            path.open("ab").close()
        if path.is_file() or not path.exists():  # replace_file() writes a file beside it first
            tempfile.TemporaryFile(dir=path.resolve().parent).close()
    except OSError as error:
        raise Error(f"{option}: {path} cannot be written: {error.strerror}") from None


def _inflated(path):
    limit_bytes = _INFLATED_BYTES_FREE + _INFLATION_MAX * path.stat().st_size
    with gzip.open(path) as file:
        text = file.read(limit_bytes + 1)
    if len(text) > limit_bytes:
        raise ValueError(
            f"expected at most {_INFLATION_MAX} times as much text as compressed data; "
            "decompress the file first if it is right"
        )
    return text


def read_json(path):
    """Returns the JSON object in a file, which is decompressed first if its name ends in .gz.

    Raises:
        teraio.Error: there is none. The message names the file.
    """
    path = Path(path)
    if not path.is_file():
        raise Error(f"{path} {'is not a file' if path.exists() else 'does not exist'}")
    try:
        value = json.loads(_inflated(path) if path.suffix == ".gz" else path.read_bytes())
    except (MemoryError, RecursionError):
        raise Error(f"{path} cannot be read: it does not fit into the memory") from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise Error(f"{path} cannot be read: {_reason(error)}") from None
    if not isinstance(value, dict):
        raise Error(f"{path}: expected a JSON object")
    return value


def _reason(error):
    if isinstance(error, json.JSONDecodeError):
        return f"expected JSON, found something else in line {error.lineno}"
    return getattr(error, "strerror", None) or error  # str() of an OSError repeats the path


def check_json(option, path, *expected_formats):
    """Checks that read_json() can read the file `path`.

    The object's field "format" must be one of `expected_formats`, if there are any.

    Raises:
        teraio.Error: it is not. The message names `option`.
    """
    try:
        value = read_json(path)
    except Error as error:
        raise Error(f"{option}: {error}") from None
    if expected_formats and value.get("format") not in expected_formats:
        names = " or ".join(f'"{name}"' for name in expected_formats)
        raise Error(f'{option}: {path}: field "format": expected {names}')
