"""`make test-wheels`: tries this Python's wheel in dist/, in a fresh environment for each PyTorch.

    python tools/wheels/try_wheel.py DIR [VERSION...]

DIR holds one environment at a time: 5 GB. The versions are those of requirements/served.txt, or the
ones that are named.
"""

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
TRAINING = Path(__file__).with_name("train.py")


def served_versions():
    """The versions of PyTorch that there are for this Python."""
    lines = (ROOT / "requirements" / "served.txt").read_text().splitlines()
    served = [Requirement(line) for line in lines if line.startswith("torch==")]
    return [
        str(each.specifier).removeprefix("==")
        for each in served
        if each.marker is None or each.marker.evaluate()
    ]


def the_wheel():
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    wheels = list((ROOT / "dist").glob(f"teraio-*-{python}-*.whl"))
    if len(wheels) != 1:
        raise SystemExit(f"dist/ has {len(wheels)} wheels for {python}: run `make release`")
    return wheels[0]


class Environment:
    """A virtual environment with the wheel and a PyTorch, and nothing that these do not require.

    Programs run in `work`, an empty folder beside it.
    """

    def __init__(self, folder, wheel, torch_version):
        shutil.rmtree(folder, ignore_errors=True)
        self.bin = folder / "environment" / "bin"
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        venv.create(folder / "environment", with_pip=True)
        pip = ("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        self.output(*pip, "--no-cache-dir", wheel, f"torch=={torch_version}")

    def output(self, command, *words):
        """Returns what a program of the environment prints, or ends this one where that fails."""
        done = subprocess.run(
            [self.bin / command, *words],
            cwd=self.work,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode != 0:
            line = " ".join(map(str, [command, *words]))
            raise SystemExit(f"`{line}` ended with code {done.returncode}:\n{done.stdout}")
        return done.stdout


def check(environment, wheel, torch_version):
    """Ends this program with a message unless the wheel works in the environment."""
    version = environment.output("teraio", "--version").strip()
    expect(version == wheel.name.split("-")[1], f"teraio --version says {version}")
    environment.output("teraio", "doctor", "--ssd", environment.work)
    of_extension = "import teraio.extension as e; print(e.load().__package__)"
    name = environment.output("python", "-c", of_extension).removeprefix("teraio.")
    minor = "_".join(torch_version.split(".")[:2])
    expect(name.startswith(f"torch_{minor}"), f"PyTorch {torch_version} got the extension {name}")
    options = ("--verify", "hashes.json", "--ssd", environment.work)
    environment.output("teraio", "run", "--device-budget", "1GB", *options, TRAINING)
    report = environment.output("teraio", "run", "--device-budget", "35MB", *options, TRAINING)
    expect("bits equal those of hashes.json" in report, f"the second training printed:\n{report}")
    return name.strip()


def expect(fact, message):
    if not fact:
        raise SystemExit(f"the wheel does not work: {message}")


def main():
    wheel, folder = the_wheel(), Path(sys.argv[1]).absolute() / "try"
    for torch_version in sys.argv[2:] or served_versions():
        print(f"{wheel.name} with PyTorch {torch_version}: ", end="", flush=True)
        environment = Environment(folder, wheel, torch_version)
        print(f"trains with equal bits ({check(environment, wheel, torch_version)})")
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
