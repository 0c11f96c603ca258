"""Fills evaluation.template.md, whose {{names}} are the keys of tables.values."""

import re
from pathlib import Path

from evaluation import sweep, tables

TEMPLATE = Path(__file__).with_name("evaluation.template.md")

_NAME = re.compile(r"\{\{(\w+)\}\}")


def text_of(results, images):
    """Returns the document in Markdown; `images` is the relative path to its figures."""
    return filled(
        TEMPLATE.read_text(),
        tables.values(results) | sweep.values(results) | {"images": str(images)},
    )


def filled(template, values):
    """Returns the template with each {{name}} replaced by its value.

    Raises KeyError when a name has no value, or a value no name.
    """
    used = set(_NAME.findall(template))
    if used != set(values):
        raise KeyError(f"not both in the template and in the results: {used ^ set(values)}")
    return _NAME.sub(lambda name: values[name.group(1)], template)
