"""What the commands that run a script have in common on their command lines."""

import argparse
import gzip
import json
import sys
import tempfile
import zlib
from pathlib import Path

from teraio.errors import Error
from teraio.program import Program
from teraio.units import parse_size


class Parser(argparse.ArgumentParser):
    """The command line `teraio NAME [options] (SCRIPT | -m MODULE) [ARGUMENT ...]`.

    `required`: the options that the usage names. Refuses bad input in one line.
    """

    def __init__(self, name, description, epilog, required=""):
        super().__init__(
            prog=f"teraio {name}",
            usage=f"teraio {name} {required}[options] (SCRIPT | -m MODULE) [ARGUMENT ...]",
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def add_limits(self, budget):
        """--device-budget, which `budget` tells about, and --host-limit, for check_limits()."""
        host = "host memory to offload to (default: 0)"
        self.add_argument("--device-budget", metavar="SIZE", help=budget)
        self.add_argument("--host-limit", default="0", metavar="SIZE", help=host)

    def parse(self, arguments):
        """The options, the program's words after them. Ends the process with 2 for bad input."""
        add = self.add_argument
        add("-m", dest="module", nargs=argparse.REMAINDER, help="run a module, as python -m does")
        add("script", nargs=argparse.REMAINDER, help="the training script and its arguments")
        return self.parse_args(arguments)

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")

    def failure(self, error, code):
        """Tells the error in one line; gives the code."""
        print(f"{self.prog}: {error}", file=sys.stderr)
        return code


def program_words(options):
    """The program's words. Raises teraio.Error when there are none."""
    words = options.module or options.script
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        raise Error("no script given: expected SCRIPT or -m MODULE after the options")
    return words


def program_of(options):
    """The program that they name. Raises teraio.Error when there is none."""
    return Program(program_words(options), is_module=bool(options.module))


def check_limits(options):
    """Raises teraio.Error for sizes that are none, and for a budget of nothing."""
    budget = options.device_budget
    if budget is not None and check_size("--device-budget", budget, whole_bytes=10**15) == 0:
        raise Error("--device-budget is 0: no op can run without memory")
    check_size("--host-limit", options.host_limit)


def check_size(option, text, whole_bytes=0):
    """Its bytes. Raises teraio.Error when it is no size."""
    try:
        return parse_size(text, whole_bytes)
    except Error as error:
        raise Error(f"{option}: {error}") from None


def check_output(option, path):
    """Raises teraio.Error when no file can be written at `path`."""
    if path.is_dir():
        raise Error(f"{option}: {path} is a directory, expected a file")
    if not path.parent.is_dir():
        raise Error(f"{option}: the directory {path.parent} does not exist")
    try:
        if path.exists():
            path.open("ab").close()
        if path.is_file() or not path.exists():  # it is replaced as a whole
            tempfile.TemporaryFile(dir=path.resolve().parent).close()
    except OSError as error:
        raise Error(f"{option}: {path} cannot be written: {error.strerror}") from None


def check_json(option, path, expected_format=None):
    """Raises teraio.Error when it is no JSON object, plain or gzip, of the format."""
    path = Path(path)
    if not path.is_file():
        raise Error(f"{option}: {path} {'is not a file' if path.exists() else 'does not exist'}")
    try:
        data = path.read_bytes()
        value = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise Error(f"{option}: {path} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise Error(f"{option}: {path}: expected a JSON object")
    if expected_format and value.get("format") != expected_format:
        raise Error(f'{option}: {path}: field "format": expected "{expected_format}"')
