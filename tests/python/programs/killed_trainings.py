#!/usr/bin/env python3
"""Kills trainings at random moments, by seed: `killed_trainings.py FIRST [END]`, as root.

Each seed chooses a job of the matrix, options of `teraio run`, one of two file systems (with direct
and with buffered I/O), whether the training forks a child that outlives it, and a moment: while the
session starts, or while it trains.

* At that moment, the training's files on the drive have no name, and no other user can open them.
* When it has been killed, the drive's directory is empty, and all room on the file system is free,
  although the child lives on. Nothing is left in /dev/shm and in the directory of temporary files.
* The next seed starts in the same directories, with what the killed one has left in the cache.

Prints a line for each seed where that is not so, and how many were killed when. The exit status is
1 when there is such a seed. A seed repeats its choices; what the training does at its moment
depends on the machine's speed.
"""

import argparse
import collections
import contextlib
import os
import random
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def enter_namespace():
    """Starts this program again where its mounts end with it."""
    if os.environ.get("TERAIO_KILLED_TRAININGS") != str(os.getpid()):
        environment = os.environ | {"TERAIO_KILLED_TRAININGS": str(os.getpid())}
        command = ["unshare", "--mount", sys.executable, *sys.argv]
        os.execvpe(command[0], command, environment)


if __name__ == "__main__":
    enter_namespace()

import torch  # noqa: E402
from matrix import budgets  # noqa: E402

from teraio.commands.program import Program  # noqa: E402

JOBS = (
    "llama, AdamW",
    "llama, SGD with momentum",
    "llama, checkpointing, autocast",
    "llama, foreach AdamW, clipping",
    "encoder, dropout, evaluation",
    "experts, AdamW",
)
NOBODY = 65534
DRIVE_BYTES = 192 << 20
START_SECONDS = 120  # that a session may take to start
WAIT_SECONDS = 10  # for the kernel, which ends rings and frees files on threads of its own
# A file that is replaced while its process is killed: src/base/json_file.cpp, atomic_file.py.
HALF_WRITTEN = re.compile(r"\.partial-[0-9a-f]{16}$|^\..+\.[0-9a-f]{16}$")

# Trains for ever, in a process of its own; tells when a round begins.
TRAINING = """\
import os, signal, sys
from matrix import catalogue
from matrix.jobs import train
is_forking, told = sys.argv[2] == "forks", int(sys.argv[3])
if is_forking and os.fork() == 0:
    signal.pause()
while True:
    os.write(told, b"trains\\n")
    train(catalogue.JOBS[sys.argv[1]])
"""


class Drive:
    """A file system of its own, in a file within `folder`."""

    def __init__(self, folder, name, options):
        self.name = name
        self.path = folder / name
        self.path.mkdir()
        backing = folder / f"{name}.backing"
        with backing.open("wb") as file:
            file.truncate(DRIVE_BYTES)
        quiet = {"check": True, "stdout": subprocess.DEVNULL}
        lazy = "nodiscard,lazy_itable_init=1,lazy_journal_init=1"
        subprocess.run(["mkfs.ext4", "-q", "-E", lazy, backing], **quiet)
        subprocess.run(["mount", "-o", f"loop{options}", backing, self.path], **quiet)
        (self.path / "lost+found").rmdir()
        self.free_blocks = self.count_free_blocks()

    def count_free_blocks(self):
        return os.statvfs(self.path).f_bfree

    def names(self):
        return os.listdir(self.path)

    def taken_blocks(self):
        """What is still taken when the kernel has had its time."""
        end = time.monotonic() + WAIT_SECONDS
        while self.count_free_blocks() != self.free_blocks and time.monotonic() < end:
            time.sleep(0.05)
        return self.free_blocks - self.count_free_blocks()


