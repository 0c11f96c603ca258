"""What the Python tests share: running commands, and a small job for those that plan."""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import timeline_tables
from warm_python import WarmPython

# Programs under test are interrupted, also where the tests run in the background and ignore SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Plans are made before the next iteration begins, so that each run of a test is the same.
os.environ["TERAIO_PLANS_IN_BACKGROUND"] = "0"

COMMAND = Path(__file__).parents[2] / "build" / "bin" / "teraio"


class Outcome:
    def __init__(self, completed):
        self.code = completed.returncode
        self.out = completed.stdout
        self.err = completed.stderr

    def __eq__(self, other):
        return (self.code, self.out, self.err) == (other.code, other.out, other.err)

    def __repr__(self):
        return f"exit code {self.code}\n--- stdout\n{self.out}--- stderr\n{self.err}"


@pytest.fixture(scope="session")
def small_models(tmp_path_factory):
    """A folder of small models and of what the examples train them on."""
    for package in ("transformers", "peft", "trl", "diffusers", "lightning"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"missing: the package {package}")
    folder = tmp_path_factory.mktemp("small")
    program = Path(__file__).parent / "programs" / "front_ends" / "small.py"
    subprocess.run([sys.executable, program], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def execute(tmp_path):
    """Runs a command line in an empty folder; gives its exit code, stdout and stderr."""

    def execute(*command, cwd=tmp_path, timeout_s=300, **options):
        command = [str(word) for word in command]
        return Outcome(
            subprocess.run(
                command, cwd=cwd, capture_output=True, text=True, timeout=timeout_s, **options
            )
        )

    return execute


@pytest.fixture
def two_drives(tmp_path):
    """The folders of two drives."""
    folders = [tmp_path / "drive0", tmp_path / "drive1"]
    for folder in folders:
        folder.mkdir()
    return folders


@pytest.fixture
def spawn():
    """Starts a program, perhaps with a library preloaded, and returns its process with pipes of
    text. Kills those that are still running at the end of the test."""
    processes = []

    def spawn(command, preload=None):
        environment = os.environ | ({} if preload is None else {"LD_PRELOAD": str(preload)})
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        processes.append(process)
        return process

    yield spawn
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.fixture
def python(execute):
    """Runs `python ARGUMENTS...` with the interpreter of the tests."""
    return lambda *arguments, **options: execute(sys.executable, *arguments, **options)


@pytest.fixture
def teraio_run(python):
    """Runs `python -m teraio run ARGUMENTS...`."""
    return lambda *arguments, **options: python("-m", "teraio", "run", *arguments, **options)


@pytest.fixture(scope="session")
def warm_gpu_server():
    """A server of programs, each of which has an emulated GPU of its own."""
    import emulated_gpu  # and torch

    emulated_gpu.skip_without_machine()
    server = WarmPython(["teraio_emulated_cuda"], emulated_gpu.environment(operators=""))
    yield server
    server.close()


@pytest.fixture
def on_gpu(warm_gpu_server, execute, tmp_path):
    """Runs `python ARGUMENTS...` on the emulated GPU. Its memory is 1 GiB."""
    import emulated_gpu

    def on_gpu(*arguments, timeout_s=300, **settings):
        environment = emulated_gpu.environment(**{"memory_bytes": 1 << 30} | settings)
        allocator = environment.get("PYTORCH_CUDA_ALLOC_CONF", "")
        if "backend:" in allocator or "TRITON_INTERPRET" in environment:  # imports read these
            return execute(sys.executable, *arguments, env=environment, timeout_s=timeout_s)
        (completed,) = warm_gpu_server.run([(arguments, {})], tmp_path, environment, timeout_s)
        return Outcome(completed)

    return on_gpu


@pytest.fixture
def program(on_gpu, tmp_path):
    """Runs the text of a program on the emulated GPU, with success; gives the lines it prints."""

    def program(text, **settings):
        (tmp_path / "program.py").write_text(text)
        done = on_gpu(tmp_path / "program.py", **settings)
        assert done.code == 0, done
        return done.out.splitlines()

    return program


@pytest.fixture(scope="session")
def warm_server():
    server = WarmPython()
    yield server
    server.close()


@pytest.fixture
def warm_python(warm_server, tmp_path):
    """Runs `python ARGUMENTS...` in a process that has torch already: for tests whose point is not
    how a process starts."""

    def warm_python(*arguments, cwd=tmp_path, **options):
        (completed,) = warm_server.run([(arguments, {})], cwd, **options)
        return Outcome(completed)

    return warm_python


@pytest.fixture
def warm_text(warm_python, tmp_path):
    """Runs the text of a program in such a process."""

    def warm_text(text):
        (tmp_path / "program.py").write_text(text)
        return warm_python("program.py")

    return warm_text


@pytest.fixture
def dry_run(warm_python):
    """Runs `python -m teraio dry-run ARGUMENTS...`."""
    return lambda *arguments: warm_python("-m", "teraio", "dry-run", *arguments)


@pytest.fixture
def warm_ranks(warm_server, tmp_path):
    """Runs `python ARGUMENTS...` in two such processes at once, which are the ranks of a group:
    `init_process_group("gloo", init_method=sys.argv[1])` joins them."""

    def warm_ranks(script, *arguments, cwd=tmp_path, **options):
        group = f"file://{tmp_path}/process_group?world_size=2"
        programs = [
            (
                [script, f"{group}&rank={rank}", *arguments],
                {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2"},
            )
            for rank in (0, 1)
        ]
        return [Outcome(each) for each in warm_server.run(programs, cwd, **options)]

    return warm_ranks


@pytest.fixture
def teraio(execute):
    """Runs the command; gives what it printed, or what it complained of when `fails` is set."""

    def run(*arguments, fails=False, **options):
        done = execute(COMMAND, *arguments, **options)
        assert (done.code != 0) == fails, done
        assert not fails or done.err.startswith("teraio: ") and done.err.count("\n") == 1
        return done.err if fails else done.out

    return run


@pytest.fixture(scope="module")
def one_settled_thread():
    """Small models are faster on one thread, above all on a machine that does other things too."""
    import torch
    from matrix import budgets

    budgets.settle_kernels()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def open_timeline():
    """Opens the timeline at a path for queries in SQL: see timeline_tables.py."""
    with contextlib.ExitStack() as stack:
        yield lambda path: stack.enter_context(timeline_tables.open_timeline(path))


@pytest.fixture(scope="module")
def browser():
    """Headless Chromium, from Debian."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("missing: chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser):
    """Opens a page, with the files `beside` it that it may load; gives the tab. A message of the
    console or another request fails the test."""
    told, contexts = [], []

    def note_request(url, known):
        if url.partition("#")[0] not in known and not url.startswith(("data:", "blob:")):
            told.append(url)

    def opened(page, fragment="", beside=(), **options):
        known = [path.as_uri() for path in (page, *beside)]
        contexts.append(browser.new_context(**options))
        tab = contexts[-1].new_page()
        tab.on("console", lambda message: told.append(message.text))
        tab.on("pageerror", lambda error: told.append(str(error)))
        tab.on("request", lambda request: note_request(request.url, known))
        tab.goto(page.as_uri() + fragment)
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert told == []


SCREENS = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True},
}


@pytest.fixture(params=SCREENS.values(), ids=SCREENS.keys())
def screen(request):
    """Options of `opened` for the screens that pages are read on."""
    return request.param


@pytest.fixture
def everybody_can_read():
    """Fails where a tab scrolls sideways or breaks a rule of accessibility."""
    from axe_playwright_python.sync_playwright import Axe

    def everybody_can_read(tab):
        assert not tab.evaluate("document.documentElement.scrollWidth > innerWidth")
        found = Axe().run(tab, options={"preload": False})
        assert found.violations_count == 0, found.generate_report()

    return everybody_can_read


@pytest.fixture
def small(tmp_path):
    """A weight, and an activation with a gap, on a device that does not hold both: files' paths.

    op        0   1   2   3   4
    weight 7  r   .   .   .   W
    act 8         W   .   r
    """

    def op(reads=(), writes=(), workspace_bytes=0):
        return {
            "name": "an_op",
            "duration_ns": 1000,
            "reads": list(reads),
            "writes": list(writes),
            "frees": [],
            "workspace_bytes": workspace_bytes,
        }

    trace = {
        "format": "teraio-trace/1",
        "name": "small",
        "source": "test",
        "tensors": [
            {"id": 7, "bytes": 600, "persistent": True, "kind": "parameter"},
            {"id": 8, "bytes": 500, "persistent": False, "kind": "activation"},
        ],
        "ops": [op([7]), op([], [8]), op([], [], 500), op([8]), op([], [7])],
    }
    rates = {"read_bytes_per_second": 10**9, "write_bytes_per_second": 10**9}
    hardware = {
        "format": "teraio-hardware/1",
        "name": "small machine",
        "device_memory_bytes": 1100,
        "device_link": rates,
        "host": {"capacity_bytes": 0, **rates},
        "drives": [
            {
                "name": "d0",
                "capacity_bytes": 10**6,
                "duplex": 2.0,
                "rated_bytes_written": 10**15,
                **rates,
            }
        ],
        "request_latency_ns": 0,
    }
    (tmp_path / "trace.json").write_text(json.dumps(trace))
    (tmp_path / "hardware.json").write_text(json.dumps(hardware))
    return ["--trace", tmp_path / "trace.json", "--hardware", tmp_path / "hardware.json"]
