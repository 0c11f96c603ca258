"""Fills pages of docs/ with values that are computed; the text around them is written by hand.

`<!-- NAME -->` on a line of its own, and a blank line, stand before a value that ends with the next
blank line, such as a table. Within a line, `<!-- NAME -->` and `<!-- / -->` stand around a value.
"""

import re

from evaluation import sweep, tables

_BLOCK = re.compile(r"^<!-- (\w+) -->\n\n(?:.+\n)+", re.MULTILINE)
_WORDS = re.compile(r"<!-- (\w+) -->[^<]*<!-- / -->")


def text_of(results, page):
    """Returns the text of the page, which is Markdown, with the values that the results give."""
    return filled(page, tables.values(results) | sweep.values(results))


def filled(page, values):
    """Returns the page with each value replaced by that of its name.

    Raises KeyError when a name has no value, or a value no name.
    """
    used = {*_BLOCK.findall(page), *_WORDS.findall(page)}
    if used != set(values):
        raise KeyError(f"not both in the page and in the results: {used ^ set(values)}")
    page = _BLOCK.sub(lambda found: f"<!-- {found[1]} -->\n\n{values[found[1]]}\n", page)
    return _WORDS.sub(lambda found: f"<!-- {found[1]} -->{values[found[1]]}<!-- / -->", page)
