"""Which module of the model each op and each tensor of a trace belongs to.

A trace has the names of parameters, gradients and optimizer states, and of other tensors the module
and the line that made them. An op belongs to the module whose parameter, gradient or state it
touches, else to the one that its name says to have made its results, else to that of the op before
it. A tensor without a module in its name belongs to that of the op that first touches it.
"""

import os

MANY = "(several modules)"
NONE = "(no module)"
MODEL = "(the model itself)"

# How many parts of a name follow the module's: "0.up.weight", "0.up.weight.grad".
_PARTS_AFTER = {"parameter": 1, "gradient": 2, "optimizer_state": 2}


class Modules:
    """`of_op` is a list with the module of each op, `of_tensor` a dict from ids to modules."""

    def __init__(self, trace):
        names = {
            each["id"]: _module_of(each)
            for each in trace["tensors"]
            if each["kind"] in _PARTS_AFTER and each.get("name")
        }
        made_by = {each["id"]: module for each in trace["tensors"] if (module := _maker_of(each))}
        self.of_op = []
        self.of_tensor = made_by | names
        module = NONE
        for op in trace["ops"]:
            touched = {names[id] for id in (*op["reads"], *op["writes"]) if id in names}
            touched = touched or {made_by[id] for id in op["writes"] if id in made_by}
            if touched:
                module = _common(touched)
            self.of_op.append(module)
            for tensor in (*op["writes"], *op["reads"]):
                self.of_tensor.setdefault(tensor, module)


def _module_of(tensor):
    parts = tensor["name"].split(".")
    return ".".join(parts[: -_PARTS_AFTER[tensor["kind"]]]) or MODEL


def _maker_of(tensor):
    """Returns the module in a name such as "layers.0.mlp backward (model.py:31)", or ""."""
    if tensor["kind"] in _PARTS_AFTER:
        return ""
    made_by, bracket, _ = tensor.get("name", "").partition(" (")
    return made_by.removesuffix("backward").rstrip() if bracket else ""


def _common(modules):
    """Returns the innermost module that contains all of them."""
    if len(modules) == 1:
        return next(iter(modules))
    split = [module.split(".") for module in modules]
    return ".".join(os.path.commonprefix(split)) or MANY