class Killed:
    """What a seed has chosen."""

    def __init__(self, seed, drives):
        choose = random.Random(seed)
        self.seed = seed
        self.job = choose.choice(JOBS)
        self.drive = choose.choice(drives)
        self.share = choose.choice((30, 50, 65))
        self.forks = choose.random() < 0.4
        self.has_new_cache = choose.random() < 0.2
        self.options = ["--checksum"] * choose.randrange(2)
        self.options += ["--host-limit", "2MB"] * choose.randrange(2)
        self.options += ["--recompute", choose.choice(("all", "off"))]
        self.reports = choose.random() < 0.5
        self.is_killed_at_start = choose.random() < 0.3
        self.delay = choose.random() * (0.5 if self.is_killed_at_start else 3)

    def __str__(self):
        child = ", with a child" if self.forks else ""
        when = "the start" if self.is_killed_at_start else "the first round"
        return f"seed {self.seed}: {self.job}{child}, {self.delay:.3f} s after {when} began"

    def run(self, folder):
        """Returns when the training was killed, and what is wrong, as a list of texts."""
        cache = folder / "cache"
        if self.has_new_cache:
            shutil.rmtree(cache, ignore_errors=True)
        process, told = self._start(folder)
        state = self._wait_for_moment(told)
        wrong = self._complaints_of_living(process)
        os.kill(process, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        os.close(told)
        if code != -signal.SIGKILL:
            wrong.append(f"it ended with {code} before: {(folder / 'words').read_text()}")
        wrong += self._complaints_of_dead(folder)
        with contextlib.suppress(ProcessLookupError):  # there is no child
            os.killpg(process, signal.SIGKILL)
        return state, wrong

    def _start(self, folder):
        """Starts the training in a fork of this process, which has imported torch, as a group."""
        budget_bytes = budgets.natural_peak_bytes(self.job) * self.share // 100
        told, telling = os.pipe()
        process = os.fork()
        if process != 0:
            os.close(telling)
            return process, told
        os.setpgid(0, 0)
        os.close(told)
        command = ["teraio", "run", "--quiet", "--device-budget", str(budget_bytes)]
        command += ["--ssd", str(self.drive.path), "--ssd-capacity", "100MB", *self.options]
        command += ["--report", str(folder / "report")] * self.reports
        forks = "forks" if self.forks else "alone"
        command += [str(folder / "train.py"), self.job, forks, str(telling)]
        become_program(folder, command)

    def _wait_for_moment(self, told):
        """Returns what the training was doing."""
        round_count = 0
        limit = self.delay if self.is_killed_at_start else START_SECONDS
        end = time.monotonic() + limit
        while (left := end - time.monotonic()) > 0 and select.select([told], [], [], left)[0]:
            lines = os.read(told, 4096).decode().splitlines()
            if not lines:
                break  # the process has ended
            for _ in lines:
                round_count += 1
                if round_count == 1 and not self.is_killed_at_start:
                    end = time.monotonic() + self.delay
        state = f"in round {min(round_count, 2)}{' or later' * (round_count > 1)}"
        return state if round_count else "at the start"

    def _complaints_of_living(self, process):
        """Of each file in the drive's directory that the process has open."""
        complaints = []
        for link in Path(f"/proc/{process}/fd").iterdir():
            with contextlib.suppress(OSError):  # it has been closed meanwhile
                if os.readlink(link).startswith(f"{self.drive.path}/"):
                    complaints += _complaints_of_open_file(link)
        return complaints

    def _complaints_of_dead(self, folder):
        complaints = []
        if names := self.drive.names():
            complaints.append(f"names are left on {self.drive.name}: {names}")
        if taken := self.drive.taken_blocks():
            complaints.append(f"{taken} blocks are taken on {self.drive.name}")
        for place in (folder / "tmp", Path("/dev/shm")):
            if left := os.listdir(place):
                complaints.append(f"left in {place}: {left}")
        return complaints


def _complaints_of_open_file(link):
    status = os.stat(link)
    complaints = []
    if status.st_nlink > 0 and status.st_size > 0:
        complaints.append(f"a file with bytes has a name: {os.readlink(link)}")
    if stat.S_IMODE(status.st_mode) != 0o600:
        complaints.append(f"a file has mode {stat.S_IMODE(status.st_mode):o}")
    if opens_as_nobody(link):
        complaints.append(f"another user can open {link}")
    return complaints


def opens_as_nobody(path):
    process = os.fork()
    if process == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.close(os.open(path, os.O_RDONLY))
            os._exit(1)
        except OSError:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) != 0


def become_program(folder, command):
    """In a fork: runs `python -m COMMAND...` to its end."""
    try:
        os.chdir(folder)
        words = os.open("words", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        os.dup2(words, 1)
        os.dup2(words, 2)
        Program(command, is_module=True).run()
    except BaseException as error:
        with contextlib.suppress(Exception):
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(70)


def half_written_count(folder):
    """Files whose replacement was under way when their process was killed."""
    files = [file for name in ("cache", "report") for file in (folder / name).rglob("*")]
    return sum(bool(HALF_WRITTEN.search(file.name)) for file in files)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("first", type=int, help="the first seed")
    parser.add_argument("end", type=int, nargs="?", help="the seed after the last; one without it")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every seed")
    parser.add_argument("--folder", help="where the drives lie; default: a temporary one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        prepare(folder)
        drives = [Drive(folder, "direct", ""), Drive(folder, "buffered", ",data=journal")]
        try:
            return try_seeds(folder, drives, arguments)
        finally:
            for drive in drives:
                subprocess.run(["umount", "--lazy", drive.path], check=True)


def prepare(folder):
    """The places and settings of all trainings, and what their forks have in common with this
    process."""
    folder.chmod(0o755)
    (folder / "tmp").mkdir()
    (folder / "train.py").write_text(TRAINING)
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    os.environ.pop("XDG_RUNTIME_DIR", None)
    os.environ["TMPDIR"] = str(folder / "tmp")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
    tempfile.tempdir = None
    subprocess.run(["mount", "-t", "tmpfs", "none", "/dev/shm"], check=True)
    torch.set_num_threads(1)
    budgets.settle_kernels()


def try_seeds(folder, drives, arguments):
    moments = collections.Counter()
    wrong_count = 0
    for seed in range(arguments.first, arguments.end or arguments.first + 1):
        killed = Killed(seed, drives)
        state, wrong = killed.run(folder)
        moments[state] += 1
        if wrong:
            wrong_count += 1
            print(f"WRONG {killed}: " + "; ".join(wrong), flush=True)
        elif arguments.verbose:
            print(f"{killed}: killed {state}", flush=True)
    for state, count in sorted(moments.items()):
        print(f"{count:6} killed {state}")
    print(f"{half_written_count(folder):6} files left by a replacement that was under way")
    return 1 if wrong_count else 0


if __name__ == "__main__":
    sys.exit(main())
