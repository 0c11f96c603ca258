"""How often CUDA is called for an operator that follows its plan."""

import json

# Prints the calls of CUDA for each kind of call of PyTorch, where there are any.
CALLS = """
import ctypes, json
import teraio
import torch

CALLS = ["cudaStreamIsCapturing", "cudaStreamGetCaptureInfo", "cudaEventRecord", "cudaEventQuery",
         "cudaEventSynchronize", "cudaStreamWaitEvent", "cudaMemcpyAsync", "cudaMalloc", "cuMemMap"]
COUNT = 50
runtime = ctypes.CDLL("libcudart.so.13")
small, large = torch.ones(4, 4, device="cuda"), torch.ones(1 << 20, device="cuda")
KINDS = {
    "in place": lambda: small.add_(small),
    "a small result": lambda: small * small,
    "a managed result": lambda: large * large,
    "calls others": lambda: torch.nn.functional.linear(small, small),
}
parameter = torch.zeros(4, device="cuda", requires_grad=True)
optimizer = torch.optim.SGD([parameter])

def counts():
    return {name: runtime.cudaEmulatedCalls(name.encode()) for name in CALLS}

def iteration():
    for kind, call in KINDS.items():
        before = counts()
        for _ in range(COUNT):
            call()
        calls = {name: (count - before[name]) / COUNT for name, count in counts().items()}
        yield kind, {name: count for name, count in calls.items() if count}
    parameter.grad = torch.ones(4, device="cuda")  # a step that updates nothing ends no iteration
    optimizer.step()

tiers = {"ssd": False, "ssd_capacity": 0, "host_limit": "64MB"}
with teraio.offload("1GB", device="cuda", **tiers) as session:
    for _ in range(8):
        calls = dict(iteration())
    print(session.iterations()[-1]["mode"])
    print(json.dumps(calls))
"""


def test_an_operator_asks_once_whether_it_is_captured(program):
    mode, calls = program(CALLS)
    assert mode == "planned"
    for kind, counts in json.loads(calls).items():
        assert counts == {"cudaStreamIsCapturing": 1}, kind
