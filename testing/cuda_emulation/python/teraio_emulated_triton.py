"""Triton's kernels on the emulated GPU: Triton's own interpreter runs them on the host.

With TRITON_INTERPRET=1, Inductor compiles no kernel and calls the interpreter, which copies the
operands to the host and the results back. What it needs besides and finds on machines with a GPU
only is here: a driver that tells the architecture, and the functions of libdevice.
"""

import dataclasses
import functools

import torch

_CAPABILITY = 90
_BLOCK_ELEMENTS_BITS = 18


class _Driver:
    @staticmethod
    def is_active():
        return True

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", _CAPABILITY, 32)

    def get_current_device(self):
        return torch.cuda.current_device()

    def get_current_stream(self, device):
        return torch.cuda.current_stream(device).cuda_stream

    def get_device_interface(self):
        return torch.cuda


class _Libdevice:
    """Functions of Triton's language by their names in libdevice."""

    @staticmethod
    def pow(base, exponent):
        from triton import language

        return language.exp(language.log(base) * exponent)  # bases are positive here

    def __getattr__(self, name):
        from triton import language

        # Found at the call: the interpreter replaces them while a kernel runs.
        return lambda *arguments: getattr(language, name)(*arguments)


def _index(bound):
    # The interpreter's scalars are arrays of one element, which NumPy takes for no integer.
    return bound.handle.data.item() if hasattr(bound, "handle") else int(bound)


def _range(*bounds):
    return range(*map(_index, bounds))


def _with_large_blocks(interpret):
    """The interpreter takes milliseconds for each block of a kernel, whatever its size.

    Kernels have no masks where their length is a multiple of the largest block of TRITON_MAX_BLOCK.
    """
    from torch._inductor.runtime.hints import TRITON_MAX_BLOCK

    @functools.wraps(interpret)
    def interpret_in_large_blocks(autotuner, arguments, config):
        free_bits = _BLOCK_ELEMENTS_BITS
        for prefix, count in sorted((autotuner.size_hints or {}).items()):  # reductions first
            largest = TRITON_MAX_BLOCK[prefix.upper()]
            bits = min((count - 1).bit_length(), largest.bit_length() - 1, free_bits)
            free_bits -= bits
            if (block := f"{prefix.upper()}BLOCK") in config.kwargs:
                config.kwargs[block] = 1 << bits
        return interpret(autotuner, arguments, config)

    return interpret_in_large_blocks


def install():
    from torch._inductor.runtime import triton_helpers
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    from triton import backends
    from triton.runtime import driver, interpreter

    backends.backends["nvidia"] = dataclasses.replace(backends.backends["nvidia"], driver=_Driver)
    driver.set_active(_Driver())
    interpreter.range = _range
    triton_helpers.libdevice = _Libdevice()
    CachingAutotuner._interpret_args_grid = _with_large_blocks(
        CachingAutotuner._interpret_args_grid
    )
