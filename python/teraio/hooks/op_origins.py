"""Where an op of the program comes from: the module that runs it, and the line."""

import sys

from teraio.hooks.generated_lines import locations
from teraio.hooks.module_names import ModuleNames
from teraio.hooks.source_location import is_of_program, path_in_torch, short_path

_MODULE_CALL = (path_in_torch("nn/modules/module.py"), "_call_impl")
_OPTIMIZERS = path_in_torch("optim/")
names = ModuleNames()


def origin_of_op():
    """Returns a pair of texts: ("layers.0.mlp", "model.py:31") for an op that this module runs.

    The line is the innermost one outside of torch. An op of an optimizer comes from ("AdamW",
    "train.py:40"). A text is empty where there is no module, or no Python code.
    """
    module = line = ""
    frame = sys._getframe(1)
    while frame is not None and not (module and line):
        code = frame.f_code
        line = line or _line_of_program(frame)
        if not module and (code.co_filename, code.co_name) == _MODULE_CALL:
            module = names.name_of(frame.f_locals["self"])
        if not module and code.co_name == "step" and code.co_filename.startswith(_OPTIMIZERS):
            module = type(frame.f_locals["self"]).__name__
        frame = frame.f_back
    return module, line


def _line_of_program(frame):
    for path, number, _ in locations(frame):
        if is_of_program(path):
            return f"{short_path(path)}:{number}"
    return ""
