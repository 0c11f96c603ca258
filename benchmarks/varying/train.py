#!/usr/bin/env python3
"""Runs a training whose steps differ: `train.py PROGRAM [options of pretrain_llama.py]`"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

from llama.tokens import prepare
from pretrain_llama import config_of, parse_arguments

from varying.buckets import Buckets
from varying.experts import Experts
from varying.lengths import Lengths
from varying.training import Training

PROGRAMS = {"fixed": Training, "lengths": Lengths, "buckets": Buckets, "experts": Experts}


def main() -> None:
    program, *options = sys.argv[1:]
    args = parse_arguments(options)
    config = config_of(args)
    tokens = prepare(args.data, args.cache, config.vocab_size)
    training = PROGRAMS[program](args, config, tokens)
    training.run()
    if args.losses:
        training.write_record()


if __name__ == "__main__":
    main()
