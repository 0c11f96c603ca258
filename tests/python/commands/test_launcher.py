"""`teraio run`: a program behaves as under python; bad input is refused in one line."""

import gzip
import os
import shutil
import sys
from pathlib import Path

import pytest

from teraio.directories import cache_directory
from teraio.errors import Error
from teraio.files.json_file import check_json

BUDGET = ("--device-budget", "1GB")

# Says how it was started, then ends in the way that its argument names.
PROGRAM = """\
import __main__, os, signal, sys
print(sys.argv, sys.path[0], sys.path.count(sys.path[0]), __name__, __file__, __package__)
print(sorted(vars(__main__)), type(__loader__), __spec__ and __spec__.name)

def end(how):
    if how == "return":
        return
    if how == "error":
        raise ValueError("bad") from KeyError("cause")
    if how == "error in handler":
        try:
            1 / 0
        except ZeroDivisionError:
            raise TypeError("second")
    if how == "code":
        sys.exit(3)
    if how == "message":
        sys.exit("a last word")
    if how == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    if how == "own hook":
        sys.excepthook = lambda kind, error, trace: print(kind, trace.tb_frame.f_code.co_name)
        raise ValueError("bad")
    if how == "at exit":
        import atexit
        atexit.register(lambda: print(sys.modules["__main__"].end is end))

end(sys.argv[1])
"""

ENDINGS = (
    *("return", "error", "error in handler", "code", "message", "interrupt", "own hook"),
    "at exit",
)


@pytest.fixture
def program(tmp_path):
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    for path in (tmp_path / "train.py", package / "train.py"):
        path.write_text(PROGRAM)
    return tmp_path / "train.py"


@pytest.fixture
def warm_run(warm_python):
    """As `teraio_run`, where how the process starts is not the point."""
    return lambda *arguments, **options: warm_python("-m", "teraio", "run", *arguments, **options)


@pytest.mark.full
@pytest.mark.parametrize("how", ENDINGS)
def test_script_ends_as_under_python(python, warm_run, program, how):
    assert warm_run(*BUDGET, "train.py", how) == python("train.py", how)


@pytest.mark.full
def test_interrupt_of_an_interpreter_of_its_own_is_as_under_python(python, teraio_run, program):
    assert teraio_run(*BUDGET, "train.py", "interrupt") == python("train.py", "interrupt")


@pytest.mark.parametrize("how", ["error", "interrupt"])
def test_module_ends_as_under_python(python, warm_run, program, how):
    assert warm_run(*BUDGET, "-m", "pkg.train", how) == python("-m", "pkg.train", how)


def test_arguments_of_the_script_are_not_ours(python, warm_run, program):
    arguments = ("train.py", "return", "--device-budget", "x", "-m", "--", "--help", "", "a b")
    assert warm_run(*BUDGET, *arguments) == python(*arguments)


def test_script_elsewhere_and_behind_a_link(python, warm_run, program):
    (program.parent / "links").mkdir()
    link = Path("links") / "other.py"
    (program.parent / link).symlink_to(program)
    for path in (link, Path("pkg/../train.py"), program):
        assert warm_run(*BUDGET, path, "error") == python(path, "error")


def test_syntax_error_and_missing_submodule(python, warm_run, program):
    (program.parent / "broken.py").write_text("x = (\n")
    assert warm_run(*BUDGET, "broken.py") == python("broken.py")
    assert warm_run(*BUDGET, "-m", "pkg.none") == python("-m", "pkg.none")


def test_file_that_cannot_be_made_is_told_and_ends_with_1(warm_run, tmp_path):
    (tmp_path / "train.py").write_text("print('no training here')\n")
    outcome = warm_run(*BUDGET, "--save-trace", "trace.json", "train.py")
    assert outcome.code == 1
    assert outcome.out == "no training here\n"
    assert "no trace saved to trace.json" in outcome.err
    assert not (tmp_path / "trace.json").exists()


# Bad input. The program would print; that it does not shows that it never started.


def refused_by(run, tmp_path):
    """Runs with the arguments, expects a refusal, and gives its line."""
    (tmp_path / "train.py").write_text("print('started')\n")

    def refused(*arguments, **options):
        outcome = run(*arguments, **options)
        assert (outcome.code, outcome.out) == (2, ""), outcome
        assert outcome.err.startswith("teraio run: ") and outcome.err.count("\n") == 1, outcome
        return outcome.err

    return refused


@pytest.fixture
def refused(teraio_run, tmp_path):
    return refused_by(teraio_run, tmp_path)


@pytest.fixture
def refused_by_session(warm_run, tmp_path):
    """For what is only known when torch has been imported."""
    return refused_by(warm_run, tmp_path)


def test_budget_of_zero(refused):
    assert "is 0" in refused("--device-budget", "0GB", "train.py")


