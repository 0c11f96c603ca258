"""What the project asks of its files: each rule a function that gives complaints, one line each."""

import ast
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
    "iteration": ["plan"],
    "engine": ["iteration", "storage"],
    "learn": ["engine"],
    "runtime": ["learn", "planner", "probe"],
}

# The same for the imports of python/teraio, where "base" are the modules on top that are not named
# here. The package itself may import any.
PYTHON_LAYERS = {
    "base": [],
    "files": ["base"],
    "hooks": ["files"],
    "escapes": ["hooks"],
    "watch": ["files"],
    "report": ["files"],
    "dry_run": ["escapes"],
    "suggest": ["dry_run", "report"],
    "session": ["escapes", "watch", "report"],
    "options": ["session"],
    "commands": ["options", "suggest"],
    "reference": ["commands"],
}

# The rooms of pytorch/, from the lowest to the highest: a file includes its own and lower ones. The
# room "" has the files of the folder itself, which all rooms share.
PYTORCH_ROOMS = ["", "storages", "replay", "observe", "escapes", "session", "bindings"]

FRAMEWORK_HEADERS = ("torch", "ATen", "c10", "caffe2", "pybind11", "Python.h")
LINES_MAX = 600

# Headers that only some files may include, by how those files' names begin.
PRIVATE_HEADERS = {
    "io/cufile_abi.h": ("src/io/cufile_", "tests/io/cufile_", "testing/fake_cufile/"),
    "io/cufile_library.h": ("src/io/cufile_", "tests/io/cufile_"),
}

# The namespace of a folder; files of other folders may open any.
NAMESPACES = {f"src/{layer}": f"teraio::{layer}" for layer in LAYERS if layer != "base"} | {
    "src/base": "teraio",
    "pytorch": "teraio::pytorch",
    "cli": "teraio::cli",
    "testing": "teraio::testing",
}

_NAMESPACE = re.compile(r"^namespace (teraio[\w:]*) \{$", re.MULTILINE)
_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)


def allowed_layers(layer, layers=LAYERS):
    """The layers that files of `layer` may include, itself among them."""
    allowed = {layer}
    for below in layers[layer]:
        allowed |= allowed_layers(below, layers)
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


def import_complaints(layer, name, text):
    """Imports in the file `name` of a layer of python/teraio that the layer may not have."""
    allowed = allowed_layers(layer, PYTHON_LAYERS)
    return [
        f"{name}: {layer} may not import {module}"
        for module in _imported(ast.parse(text))
        if python_layer(module) not in allowed
    ]


def python_layer(module):
    """The layer of a module of the package, by its name below the package."""
    first = module.partition(".")[0]
    return first if first in PYTHON_LAYERS else "base"


def _imported(tree):
    """Names of what a file imports from the package, below the package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "teraio":
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("teraio."):
            yield node.module.removeprefix("teraio.")


def room_complaints(room, name, text):
    """Headers of higher rooms of pytorch/ that the file `name` of `room` includes."""
    above = PYTORCH_ROOMS[PYTORCH_ROOMS.index(room) + 1 :]
    return [
        f"{name}: pytorch/{room} may not include {included}"
        for included in _INCLUDE.findall(text)
        if included.partition("/")[0] in above
    ]


def private_header_complaints(name, text):
    """Private headers that the file `name` includes and may not."""
    return [
        f"{name}: {included} is private to {', '.join(PRIVATE_HEADERS[included])}"
        for included in _INCLUDE.findall(text)
        if not name.startswith(PRIVATE_HEADERS.get(included, ("",)))
    ]


def length_complaints(name, text):
    lines = text.count("\n")
    return [f"{name}: {lines} lines, at most {LINES_MAX}"] if lines > LINES_MAX else []


def namespace_complaints(folder, name, text):
    """Namespaces opened by the file `name` that are neither those of `folder` nor inside them."""
    expected = NAMESPACES.get(folder)
    if expected is None:
        return []
    return [
        f"{name}: opens {found}, expected {expected}"
        for found in _NAMESPACE.findall(text)
        if found != expected and not (found.startswith(expected + "::") and folder != "src/base")
    ]


_TYPE = re.compile(
    r"^(?:template <[^>]*>\n)?(?:class|struct|union|enum class|enum) (\w+(?:::\w+)*)[^;{]*\{",
    re.MULTILINE,
)
_ANONYMOUS = re.compile(r"^namespace \{$.*?^\}  // namespace$", re.MULTILINE | re.DOTALL)


def types_defined(text):
    """Types that the file defines in a named namespace of ours, as `namespace::Type`."""
    found = _NAMESPACE.search(text)
    if found is None:
        return []
    visible = _ANONYMOUS.sub("", text)
    return [f"{found[1]}::{name}" for name in _TYPE.findall(visible)]


def repeated_type_complaints(texts):
    """Types that two of the files (name -> text) define: programs that link both are undefined."""
    places = {}
    for name, text in texts.items():
        for defined in types_defined(text):
            places.setdefault(defined, []).append(name)
    return [f"{t} is defined in {' and '.join(p)}" for t, p in places.items() if len(p) > 1]
