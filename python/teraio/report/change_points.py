"""Step-wise functions of time, reduced to so many values that a page stays small.

A function is a list of times at which it changes. While there are few, the result is exact; else
neighbouring times are joined, more of them where there are more.
"""

import numpy


def edges(times, start, end, limit):
    """Returns `start`, at most `limit` of the times between, and `end`, in order.

    Args:
        times: an array, in any order.
    """
    times = numpy.unique(numpy.concatenate([times, [start, end]]))
    times = times[(times >= start) & (times <= end)]
    if len(times) > limit:
        times = times[numpy.linspace(0, len(times) - 1, limit).round().astype(int)]
    return times


def level(times, changes):
    """Returns (times, values) of a sum of changes, with each time once and in order.

    Args:
        times: an array of times, in any order. changes: what the sum changes by at each.
    """
    unique, places = numpy.unique(times, return_inverse=True)
    return unique, numpy.cumsum(numpy.bincount(places, weights=changes, minlength=len(unique)))


def means(at, starts, ends, heights):
    """Returns the mean, between each two neighbours of `at`, of a sum of rectangles.

    Args:
        at: an array of times in order. starts, ends, heights: arrays, one value per rectangle.
    """
    if len(starts) == 0:
        return numpy.zeros(len(at) - 1)
    times = numpy.concatenate([starts, ends])
    times, values = level(times, numpy.concatenate([heights, numpy.negative(heights)]))
    integrals = numpy.concatenate([[0], numpy.cumsum(values[:-1] * numpy.diff(times))])
    return numpy.diff(numpy.interp(at, times, integrals)) / numpy.diff(at)


def peaks(levels, limit):
    """Reduces several levels at the same times to the moments at which their sum is highest.

    Args:
        levels: an array of shape [level, time].
        limit: how many moments to keep.

    Returns:
        The indices of the moments in order: the first one, and the highest of each group of
        neighbours.
    """
    total = levels.sum(axis=0)
    if len(total) <= limit:
        return numpy.arange(len(total))
    groups = numpy.array_split(numpy.arange(len(total)), limit - 1)
    return numpy.unique([0, *(group[total[group].argmax()] for group in groups)])
