"""Runs `python ARGUMENTS...` in processes that have imported torch already.

Importing torch and its compiler takes seconds of CPU time. A server process imports them once and
forks itself for each program. The fork becomes the program, which runs as `__main__` to the end of
the interpreter: exit codes, signals, exit handlers and tracebacks are those of the program.

Two things differ from a new interpreter. Modules that the server has imported are in sys.modules,
and variables that are read when a process starts (PYTHONPATH, OMP_NUM_THREADS) have no effect:
every program computes on one thread. Tests of either start a real interpreter.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

PRELOADED = ("torch._dynamo", "torch.distributed", "teraio.session", "teraio.commands.dry_run")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class WarmPython:
    """A server and what it runs. One call at a time. The server imports `modules` beside PRELOADED,
    in an environment with `changes`."""

    def __init__(self, modules=(), changes=None):
        self._server = None
        self._command = [sys.executable, __file__, *modules]
        self._environment = os.environ | ONE_THREAD | (changes or {})

    def run(self, programs, cwd, env=None, timeout_s=300):
        """Runs programs at the same time, each given by its `(arguments, environment)`; what an
        environment names is added to `env` (default: this process's). When one fails the others are
        killed. Returns a subprocess.CompletedProcess of each. Raises TimeoutError, with what they
        wrote, when they take longer than `timeout_s`; none of them is left then."""
        env = dict(os.environ if env is None else env)
        with tempfile.TemporaryDirectory() as folder:
            requests = [
                {
                    "arguments": [str(word) for word in arguments],
                    "cwd": str(cwd),
                    "env": env | changes,
                    "out": f"{folder}/{number}.out",
                    "err": f"{folder}/{number}.err",
                }
                for number, (arguments, changes) in enumerate(programs)
            ]
            for request in requests:
                Path(request["out"]).touch()
                Path(request["err"]).touch()
            codes, is_in_time = self._exit_codes(requests, timeout_s)
            completed = [
                subprocess.CompletedProcess(
                    request["arguments"],
                    code,
                    Path(request["out"]).read_text(),
                    Path(request["err"]).read_text(),
                )
                for request, code in zip(requests, codes, strict=True)
            ]
        if not is_in_time:
            raise TimeoutError(f"killed after {timeout_s} s: {completed}")
        return completed

    def close(self):
        if self._server is not None:
            self._server.stdin.close()
            self._server.wait()
            self._server.stdout.close()
            self._server = None

    def _exit_codes(self, requests, timeout_s):
        if self._server is None:
            self._server = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                env=self._environment,
            )
        self._server.stdin.write(json.dumps(requests).encode() + b"\n")
        processes = self._reply()
        is_in_time = bool(select.select([self._server.stdout], [], [], timeout_s)[0])
        if not is_in_time:
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        return self._reply(), is_in_time

    def _reply(self):
        line = self._server.stdout.readline()
        if not line:
            raise RuntimeError(f"the server ended with {self._server.wait()}")
        return json.loads(line)


def _serve():
    """Returns a request in each process that is forked to run it. In the server itself it ends the
    process when no more requests come."""
    for module in (*PRELOADED, *sys.argv[1:]):
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    requests, replies = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w", buffering=1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of an interrupt the tests have to know
    for line in requests:
        processes = []
        for request in json.loads(line):
            processes.append(os.fork())
            if processes[-1] == 0:
                return request
        print(json.dumps(processes), file=replies)
        print(json.dumps(_exit_codes(processes)), file=replies)
    sys.exit()


def _exit_codes(processes):
    codes = dict.fromkeys(processes)
    while None in codes.values():
        ended, status = os.wait()
        codes[ended] = os.waitstatus_to_exitcode(status)
        if codes[ended] != 0:
            for process in (process for process, code in codes.items() if code is None):
                os.kill(process, signal.SIGKILL)
    return [*codes.values()]


def _program(request):
    """The program of a request. What this process writes is the program's from here on."""
    # Collecting what the server froze takes the end of each program a second. Newer versions of
    # Triton report as leaks what is not collected.
    if not sys.modules["torch"].__version__.startswith("2.11."):
        atexit.register(gc.unfreeze)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    files = (os.devnull, os.O_RDONLY), *((request[name], os.O_WRONLY) for name in ("out", "err"))
    for number, (path, mode) in enumerate(files):
        opened = os.open(path, mode | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if "teraio_emulated_cuda" in sys.modules:  # its machine is as the program's environment says
        sys.modules["teraio_emulated_cuda"].load()
    words = request["arguments"]
    is_module = words[0] == "-m"
    return Program(words[is_module:], is_module)


if __name__ == "__main__":
    from teraio.commands.program import Program

    _program(_serve()).run()
