"""Gives a trace the times of another device, or of another precision of its matrix products."""

from dataclasses import dataclass

_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::linear", "aten::matmul")
_ATTENTION = "scaled_dot_product"


@dataclass(frozen=True)
class Rates:
    """What ops reach on a device: FLOP/s of products and of attention, and bytes/s of the rest."""

    products: float
    attention: float
    memory: float
    kernel_ns: int

    @classmethod
    def of(cls, device, products, attention):
        """Returns the rates of an accelerator, in the precisions of products and of attention."""
        return cls(
            device.flops_per_second[products] * device.efficiency["matmul"],
            device.flops_per_second[attention] * device.efficiency["attention"],
            device.memory_bytes_per_second * device.efficiency["memory"],
            device.kernel_ns,
        )


def retimed(trace, given, wanted):
    """Returns the trace (the JSON value of a trace file), whose times are of the rates `given`.

    A product takes as long as the wanted rate needs for its work, and at least as long as the
    memory needs for its tensors. This is the roofline of a dry run where the memory limits no more
    ops at the wanted rates than at the given ones.
    """
    by_products = given.products / wanted.products
    by_attention = given.attention / wanted.attention
    by_memory = given.memory / wanted.memory
    sizes = {tensor["id"]: tensor["bytes"] for tensor in trace["tensors"]}

    def duration_ns(op):
        if op["name"] in _PRODUCTS:
            tensors_ns = sum(sizes[n] for n in (*op["reads"], *op["writes"])) / wanted.memory * 1e9
            # An op that reads a part of a tensor was not limited by all of it.
            memory_ns = min(tensors_ns, op["duration_ns"] * by_memory)
            longest = max(op["duration_ns"] * by_products, memory_ns)
        elif _ATTENTION in op["name"]:
            longest = op["duration_ns"] * by_attention
        else:
            longest = op["duration_ns"] * by_memory
        return round(max(longest, wanted.kernel_ns))

    return trace | {"ops": [op | {"duration_ns": duration_ns(op)} for op in trace["ops"]]}
