"""Which module of the model each op and each tensor of a trace belongs to.

A trace has the names of parameters, gradients and optimizer states. An op belongs to the module
whose parameter, gradient or state it touches. An op that touches none belongs to the module of the
op before it, and a tensor without a name to that of the op that first touches it.
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
        self.of_op = []
        self.of_tensor = dict(names)
        module = NONE
        for op in trace["ops"]:
            touched = {names[id] for id in (*op["reads"], *op["writes"]) if id in names}
            if touched:
                module = _common(touched)
            self.of_op.append(module)
            for tensor in (*op["writes"], *op["reads"]):
                self.of_tensor.setdefault(tensor, module)


def _module_of(tensor):
    parts = tensor["name"].split(".")
    return ".".join(parts[: -_PARTS_AFTER[tensor["kind"]]]) or MODEL


def _common(modules):
    """Returns the innermost module that contains all of them."""
    if len(modules) == 1:
        return next(iter(modules))
    split = [module.split(".") for module in modules]
    return ".".join(os.path.commonprefix(split)) or MANY
