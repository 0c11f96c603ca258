"""The peak of a trace that is read from its file."""


def peak_bytes(trace):
    """The most that is alive at an op, what it holds only while it runs included."""
    sizes = {tensor["id"]: tensor["bytes"] for tensor in trace["tensors"]}
    alive = {tensor["id"] for tensor in trace["tensors"] if tensor["persistent"]}
    peak = 0
    for op in trace["ops"]:
        alive |= {*op["reads"], *op["writes"]}
        peak = max(peak, sum(sizes[number] for number in alive) + op["workspace_bytes"])
        alive -= set(op["frees"])
    return peak
