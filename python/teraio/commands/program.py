"""A Python program that runs inside this process as `python` itself would run it."""

import builtins
import importlib.util
import io
import os
import runpy
import sys
import types
from importlib.machinery import SourceFileLoader

from teraio.errors import Error


class Program:
    """A script or module with its arguments.

    Args:
        words: the script's path or the module's name, then the arguments.
        is_module: whether the first word is a module's name, as after `python -m`.

    Attributes:
        path: the file of the script, of the module, or of the package that has the module. It may
            be None.

    Raises:
        teraio.Error: the script or module does not exist.
    """

    def __init__(self, words, is_module):
        self.name, *self.arguments = words
        self.is_module = is_module
        self.path = (_path_of_module if is_module else _path_of_script)(self.name)

    def run(self):
        """Runs the program to its end. What it raises passes through, SystemExit included.

        sys.argv, sys.path and `__main__` belong to the program from then on. They stay so after its
        end, for the functions that it has registered with atexit. The traceback of an uncaught
        exception begins in the program.
        """
        try:
            if self.is_module:
                self._run_module()
            else:
                self._run_script()
        except BaseException:
            _hide_launcher_from_traceback()
            raise

    def _run_module(self):
        sys.argv = ["-m", *self.arguments]
        _set_first_path(os.getcwd())
        _new_main_module()
        # `python -m` calls this function. The public run_module() removes `__main__` at the end.
        runpy._run_module_as_main(self.name)

    def _run_script(self):
        sys.argv = [self.name, *self.arguments]
        _set_first_path(os.path.dirname(os.path.realpath(self.name)))
        main = _new_main_module()
        main.__file__ = os.path.join(os.getcwd(), self.name)  # absolute, but not normalized
        main.__cached__ = None
        main.__loader__ = SourceFileLoader("__main__", main.__file__)
        with io.open_code(main.__file__) as file:
            source = file.read()
        exec(compile(source, main.__file__, "exec", dont_inherit=True), main.__dict__)


_RUNNERS = {Program._run_module.__code__, Program._run_script.__code__}


def _path_of_module(name):
    # Only the top-level package is checked: finding a submodule would execute the package's code.
    sys.path.insert(0, os.getcwd())
    try:
        spec = importlib.util.find_spec(name.partition(".")[0])
        if spec is None:
            raise Error(f"no module named {name}: run in the folder that has it, or install it")
        return spec.origin
    finally:
        sys.path.pop(0)


def _path_of_script(name):
    if os.path.isdir(name):
        raise Error(f"the script {name} is a directory: expected a Python file")
    if not os.path.exists(name):
        raise Error(f"the script {name} does not exist: expected a Python file after the options")
    if not os.access(name, os.R_OK):
        raise Error(f"the script {name} cannot be read: expected the permission to read it")
    return name


def _new_main_module():
    main = types.ModuleType("__main__")
    main.__builtins__ = builtins
    main.__annotations__ = {}
    sys.modules["__main__"] = main
    return main


def _set_first_path(directory):
    # With -P or PYTHONSAFEPATH the interpreter prepends no directory.
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = directory


def _hide_launcher_from_traceback():
    program_hook = sys.excepthook

    def hook(kind, error, trace):
        _trim(error)
        program_hook(kind, error, error.__traceback__)

    sys.excepthook = hook


def _trim(error):
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = _program_part(error.__traceback__)
        error = error.__cause__ or error.__context__


def _program_part(trace):
    frame = trace
    while frame is not None:
        if frame.tb_frame.f_code in _RUNNERS:
            return frame.tb_next
        frame = frame.tb_next
    return trace
