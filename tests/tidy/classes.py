"""How wide the classes of our headers are. The parser relies on clang-format's layout."""

import re
from dataclasses import dataclass

PUBLIC_FUNCTIONS_MAX = 25
DATA_MEMBERS_MAX = 15

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_DIRECTIVE = re.compile(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_CLASS = re.compile(
    r"^(class|struct) (?:\[\[\w+\]\] )?(\w+)(?: final)?(?: :[^;{]*)? \{", re.MULTILINE
)
_ACCESS = re.compile(r"\s*(public|protected|private):")
_NO_MEMBER = (
    "using ",
    "friend ",
    "typedef ",
    "static_assert",
    "enum ",
    "class ",
    "struct ",
    "union ",
)
_DEFINITION = re.compile(r"^[^\s/#}][^;{}=(]*?\b(\w+)::(?:~?\w+|operator[^\s(]+)\(", re.MULTILINE)


@dataclass
class Shape:
    """What a class declares. Constructors, destructors and operators are no functions here."""

    name: str
    public_functions: int = 0
    functions: int = 0
    data_members: int = 0


def _end_of_braces(text, start):
    depth = 0
    for i in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i
    return len(text)


def _statements(body):
    """The statements of a class's body, with its access labels; braces are empty."""
    statement, i, parentheses = "", 0, 0
    while i < len(body):
        access = _ACCESS.match(body, i) if not statement.strip() else None
        if access:
            yield access[1] + ":"
            i = access.end()
            continue
        parentheses += {"(": 1, ")": -1}.get(body[i], 0)
        if body[i] == "{" and parentheses == 0:
            i = _end_of_braces(body, i)
            statement += "{}"
            if not re.match(r"\s*[;,{]", body[i + 1 :]):
                yield statement.strip()
                statement = ""
        elif body[i] == ";" and parentheses == 0:
            yield statement.strip()
            statement = ""
        else:
            statement += body[i]
        i += 1


def _without_angles(text):
    while True:
        shorter = re.sub(r"<[^<>]*>", "", text)
        if shorter == text:
            return text
        text = shorter


def _note(shape, statement, is_public):
    text = _without_angles(statement).removeprefix("template").strip()
    head = text.split("=")[0] if "operator" not in text else text
    is_static_value = text.startswith("static ") and "(" not in head
    if not text or text.startswith(_NO_MEMBER) or is_static_value:
        return
    if "(" not in head:
        shape.data_members += 1
    elif "operator" not in head and not re.search(rf"(^|\s|~){shape.name}\s*\(", head):
        shape.functions += 1
        shape.public_functions += is_public


def shapes(text):
    """The classes that a header defines in namespaces of ours."""
    text = _STRING.sub('""', _DIRECTIVE.sub("", _COMMENT.sub("", text)))
    for found in _CLASS.finditer(text):
        shape, is_public = Shape(found[2]), found[1] == "struct"
        start = found.end() - 1
        for statement in _statements(text[start + 1 : _end_of_braces(text, start)]):
            if _ACCESS.fullmatch(statement):
                is_public = statement == "public:"
            else:
                _note(shape, statement, is_public)
        yield shape


def class_complaints(headers, sources):
    """The classes of `headers` that break the rules, and how; both are texts by their names."""
    places = {}
    for name, text in sources.items():
        for defined in set(_DEFINITION.findall(_COMMENT.sub("", text))):
            places.setdefault((name.rpartition("/")[0], defined), set()).add(name)
    wide = []
    for name, text in headers.items():
        for shape in shapes(text):
            if shape.functions == 0:
                continue  # a value
            complaints = []
            if shape.public_functions > PUBLIC_FUNCTIONS_MAX:
                complaints.append(f"{shape.public_functions} public functions")
            if shape.data_members > DATA_MEMBERS_MAX:
                complaints.append(f"{shape.data_members} data members")
            files = places.get((name.rpartition("/")[0], shape.name), set())
            if len(files) > 1:
                complaints.append(f"{len(files)} source files")
            if complaints:
                wide.append(f"{name}: {shape.name} has {', '.join(complaints)}")
    return wide
