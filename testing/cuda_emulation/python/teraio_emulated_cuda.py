"""`import torch` loads this by itself: an entry point of torch.backends, in PYTHONPATH."""

import os


def load():
    library = os.environ.get("TERAIO_EMULATED_CUDA_OPERATORS")
    if not library:
        return
    import torch

    torch.ops.load_library(library)
    torch.ops.teraio_emulated_cuda.install()
    torch._C._jit_set_texpr_fuser_enabled(False)  # it would compile kernels
    if os.environ.get("TRITON_INTERPRET") == "1":
        import teraio_emulated_triton

        teraio_emulated_triton.install()
