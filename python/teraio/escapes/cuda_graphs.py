"""CUDA graphs that are captured outside of a session.

A graph repeats its kernels with the addresses of the capture. From `import teraio` on, the tensors
that a capture uses are noted, and sessions keep them in place
(pytorch/storages/captured_storages.h). In a session the observer sees captures anyway.
"""

import functools
import threading

from teraio.hooks.import_hooks import PostImportHook

_this_thread = threading.local()


def _begin():
    from teraio import core

    if not hasattr(_this_thread, "were_observed"):
        _this_thread.were_observed = []  # before each capture that is under way
    _this_thread.were_observed.append(core.is_this_thread_observed())
    core.observe_this_thread(True)
    core.note_captures(True)


def _end():
    from teraio import core

    if not getattr(_this_thread, "were_observed", None):
        return
    core.note_captures(False)
    core.observe_this_thread(_this_thread.were_observed.pop())


def _beginning(method):
    @functools.wraps(method)
    def wrapper(self, *args, **kwargs):
        import teraio.core  # noqa: F401 (not while a graph is captured)

        result = method(self, *args, **kwargs)
        _begin()
        return result

    return wrapper


def _ending(method):
    @functools.wraps(method)
    def wrapper(self, *args, **kwargs):
        _end()
        return method(self, *args, **kwargs)

    return wrapper


def _patch(torch):
    graph = torch.cuda.CUDAGraph
    graph.capture_begin = _beginning(graph.capture_begin)
    graph.capture_end = _ending(graph.capture_end)


_import_hook = PostImportHook(["torch"], _patch)


def install():
    """Notes captures from now on, or from the import of torch on if that comes later."""
    _import_hook.install()
