"""The training example: equal bits by seed, and the models that it names."""

import gzip
import json
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))

import pretrain_llama
from arms.warm_start import settle_kernels
from llama.corpus import documents, python_docs_corpus
from llama.model import Llama
from llama.presets import PRESETS

EXAMPLES = Path(pretrain_llama.__file__).parent
SENTENCES = [
    f"Chapter {n}. The tensor {n} leaves the device and returns, {n % 7} times." for n in range(400)
]


@pytest.fixture(scope="module", autouse=True)
def one_settled_thread():
    """Tiny models are faster on one thread, above all on a machine that does other things too."""
    settle_kernels()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A C4 file of plain sentences."""
    path = tmp_path_factory.mktemp("corpus") / "text.json.gz"
    with gzip.open(path, "wt", encoding="utf-8") as lines:
        for text in SENTENCES:
            lines.write(json.dumps({"text": text, "url": "https://example.com"}) + "\n")
    return path


@pytest.fixture(scope="module")
def train(corpus, tmp_path_factory):
    """Trains a tiny model and returns what `--losses` recorded."""
    cache = tmp_path_factory.mktemp("cache")

    def train(*arguments, steps=4):
        losses = cache / "losses.json"
        losses.unlink(missing_ok=True)
        files = ["--data", corpus, "--cache", cache, "--losses", losses]
        shape = ["--preset", "tiny", "--sequence-length", 32, "--steps", steps]
        assert pretrain_llama.main([*map(str, files), *map(str, shape), *map(str, arguments)]) == 0
        return json.loads(losses.read_text())

    return train


def test_text_is_there_without_a_package(tmp_path):
    texts = [*documents(python_docs_corpus(tmp_path / "cache", root=tmp_path))]
    assert sum(map(len, texts)) > 300_000 and "conditional execution" in " ".join(texts)


def meta_model(config):
    with torch.device("meta"):
        return Llama(config)


class TestModel:
    @pytest.mark.parametrize(
        ("preset", "published"),
        [
            ("130m", 134.1e6),
            ("1b", 1.236e9),
            ("llama3-8b", 8.030e9),
            ("llama3-70b", 70.55e9),
            ("granite-8b", 8.05e9),
        ],
    )
    def test_parameter_counts_are_the_published_ones(self, preset, published):
        count = sum(parameter.numel() for parameter in meta_model(PRESETS[preset]).parameters())
        assert count == pytest.approx(published, rel=1e-3)


class TestTraining:
    def test_same_seed_same_bits_other_seed_other_bits(self, train):
        first, again, other = train(), train(), train("--seed", 2)
        for recorded in (first, again, other):
            del recorded["step_seconds"]
        assert first == again
        assert first["parameters_sha256"] != other["parameters_sha256"]

    def test_adapters_are_all_that_is_trained(self):
        options = ["--preset", "tiny", "--dtype", "bfloat16", "--lora", "2"]
        args = pretrain_llama.parse_arguments(options)
        model = pretrain_llama.build_model(args, PRESETS["tiny"])
        optimizer = pretrain_llama.build_optimizer(args, model)
        trained = [p for group in optimizer.param_groups for p in group["params"]]
        named = {p: name for name, p in model.named_parameters()}
        assert {p.dtype for p in named} == {torch.bfloat16}
        assert len(trained) == PRESETS["tiny"].layers * 7 * 2
        assert all("lora_" in named[p] for p in trained)

    def test_script_knows_nothing_of_us(self):
        for source in [EXAMPLES / "pretrain_llama.py", *(EXAMPLES / "llama").glob("*.py")]:
            assert "teraio" not in source.read_text(), source
