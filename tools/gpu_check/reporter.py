"""A plugin for pytest that writes the report of gpu-check at every event."""

import contextlib
import os
import signal

import pytest
from report import machine_facts, write


class Reporter:
    """Writes the report from the logs, and passes an interrupt on to the workers of pytest-xdist.

    xdist kills its workers after some seconds. Interrupted workers end their programs first.
    """

    def __init__(self, out, logs):
        self.out = out
        self.logs = logs
        self.machine = machine_facts()
        self.worker_pids = {}

    def write(self, state) -> list[dict]:
        """Returns the results so far."""
        return write(self.out, state, self.machine, self.logs)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report):
        """Writes when a test begins and when it ends."""
        if report.when != "call":
            self.write("The checks are running.")

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_newgateway(self, gateway):
        channel = gateway.remote_exec("import os; channel.send(os.getpid())")
        self.worker_pids[gateway.id] = channel.receive()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        self.worker_pids.pop(node.gateway.id, None)

    def pytest_keyboard_interrupt(self):
        for pid in self.worker_pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
