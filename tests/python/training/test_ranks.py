"""Several processes on a machine: what each has of what they share."""

import json
import os

import pytest
from data_parallel import program
from front_end_trainings import by_ranks

from teraio.directories import directories_of_ranks
from teraio.errors import Error
from teraio.ranks import Ranks, device_of_rank, find_ranks


@pytest.fixture
def no_launcher(monkeypatch):
    for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_alone_there_is_one_rank(no_launcher):
    assert find_ranks() == Ranks(0, 1)


def test_the_launchers_numbers_are_taken(no_launcher):
    no_launcher.setenv("LOCAL_RANK", "2")
    no_launcher.setenv("LOCAL_WORLD_SIZE", "4")
    assert find_ranks() == Ranks(2, 4)
    assert find_ranks(0, 1) == Ranks(0, 1), "what is given goes first"
    assert find_ranks("3", "8") == Ranks(3, 8)


@pytest.mark.parametrize(
    ("rank", "count", "complaint"),
    [
        ("0", None, r"\$LOCAL_RANK is given and \$LOCAL_WORLD_SIZE is not"),
        (None, "2", r"\$LOCAL_WORLD_SIZE is given and \$LOCAL_RANK is not"),
        ("2", "2", r"\$LOCAL_RANK is 2, expected less than \$LOCAL_WORLD_SIZE, which is 2"),
        ("-1", "2", r'\$LOCAL_RANK is "-1", expected a number'),
        ("0", "two", r'\$LOCAL_WORLD_SIZE is "two", expected a number'),
        ("0", "0", r"\$LOCAL_WORLD_SIZE is 0: expected 1 to 1024"),
        ("0", "3000000", r"\$LOCAL_WORLD_SIZE is 3000000: expected 1 to 1024"),
    ],
)
def test_numbers_that_cannot_be(no_launcher, rank, count, complaint):
    for name, value in (("LOCAL_RANK", rank), ("LOCAL_WORLD_SIZE", count)):
        if value is not None:
            no_launcher.setenv(name, value)
    with pytest.raises(Error, match=complaint):
        find_ranks()


def test_cuda_is_the_ranks_gpu(no_launcher):
    def gpu(device, ranks, visible):
        return device_of_rank(device, ranks, lambda: visible)

    assert gpu("cuda", Ranks(1, 2), 2) == "cuda:1"
    assert gpu("cuda", Ranks(0, 1), 8) == "cuda"
    assert gpu("cuda:3", Ranks(1, 2), 8) == "cuda:3"
    assert gpu("cpu", Ranks(1, 2), 0) == "cpu"
    with pytest.raises(Error, match="local rank 2 of 4 has no GPU: it sees 2"):
        gpu("cuda", Ranks(2, 4), 2)
    with pytest.raises(Error, match="local rank 1 of 2 has no GPU: it sees 1"):
        gpu("cuda", Ranks(1, 2), 1)
    no_launcher.setenv("CUDA_VISIBLE_DEVICES", "5")
    assert gpu("cuda", Ranks(1, 2), 1) == "cuda:0", "the launcher has chosen"


def test_directories_with_and_without_a_place_for_the_rank(tmp_path):
    for name in ("shared", "own0", "own1"):
        (tmp_path / name).mkdir()
    root = tmp_path.resolve()
    names = [str(root / "shared"), str(root / "own{local_rank}")]
    for rank in (0, 1):
        assert directories_of_ranks(names, Ranks(rank, 2)) == [
            [root / "shared", root / "own0"],
            [root / "shared", root / "own1"],
        ]
    with pytest.raises(Error, match="own2 of local rank 2 does not exist"):
        directories_of_ranks(names, Ranks(0, 3))
    with pytest.raises(Error, match="own2 does not exist"):
        directories_of_ranks(names, Ranks(2, 3))


def test_default_directory_is_every_ranks(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    default = tmp_path.resolve() / "teraio" / "ssd"
    assert directories_of_ranks(None, Ranks(1, 2)) == [[default], [default]]


@pytest.fixture
def torchrun(python, tmp_path):
    """Runs the program in two processes under `teraio run OPTIONS...`."""
    (tmp_path / "train.py").write_text(program(5))

    def torchrun(*options):
        command = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
        return python(
            *command, "-m", "teraio", "run", "--device-budget", "6MB", *options, "train.py",
            env={**os.environ, "OMP_NUM_THREADS": "1", "USE_LIBUV": "0"},
        )  # fmt: skip

    return torchrun


def reports(tmp_path):
    return [json.loads((tmp_path / f"out{rank}/run.json").read_text()) for rank in (0, 1)]


@pytest.mark.full
def test_two_ranks_share_a_drive_and_host_memory(torchrun, warm_server, tmp_path):
    ssd = tmp_path / "ssd"
    ssd.mkdir()
    done = torchrun("--ssd", ssd, "--host-limit", "3MB", "--report", "out{local_rank}")
    assert done.code == 0, done
    for rank, run in enumerate(reports(tmp_path)):
        share = run["share"]
        assert (share["local_rank"], share["local_world_size"]) == (rank, 2)
        assert share["host_limit_bytes"] == 1_500_000
        assert [drive["ranks"] for drive in share["drives"]] == [2]
        assert run["counters"]["host_reserved_peak_bytes"] <= 1_500_000
        assert run["counters"]["ssd_bytes_written"] > 0
        assert f"local rank {rank} of 2 has 1.50 MB of host memory, 1/2 of drive " in done.out
    whole, other = (run["share"]["drives"][0]["read_bytes_per_second"] for run in reports(tmp_path))
    assert whole == other, "measured once, by one of them"
    sums = [(tmp_path / f"sums{rank}").read_text() for rank in (0, 1)]
    assert sums[0] == sums[1], "both have the same weights"
    plain = by_ranks(warm_server, 2)(["train.py"], tmp_path)
    assert plain.returncode == 0, plain
    assert [(tmp_path / f"sums{rank}").read_text() for rank in (0, 1)] == sums


@pytest.mark.full
def test_directories_of_ones_own_on_one_drive_are_shares(warm_server, tmp_path):
    for rank in (0, 1):
        (tmp_path / f"ssd{rank}").mkdir()
    (tmp_path / "train.py").write_text(program(5))
    run = ["-m", "teraio", "run", "--device-budget", "6MB", "--ssd", tmp_path / "ssd{local_rank}"]
    run += ["--report", "out{local_rank}", "train.py"]
    done = by_ranks(warm_server, 2)(run, tmp_path)
    assert done.returncode == 0, done
    drives = [run["share"]["drives"] for run in reports(tmp_path)]
    assert [drive["directory"] for [drive] in drives] == [
        str(tmp_path.resolve() / f"ssd{rank}") for rank in (0, 1)
    ]
    assert [drive["ranks"] for [drive] in drives] == [2, 2]


def test_ranks_would_write_one_file(teraio_run, tmp_path):
    ranks = ("--local-rank", "0", "--local-world-size", "2")
    (tmp_path / "train.py").write_text("")
    for option in ("--report", "--save-plan", "--save-trace", "--verify"):
        done = teraio_run("--device-budget", "1GB", *ranks, option, "out", "train.py")
        assert (done.code, done.out) == (2, "")
        assert done.err == (
            f"teraio run: {option}: out would be written by 2 ranks: "
            "put {local_rank} into its name\n"
        )