def test_budget_beyond_the_machine(refused_by_session):
    line = refused_by_session("--device-budget", "900TB", "train.py")
    assert "expected at most the memory of cpu, " in line
    line = refused_by_session("--device-budget", "120%", "train.py")
    assert "the device budget is 120%" in line


def test_capacity_of_the_drives(refused):
    line = refused(*BUDGET, "--ssd-capacity", "40%", "train.py")
    assert '--ssd-capacity: "40%" is not a size' in line


def test_script_missing(refused):
    assert "no script given" in refused(*BUDGET)
    assert "no script given" in refused(*BUDGET, "-m")
    assert "nowhere.py does not exist" in refused(*BUDGET, "nowhere.py")
    assert "is a directory" in refused(*BUDGET, ".")
    assert "no module named nowhere.train" in refused(*BUDGET, "-m", "nowhere.train")


def test_unknown_and_abbreviated_options(refused):
    assert "--nonsense" in refused(*BUDGET, "--nonsense", "train.py")
    assert "--polic" in refused(*BUDGET, "--polic", "planned", "train.py")
    assert "choose from" in refused(*BUDGET, "--policy", "other", "train.py")
    assert "not allowed with" in refused(*BUDGET, "--plan", "a", "--save-plan", "b", "train.py")


def test_ssd_directory_twice(refused, tmp_path):
    assert "twice" in refused(*BUDGET, "--ssd", ".", "--ssd", tmp_path, "train.py")


def test_default_ssd_directory_in_memory(refused, tmp_path):
    environment = os.environ | {"XDG_CACHE_HOME": "/dev/shm/teraio-test-cache"}
    try:
        line = refused(*BUDGET, "train.py", env=environment)
    finally:
        shutil.rmtree("/dev/shm/teraio-test-cache", ignore_errors=True)
    assert "Give one on a drive with --ssd DIR" in line and "tmpfs" in line


def test_default_ssd_directory_is_private(warm_run, tmp_path):
    (tmp_path / "train.py").touch()
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    directory = tmp_path / "cache" / "teraio" / "ssd"
    directory.parent.mkdir(parents=True)
    for rates in cache_directory().glob("probe-*.json"):  # measuring the drive again takes a while
        shutil.copy(rates, directory.parent)
    assert warm_run(*BUDGET, "train.py", env=environment).code == 0
    assert directory.stat().st_mode & 0o777 == 0o700
    assert list(directory.iterdir()) == []


def test_files_missing_or_not_writable(refused):
    assert "--plan: none.json does not exist" in refused(*BUDGET, "--plan", "none.json", "train.py")
    assert "--plan: . is not a file" in refused(*BUDGET, "--plan", ".", "train.py")
    assert "no does not exist" in refused(*BUDGET, "--save-plan", "no/plan.json", "train.py")
    assert "/proc/x cannot" in refused(*BUDGET, "--save-trace", "/proc/x", "train.py")
    assert "is a directory" in refused(*BUDGET, "--save-trace", ".", "train.py")
    assert '--save-trace: "" is not a path' in refused(*BUDGET, "--save-trace", "", "train.py")
    assert "not a directory" in refused(*BUDGET, "--report", "train.py/report", "train.py")


@pytest.mark.parametrize(
    "words",
    [
        ("--save-trace", "train.py", "train.py"),
        ("--save-timeline", "train.py", "-m", "train"),
        ("--save-trace", "bits.json", "--verify", "./bits.json", "train.py"),
        ("--save-trace", "plan.json", "--plan", "./plan.json", "train.py"),
        ("--save-trace", "both.json", "--save-plan", "./both.json", "train.py"),
    ],
)
def test_file_that_would_replace_another(refused, tmp_path, words):
    (tmp_path / "plan.json").write_text('{"format": "teraio-plan/1"}')
    line = refused(*BUDGET, *words)
    assert f"{words[0]}: {words[1]} is given twice: expected a file that is neither" in line


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("not json", "bits.json cannot be read"),
        ("[1]", "bits.json: expected a JSON object"),
        ("{}", "bits.json: expected hashes, as `teraio run --verify` writes them"),
        ('{"format": "teraio-trace/1"}', "bits.json: expected hashes"),
    ],
)
def test_file_of_hashes_that_is_none(refused, tmp_path, text, complaint):
    (tmp_path / "bits.json").write_text(text)
    line = refused(*BUDGET, "--verify", "bits.json", "train.py")
    assert f"--verify: {complaint}" in line


def test_run_that_has_nothing_to_compare(warm_run, tmp_path):
    (tmp_path / "train.py").touch()
    outcome = warm_run(*BUDGET, "--verify", "bits.json", "train.py")
    assert outcome.code == 1 and "nothing to compare with bits.json" in outcome.err
    assert not (tmp_path / "bits.json").exists()


