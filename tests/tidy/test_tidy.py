"""Every file of the project keeps the rules; each rule is shown to catch what it is for."""

import shutil
import subprocess
from pathlib import Path

import classes
import pytest
import rules

ROOT = Path(__file__).parents[2]
FOLDERS = [
    "src",
    "pytorch",
    "python",
    "cli",
    "testing",
    "evaluation",
    "tools",
    "tests",
    "benchmarks",
    "examples",
]
CPP = {".cpp", ".h"}

# One version, because another one formats some constructs differently.
CLANG_FORMAT = shutil.which("clang-format-14")


def files(folders, suffixes):
    return [
        path
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in suffixes and "__pycache__" not in path.parts
    ]


def name(path):
    return str(path.relative_to(ROOT))


def test_layers_include_only_what_they_may():
    complaints = []
    for path in files(["src"], CPP):
        layer = path.relative_to(ROOT / "src").parts[0]
        complaints += rules.include_complaints(layer, name(path), path.read_text())
    assert complaints == []


def test_modules_import_only_what_they_may():
    package = ROOT / "python" / "teraio"
    complaints = []
    for path in package.rglob("*.py"):
        module = ".".join(path.relative_to(package).with_suffix("").parts)
        if module not in ("__init__", "__main__"):
            layer = rules.python_layer(module)
            complaints += rules.import_complaints(layer, name(path), path.read_text())
    assert complaints == []


def test_rooms_of_the_extension_include_only_lower_ones():
    complaints = []
    for path in files(["pytorch"], CPP):
        folders = path.relative_to(ROOT / "pytorch").parts[:-1]
        if folders[:1] != ("units",):
            room = folders[0] if folders else ""
            complaints += rules.room_complaints(room, name(path), path.read_text())
    assert complaints == []


def test_private_headers_stay_private():
    paths = files(FOLDERS, CPP)
    assert [
        line
        for path in paths
        for line in rules.private_header_complaints(name(path), path.read_text())
    ] == []


def test_every_layer_has_its_namespace():
    complaints = []
    for path in files(["src", "pytorch", "cli", "testing"], CPP):
        parts = path.relative_to(ROOT).parts
        folder = "/".join(parts[:2]) if parts[0] == "src" else parts[0]
        complaints += rules.namespace_complaints(folder, name(path), path.read_text())
    assert complaints == []


def test_no_type_is_defined_twice():
    paths = files(["src", "pytorch", "cli", "testing"], CPP)
    assert rules.repeated_type_complaints({name(path): path.read_text() for path in paths}) == []


def test_classes_are_narrow():
    texts = {
        name(path): path.read_text() for path in files(["src", "pytorch", "cli", "testing"], CPP)
    }
    headers = {name: text for name, text in texts.items() if name.endswith(".h")}
    sources = {name: text for name, text in texts.items() if name.endswith(".cpp")}
    assert classes.class_complaints(headers, sources) == []


def test_files_are_short():
    paths = files(FOLDERS, CPP | {".py", ".sh", ".txt", ".cmake"})
    assert len(paths) > 50
    assert [
        line for path in paths for line in rules.length_complaints(name(path), path.read_text())
    ] == []


@pytest.mark.skipif(not CLANG_FORMAT, reason="missing: clang-format-14")
def test_cpp_files_are_formatted():
    paths = [str(path) for path in files(FOLDERS, CPP)]
    check = subprocess.run([CLANG_FORMAT, "--dry-run", *paths], capture_output=True, text=True)
    drifted = sorted(
        {line.partition(":")[0] for line in check.stderr.splitlines() if "warning" in line}
    )
    assert drifted == [], "run `make format`"


def test_rule_catches_a_layer_that_looks_up():
    text = '#include <vector>\n#include "base/status.h"\n  #  include "runtime/runtime.h"\n'
    complaints = rules.include_complaints("plan", "src/plan/x.cpp", text)
    assert complaints == ["src/plan/x.cpp: plan may not include runtime/runtime.h"]


def test_rule_catches_a_module_that_looks_up():
    text = "from teraio import core, session\nfrom teraio.watch.notebook import Panel\n"
    assert rules.import_complaints("files", "x", text) == [
        "x: files may not import session",
        "x: files may not import watch.notebook",
    ]
    assert rules.import_complaints("session", "x", text) == []


