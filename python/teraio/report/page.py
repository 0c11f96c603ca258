"""The page: the template with its data, and Plotly's library inside."""

import json

import jinja2
from plotly.offline import get_plotlyjs

from teraio.report.figures.style import label
from teraio.report.summary import duration
from teraio.units import format_duration, format_size


def render(template, figures, **values):
    """Returns the page as text.

    Args:
        template: the name of the template in this package.
        figures: a dict from names to Plotly figures; those that are None are left out.
        values: what else the template uses.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("teraio.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "size": lambda size: format_size(round(size)),
        "duration": lambda seconds: duration(seconds) if seconds else "0",
        "duration_ns": lambda time_ns: format_duration(time_ns) if time_ns else "0",
        "setting": setting_text,
        "setting_name": setting_name,
        "share": lambda share: f"{100 * share:.1f} %",
        "kind": label,
    }
    drawn = {name: _script_json(figure) for name, figure in figures.items() if figure is not None}
    return environment.get_template(template).render(
        figures=drawn, plotly=_script(get_plotlyjs()), **values
    )


def setting_name(name):
    """The name of a field of run.json, as a person writes it."""
    return label(name.removesuffix("_bytes").removesuffix("_ns"))


def setting_text(value, name):
    """The value of run.json's field `name`, as a person writes it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value)
    if name.endswith("_bytes"):
        return format_size(value)
    return format_duration(value) if name.endswith("_ns") else value


def _script_json(figure):
    """The figure as JSON that may stand in a script element: "<" would end it early."""
    return _script(json.dumps(json.loads(figure.to_json())).replace("<", "\\u003c"))


def _script(text):
    """Text for a script element, in which the template must not escape anything."""
    from markupsafe import Markup

    return Markup(text)
