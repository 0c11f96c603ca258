"""What the project asks of its files: each rule a function that gives complaints, one line each."""

import re

# What a layer of src/ may include of ours, directly; through those, also what they may include.
LAYERS = {
    "base": [],
    "trace": ["base"],
    "hardware": ["base"],
    "plan": ["trace", "hardware"],
    "simulate": ["plan"],
    "planner": ["simulate"],
    "analysis": ["planner"],
    "device": ["base"],
    "drives": ["base"],
    "io": ["device"],
    "storage": ["io", "drives"],
    "probe": ["storage"],
    "engine": ["plan", "storage"],
}

FRAMEWORK_HEADERS = ("torch", "ATen", "c10", "caffe2", "pybind11", "Python.h")
LINES_MAX = 600

_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)


def allowed_layers(layer):
    """The layers that files of `layer` may include, itself among them."""
    allowed = {layer}
    for below in LAYERS[layer]:
        allowed |= allowed_layers(below)
    return allowed


def include_complaints(layer, name, text):
    """Includes in the file `name` of src/`layer` that the layer may not have."""
    if layer not in LAYERS:
        return [f"{name}: src/{layer} is not a layer that the list knows"]
    complaints = []
    for included in _INCLUDE.findall(text):
        first = included.partition("/")[0]
        if first in LAYERS and first not in allowed_layers(layer):
            complaints.append(f"{name}: {layer} may not include {included}")
        elif first in FRAMEWORK_HEADERS:
            complaints.append(f"{name}: {included} belongs to pytorch/, not to src/")
    return complaints


def length_complaints(name, text):
    lines = text.count("\n")
    return [f"{name}: {lines} lines, at most {LINES_MAX}"] if lines > LINES_MAX else []
