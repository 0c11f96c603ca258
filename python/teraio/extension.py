"""Which extension module serves the PyTorch that is here.

PyTorch's C++ interface changes with every minor version. An extension that was built for another
version would crash or, worse, misread memory.
"""

import importlib
import re

from teraio._build_info import EXTENSIONS


def load():
    """Imports torch, and returns the compiled extension that serves it.

    What runs while torch is imported may call it, too: `teraio.core` is not complete then.

    Raises:
        ImportError: no extension serves the PyTorch that is here.
    """
    import torch.version

    name = extension_for(torch.__version__, torch.version.cuda, EXTENSIONS)
    return importlib.import_module(f"teraio.{name}._C")


def extension_for(torch_version, cuda_version, built):
    """Returns the name of the extension in `built` that serves a PyTorch.

    Where there are two for its minor version, the one for its CUDA is chosen.

    Args:
        torch_version: `torch.__version__`, such as "2.11.0+cu130".
        cuda_version: `torch.version.cuda`, such as "13.0", or None.
        built: names such as "torch_2_11_cuda13" and "torch_2_11", the latter for any PyTorch 2.11.

    Raises:
        ImportError: none of them serves it.
    """
    name = "torch_" + "_".join(torch_version.split(".")[:2])
    with_cuda = f"{name}_cuda{(cuda_version or '').split('.')[0]}"
    for candidate in (with_cuda, name):
        if candidate in built:
            return candidate
    found = torch_version + (f" with CUDA {cuda_version}" if cuda_version else " without CUDA")
    served = ", ".join(_described(name) for name in built)
    raise ImportError(
        f"teraio was built for PyTorch {served} and this is {found}: install one of these, or "
        "build teraio for this one with: pip install --no-build-isolation --force-reinstall "
        "--no-deps teraio's directory"
    )


def _described(name):
    """Returns "2.11 with CUDA 13" for "torch_2_11_cuda13"."""
    version, _, cuda = re.fullmatch(r"torch_(\d+_\d+)(_cuda(\d+))?", name).groups()
    return version.replace("_", ".") + (f" with CUDA {cuda}" if cuda else "")
