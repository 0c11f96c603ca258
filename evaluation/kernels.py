"""Reduces the trace of a dry run to kernels before it is planned."""


def only_kernels(trace):
    """Returns the trace (the JSON value of a trace file) without ops that run no kernel.

    Two in five ops are views and allocations: they take no time and touch no byte, and the paper
    counts kernels. Tensors that no remaining op uses are left out, except for persistent ones.
    """
    ops = []
    for op in trace["ops"]:
        if op["duration_ns"] > 0:
            ops.append(dict(op))
        elif ops:
            ops[-1]["frees"] = ops[-1]["frees"] + op["frees"]
    return trace | _with_used_tensors(ops, trace["tensors"])


def _with_used_tensors(ops, tensors):
    used = {number for op in ops for number in (*op["reads"], *op["writes"])}
    kept = {tensor["id"] for tensor in tensors if tensor["persistent"] or tensor["id"] in used}
    for op in ops:
        op["frees"] = [number for number in op["frees"] if number in kept]
    return {"ops": ops, "tensors": [tensor for tensor in tensors if tensor["id"] in kept]}