def test_rule_catches_a_room_that_looks_up():
    text = '#include "storages/adoption.h"\n#include "session/session.h"\n#include "op_info.h"\n'
    complaints = rules.room_complaints("observe", "x.cpp", text)
    assert complaints == ["x.cpp: pytorch/observe may not include session/session.h"]


@pytest.mark.parametrize("header", ["torch/extension.h", "ATen/ATen.h", "c10/util/x.h", "Python.h"])
def test_rule_catches_framework_headers(header):
    assert rules.include_complaints("base", "x", f"#include <{header}>\n") == [
        f"x: {header} belongs to pytorch/, not to src/"
    ]


def test_rule_catches_a_private_header():
    text = '#include "io/cufile_abi.h"\n#include "io/drive_io.h"\n'
    complaints = rules.private_header_complaints("src/io/retrying_io.cpp", text)
    assert len(complaints) == 1 and "io/cufile_abi.h is private to" in complaints[0]
    assert rules.private_header_complaints("src/io/cufile_io.cpp", text) == []


def test_rule_catches_a_foreign_namespace():
    text = "namespace teraio::plan {\n"
    assert rules.namespace_complaints("src/io", "x", text) == [
        "x: opens teraio::plan, expected teraio::io"
    ]
    assert rules.namespace_complaints("src/plan", "x", text) == []
    assert rules.namespace_complaints("src/io", "x", "namespace teraio::io::cufile {\n") == []
    assert rules.namespace_complaints("src/base", "x", text) != []


def test_rule_catches_a_type_defined_twice():
    texts = {
        "a.h": "namespace teraio::io {\nenum class Direction : uint8_t { kRead };\n}\n",
        "b.h": "namespace teraio::io {\n\nstruct Direction {\n};\n}\n",
        "c.cpp": "namespace teraio::io {\nnamespace {\nstruct Direction {\n};\n}  // namespace\n",
        "d.h": "namespace teraio::plan {\nstruct Direction {\n};\nclass Other;\n}\n",
    }
    assert rules.repeated_type_complaints(texts) == [
        "teraio::io::Direction is defined in a.h and b.h"
    ]


HEADER = """
// A class Comment { that is none.
template <typename T>
class Store final : public Base<T> {
 public:
  // No functions: a constructor, a destructor, an operator.
  explicit Store(std::function<void(int)> call) : call_(std::move(call)) {}
  ~Store() override;
  Store& operator=(const Store&) = delete;

  enum class Kind : uint8_t { kFirst, kOther };
  struct Options {
    int first = 0;
    int second = 0;
  };
  static constexpr int kMax = 3;

  bool is_empty() const { return call_ == nullptr; }
  static Result<std::map<int, int>> make(const Options& options = {1, 2});
  template <typename Call>
  auto complete(const Call& call);

 private:
  void grow(int64_t size_bytes);

  std::function<Status(std::span<const int>)> call_;
  int64_t size_bytes_ = 0;
  std::atomic<bool> is_full_{false};
};
"""


def test_the_shape_of_a_class_is_read():
    assert list(classes.shapes(HEADER)) == [
        classes.Shape("Store", public_functions=3, functions=4, data_members=3)
    ]


def test_rule_catches_wide_classes():
    functions = "".join(f"  void f{i}();\n" for i in range(26))
    members = "".join(f"  int m{i} = 0;\n" for i in range(16))
    headers = {
        "a.h": f"class Wide {{\n public:\n{functions}}};\n",
        "b.h": f"struct Heavy {{\n  void f();\n{members}}};\n",
        "c.h": f"struct Value {{\n{members}}};\n",
    }
    assert classes.class_complaints(headers, {}) == [
        "a.h: Wide has 26 public functions",
        "b.h: Heavy has 16 data members",
    ]


def test_rule_catches_a_class_in_two_source_files():
    headers = {"src/io/a.h": "class Pool {\n public:\n  int one();\n  void two();\n};\n"}
    sources = {
        "src/io/a.cpp": "int Pool::one() { return 1; }\n",
        "src/io/b.cpp": "void Pool::two() {\n  Pool::one();\n}\n",
        "src/plan/b.cpp": "void Pool::two() {}\n",
    }
    assert classes.class_complaints(headers, sources) == ["src/io/a.h: Pool has 2 source files"]
