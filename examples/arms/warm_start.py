"""Runs a script after MKL has chosen its vector kernels: `warm_start.py SCRIPT ARGS...`

The vector functions of MKL choose a kernel on their first call. When two threads make that call at
the same time, one of them can get a kernel of lower precision (pytorch/pytorch#188792), and two
equal runs of stock PyTorch then differ. Every arm therefore calls each function once on one thread
first: tensors this small are never split over threads.
"""

import runpy
import sys
from pathlib import Path

import torch

FUNCTIONS = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc erfinv exp exp2 expm1 floor lgamma"
    " log log10 log1p log2 reciprocal round rsqrt sigmoid sin sinh sqrt tan tanh trunc"
).split()
DTYPES = (torch.float32, torch.float64, torch.complex64)


def settle_kernels() -> None:
    for dtype in DTYPES:
        values = torch.full((64,), 0.5, dtype=dtype)
        for name in FUNCTIONS:
            try:
                getattr(torch, name)(values)
            except (RuntimeError, NotImplementedError):
                pass  # the function has no complex version
        values.pow(values)


def main() -> None:
    settle_kernels()
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