def test_options_that_do_not_go_together(refused, tmp_path):
    on_demand = (*BUDGET, "--policy", "on-demand")
    assert "--save-plan: there is no plan" in refused(*on_demand, "--save-plan", "p", "train.py")
    (tmp_path / "plan.json").write_text('{"format": "teraio-plan/1"}')
    assert "--plan: there is no plan" in refused(*on_demand, "--plan", "plan.json", "train.py")
    steps = ("--timeline-steps", "3:5")
    assert "Expected --save-timeline" in refused(*BUDGET, *steps, "train.py")
    steps = ("--save-timeline", "timeline.json", "--timeline-steps", "5:3")
    assert '--timeline-steps: the steps of the timeline are "5:3"' in refused(
        *BUDGET, *steps, "train.py"
    )


def test_report_and_cache_directories_that_cannot_be_made(refused_by_session, tmp_path):
    assert "report directory /proc/x cannot be made" in refused_by_session(
        *BUDGET, "--report", "/proc/x", "train.py"
    )
    environment = os.environ | {"XDG_CACHE_HOME": "/proc/x"}
    line = refused_by_session(*BUDGET, "--ssd", tmp_path, "train.py", env=environment)
    assert "no cache directory" in line and "XDG_CACHE_HOME" in line


def test_refusal_and_help_need_no_torch(python, teraio_run, tmp_path):
    # A torch that cannot be imported stands first on the path.
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')\n")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    environment = os.environ | {"PYTHONPATH": path}
    assert "usage: teraio run" in teraio_run("--help", env=environment).out
    (tmp_path / "train.py").touch()
    outcome = teraio_run("--device-budget", "x", "train.py", env=environment)
    assert "is not a size" in outcome.err and "torch" not in outcome.err


def test_torch_that_the_extension_was_not_built_for(refused, tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(
        "from unittest.mock import MagicMock\n"
        "__version__ = '2.10.1+cpu'\n"
        "Tensor = UntypedStorage = utils = cuda = MagicMock()\n"
    )
    (tmp_path / "torch" / "version.py").write_text("cuda = None\n")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    line = refused(*BUDGET, "train.py", env=os.environ | {"PYTHONPATH": path})
    assert "this is 2.10.1+cpu" in line and "pip install --no-build-isolation" in line


# The command.


@pytest.fixture
def command():
    """The C++ command that belongs to the package under test."""
    import teraio

    package = Path(teraio.__file__).parent
    found = [package / "bin" / "teraio", package.parent.parent / "bin" / "teraio"]
    return next(path for path in found if path.exists())


def test_other_subcommands_are_the_commands(python, execute, command):
    assert python("-m", "teraio", "--version") == execute(command, "--version")
    assert python("-m", "teraio", "nonsense") == execute(command, "nonsense")


def test_command_passes_every_word_to_the_launcher(execute, command, tmp_path):
    echo = tmp_path / "echo"
    echo.write_text('#!/bin/sh\nprintf "[%s]" "$@"\n')
    echo.chmod(0o755)
    environment = os.environ | {"TERAIO_PYTHON": str(echo)}
    words = ["--ssd=a", "--device-budget", "1GB", "-m", "plan", "--", "--help", "", "a b"]
    outcome = execute(command, "run", *words, env=environment)
    assert outcome.out == "[-m][teraio][run]" + "".join(f"[{word}]" for word in words)
    assert execute(command, "run", "--help", env=environment).out == "[-m][teraio][run][--help]"
    outcome = execute(command, "run", "--", "train.py", env=environment)
    assert outcome.out == "[-m][teraio][run][--][train.py]"


def test_command_without_an_interpreter(execute, command):
    environment = os.environ | {"TERAIO_PYTHON": "/nowhere/python"}
    outcome = execute(command, "run", *BUDGET, "train.py", env=environment)
    assert outcome.code != 0
    assert outcome.err.count("\n") == 1 and "/nowhere/python" in outcome.err


def test_command_with_an_interpreter_that_lacks_the_package(execute, command):
    outside = os.path.realpath(sys.executable)  # of the virtual environment
    environment = os.environ | {"TERAIO_PYTHON": outside, "PYTHONPATH": ""}
    outcome = execute(command, "run", *BUDGET, "train.py", env=environment)
    assert outcome.code != 0
    assert outcome.err.count("\n") == 1 and "does not find the package teraio" in outcome.err


def test_command_runs_a_program_and_keeps_a_safe_path(execute, python, command, program):
    environment = os.environ | {"TERAIO_PYTHON": sys.executable, "PYTHONSAFEPATH": "1"}
    outcome = execute(command, "run", *BUDGET, "train.py", "code", env=environment)
    assert outcome == python("-P", "train.py", "code") and outcome.code == 3


def test_a_compressed_file_that_inflates_beyond_measure_is_refused(tmp_path):
    path = tmp_path / "plan.json.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(70):
            file.write(b" " * (1 << 20))
    with pytest.raises(Error, match=r"plan.json.gz cannot be read: expected at most 50"):
        check_json(path)
