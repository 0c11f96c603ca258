"""The training example: its data, its model, and that a resumed run continues to the last bit."""

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))

import pretrain_llama
from arms.warm_start import settle_kernels
from llama import record
from llama.corpus import DataError, documents, python_docs, python_docs_corpus
from llama.model import Llama
from llama.presets import PRESETS
from llama.tokens import END_OF_TEXT, Batches, prepare

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


def losses_of(record):
    return [float.fromhex(loss) for loss in record["losses"]]


def meta_model(config):
    with torch.device("meta"):
        return Llama(config)


def real_model(config, seed=1):
    torch.manual_seed(seed)
    model = meta_model(config).to_empty(device="cpu")
    model.init_weights()
    return model


class TestCorpus:
    def test_reads_plain_and_compressed_json_lines(self, corpus, tmp_path):
        plain = tmp_path / "text.json"
        plain.write_bytes(gzip.decompress(corpus.read_bytes()))
        assert list(documents(plain)) == list(documents(corpus)) == SENTENCES

    @pytest.mark.parametrize("line", ["not json", "[]", "{}", '{"text": 3}'])
    def test_malformed_line_is_named(self, tmp_path, line):
        path = tmp_path / "text.json"
        path.write_text('{"text": "fine"}\n' + line + "\n")
        with pytest.raises(DataError, match=r"text.json:2: expected a JSON object"):
            list(documents(path))

    def test_truncated_archive_is_named(self, corpus, tmp_path):
        path = tmp_path / "cut.json.gz"
        path.write_bytes(corpus.read_bytes()[:-20])
        with pytest.raises(DataError, match="cut.json.gz: cannot be read"):
            list(documents(path))

    def test_absent_docs_name_the_package(self, tmp_path):
        with pytest.raises(DataError, match="apt-get install python3-doc"):
            python_docs(tmp_path)

    def test_newest_docs_become_json_lines_once(self, tmp_path):
        for version in ("python3.9", "python3.11"):
            page = tmp_path / version / "html/_sources/library/os.rst.txt"
            page.parent.mkdir(parents=True)
            page.write_text(f"prose of {version}")
        made = python_docs_corpus(tmp_path / "cache", root=tmp_path)
        first = made.stat().st_mtime_ns
        assert list(documents(made)) == ["prose of python3.11"]
        assert python_docs_corpus(tmp_path / "cache", root=tmp_path).stat().st_mtime_ns == first
        assert [path.name for path in made.parent.iterdir()] == ["python3.11-docs.json.gz"]


class TestTokens:
    def test_tokens_decode_to_the_text(self, corpus, tmp_path):
        tokens = prepare(corpus, tmp_path, vocab_size=300)
        tokenizer = Tokenizer.from_file(str(next(tmp_path.glob("tokenizer-*.json"))))
        assert tokenizer.get_vocab_size() <= 300
        text = tokenizer.decode(tokens.tolist(), skip_special_tokens=False)
        assert text == "".join(sentence + END_OF_TEXT for sentence in SENTENCES)

    def test_tokens_are_made_once_per_text_and_vocabulary(self, corpus, tmp_path):
        first = prepare(corpus, tmp_path, vocab_size=300)
        times = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
        assert np.array_equal(first, prepare(corpus, tmp_path, vocab_size=300))
        assert times == {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
        prepare(corpus, tmp_path, vocab_size=400)
        assert len(list(tmp_path.iterdir())) == 4

    def test_position_continues_exactly(self):
        tokens = np.arange(1000)
        whole, resumed = (Batches(tokens, batch=4, sequence=8, seed=5) for _ in range(2))
        for _ in range(40):
            whole.next()
        resumed.position = whole.position
        assert torch.equal(whole.next()[0], resumed.next()[0])

    def test_too_little_text_is_an_error(self):
        with pytest.raises(DataError, match="5 tokens, fewer than one sequence"):
            Batches(np.arange(5), batch=1, sequence=8, seed=1)


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
    def test_learns(self, train):
        losses = losses_of(train("--micro-batch", 8, "--learning-rate", 3e-3, steps=30))
        assert losses[-1] < losses[0] - 1.5

    def test_same_seed_same_bits_other_seed_other_bits(self, train):
        first, again, other = train(), train(), train("--seed", 2)
        for recorded in (first, again, other):
            del recorded["step_seconds"]
        assert first == again
        assert first["parameters_sha256"] != other["parameters_sha256"]

    @pytest.mark.parametrize("implementation", ["single", "foreach", "fused"])
    def test_resumed_run_equals_the_uninterrupted_one(self, train, tmp_path, implementation):
        common = ["--optimizer-impl", implementation, "--accumulation", 2, "--warm-up-steps", 2]
        whole = train(*common, steps=8)
        checkpoint = tmp_path / "run.pt"
        stop_at_checkpoint(train, [*common, "--save", checkpoint, "--save-every", 5])
        assert torch.load(checkpoint, weights_only=True)["step"] == 5
        resumed = train(*common, "--resume", checkpoint, steps=8)
        assert len(resumed["losses"]) == 8
        for what in ("losses", "losses_sha256", "parameters_sha256", "optimizer_sha256"):
            assert resumed[what] == whole[what], what

    @pytest.mark.parametrize("flag", ["--activation-checkpointing", "--bf16"])
    def test_flags_train(self, train, flag):
        plain, flagged = losses_of(train()), losses_of(train(flag))
        assert flagged == pytest.approx(plain, rel=0.02)

    def test_accumulated_passes_make_the_same_step(self, train):
        whole = losses_of(train("--micro-batch", 4))
        parts = losses_of(train("--micro-batch", 1, "--accumulation", 4))
        assert parts == pytest.approx(whole, rel=1e-4)

    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [(["--heads", "3"], "dim 64"), (["--data", "/nowhere.json"], "/nowhere.json: no such")],
    )
    def test_bad_input_is_one_line(self, capsys, arguments, complaint):
        assert pretrain_llama.main(arguments) == 2
        error = capsys.readouterr().err
        assert complaint in error and error.count("\n") == 1

    def test_script_knows_nothing_of_us(self):
        for source in [EXAMPLES / "pretrain_llama.py", *(EXAMPLES / "llama").glob("*.py")]:
            assert "teraio" not in source.read_text(), source


def stop_at_checkpoint(train, arguments):
    """Starts the eight steps and stops them right after their first checkpoint."""
    save = pretrain_llama.checkpoints.save

    def save_and_stop(*state):
        save(*state)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretrain_llama.checkpoints, "save", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            train(*arguments, steps=8)


class TestHashes:
    def test_one_bit_changes_the_hash(self):
        model = torch.nn.Linear(3, 3)
        before = record.model_sha256(model)
        with torch.no_grad():
            model.weight.view(torch.int32)[1, 1] ^= 1
        assert record.model_sha256(model) != before
