"""Turns text into training sequences: byte-level BPE, a token file, and batches in seeded order."""

import hashlib
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from .atomic import replacing
from .corpus import DataError, documents, python_docs_corpus

END_OF_TEXT = "<|end_of_text|>"
# This text is enough to learn merges; a whole C4 file would take minutes and gigabytes.
TOKENIZER_DOCUMENTS = 20_000
# More merges than this do not help for a few megabytes of text.
TOKENIZER_VOCAB_SIZE_MAX = 32_000


def train_tokenizer(corpus: Path, vocab_size: int) -> Tokenizer:
    """Learns a byte-level BPE of at most `vocab_size` tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(islice(documents(corpus), TOKENIZER_DOCUMENTS), trainer)
    return tokenizer


def write_tokens(tokenizer: Tokenizer, corpus: Path, path: Path) -> None:
    """Writes every document's tokens, each followed by END_OF_TEXT, as one flat array."""
    end = tokenizer.token_to_id(END_OF_TEXT)
    dtype = token_dtype(tokenizer.get_vocab_size())
    texts = documents(corpus)
    with path.open("wb") as out:
        while batch := list(islice(texts, 256)):
            for encoding in tokenizer.encode_batch(batch, add_special_tokens=False):
                np.array([*encoding.ids, end], dtype=dtype).tofile(out)


def token_dtype(vocab_size: int):
    return np.uint16 if vocab_size <= 2**16 else np.uint32


def prepare(data: Path | None, cache: Path, vocab_size: int) -> np.ndarray:
    """Returns the tokens of `data` (default: Python's documentation), made once per text and size.

    The array is mapped from `cache`, not read into memory. Raises DataError.
    """
    corpus = data or python_docs_corpus(cache)
    if not corpus.is_file():
        raise DataError(f"{corpus}: no such file: expected lines of JSON, as those of C4")
    vocab_size = min(vocab_size, TOKENIZER_VOCAB_SIZE_MAX)
    tokenizer_path, tokens_path = _cached(corpus, cache, vocab_size)
    if not tokenizer_path.exists():
        with replacing(tokenizer_path) as partial:
            train_tokenizer(corpus, vocab_size).save(str(partial))
    tokenizer = Tokenizer.from_file(str(tokenizer_path))
    if not tokens_path.exists():
        with replacing(tokens_path) as partial:
            write_tokens(tokenizer, corpus, partial)
    return np.memmap(tokens_path, dtype=token_dtype(tokenizer.get_vocab_size()), mode="r")


def _cached(corpus: Path, cache: Path, vocab_size: int) -> tuple[Path, Path]:
    facts = corpus.stat()
    identity = f"{corpus.resolve()} {facts.st_size} {facts.st_mtime_ns} {vocab_size}"
    key = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return cache / f"tokenizer-{key}.json", cache / f"tokens-{key}.bin"


class Batches:
    """Endless batches of (input, target), each [batch, sequence], in the order of a seed."""

    def __init__(self, tokens: np.ndarray, batch: int, sequence: int, seed: int):
        self.tokens, self.batch, self.sequence, self.seed = tokens, batch, sequence, seed
        self._position = 0
        self._sequences = (len(tokens) - 1) // sequence
        self._order = (-1, np.empty(0, dtype=np.int64))
        if self._sequences < 1:
            raise DataError(
                f"the text has {len(tokens)} tokens, fewer than one sequence of {sequence}: name a "
                "longer text with --data"
            )

    def next(self) -> tuple[torch.Tensor, torch.Tensor]:
        starts = [self._start(self._position + i) for i in range(self.batch)]
        self._position += self.batch
        rows = np.stack([self.tokens[s : s + self.sequence + 1] for s in starts])
        rows = torch.from_numpy(rows.astype(np.int64))
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    def _start(self, position: int) -> int:
        epoch, index = divmod(position, self._sequences)
        if self._order[0] != epoch:
            shuffled = np.random.default_rng((self.seed, epoch)).permutation(self._sequences)
            self._order = (epoch, shuffled)
        return int(self._order[1][index]) * self.sequence
