"""Lines of the programs that Inductor generates, and the lines of the model that they come from."""

import sys

_CACHE = "torch._inductor.codecache"


def locations(frame):
    """Returns where a frame of Python code is executed, as tuples of path, line and function.

    A frame in a generated program is where the model has what the line computes: the innermost
    location first, and none when Inductor does not tell. Any other frame has one location.
    """
    path, line = frame.f_code.co_filename, frame.f_lineno
    cache = sys.modules.get(_CACHE)
    if cache is None or path not in cache.PyCodeCache.linemaps:
        return [(path, line, frame.f_code.co_qualname)]
    known = cache.PyCodeCache.stack_frames_for_code(path, line) or []
    return [(each["filename"], each["line"], each["name"]) for each in known]
