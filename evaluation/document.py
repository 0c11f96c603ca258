"""Fills evaluation.template.md: its {{names}} are the keys of tables.values()."""

import re
from pathlib import Path

from evaluation import tables

TEMPLATE = Path(__file__).with_name("evaluation.template.md")

_NAME = re.compile(r"\{\{(\w+)\}\}")


def text_of(results, images):
    return filled(TEMPLATE.read_text(), tables.values(results) | {"images": str(images)})


def filled(template, values):
    """The template with each {{name}} replaced; raises for a name without value, or unused."""
    used = set(_NAME.findall(template))
    if used != set(values):
        raise KeyError(f"not both in the template and in the results: {used ^ set(values)}")
    return _NAME.sub(lambda name: values[name.group(1)], template)
