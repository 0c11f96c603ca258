#!/usr/bin/env python3
"""Runs a training that repeats in parts: `trainers.py PROGRAM --losses PATH`

Those of other packages have random weights and texts. A package that is missing ends the program.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

import torch
from llama import record
from llama.atomic import write_json

from varying import parts

ITERATIONS = 40
WORDS = [f"word{number}" for number in range(400)]


def scaled(_):
    """A GradScaler that leaves steps out, and a return to the last state that was kept."""
    scaler, kept = torch.amp.GradScaler("cpu", growth_interval=5), {}

    def iteration(draw, model, optimizer):
        if draw.random() < 0.25 or not kept:
            kept.update({name: value.clone() for name, value in model.state_dict().items()})
        with torch.autocast("cpu", torch.bfloat16):
            y = model(parts.batch())
        loss = parts.loss_of(y.float()) * (float("inf") if draw.random() < 0.15 else 1)
        if not loss.isfinite() and draw.random() < 0.5:
            model.load_state_dict(kept)
            return loss
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    return parts.train(iteration, ITERATIONS)


def tokenizer():
    import tokenizers
    import transformers

    vocabulary = {word: n for n, word in enumerate(["<pad>", "<s>", "</s>", *WORDS])}
    words = tokenizers.models.WordLevel(vocabulary, unk_token="<pad>")
    made = tokenizers.Tokenizer(words)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )


def texts(draw, count):
    return [" ".join(draw.choices(WORDS, k=draw.randint(8, 24))) for _ in range(count)]


def llama():
    import transformers

    sizes = {"hidden_size": 384, "intermediate_size": 1024, "num_hidden_layers": 6}
    tokens = {"vocab_size": 512, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(num_attention_heads=4, **sizes, **tokens)
    )


def train(trainer_class, arguments_class, batch_size, columns, arguments=None, **options):
    import datasets

    folder = tempfile.mkdtemp()
    steps = {"max_steps": ITERATIONS, "logging_steps": 1, "save_strategy": "no"}
    quiet = {"report_to": [], "use_cpu": True, "bf16": False, "disable_tqdm": True}
    trainer = trainer_class(
        args=arguments_class(
            folder, per_device_train_batch_size=batch_size, **steps, **quiet, **(arguments or {})
        ),
        train_dataset=datasets.Dataset.from_dict(columns),
        **options,
    )
    trainer.train()
    losses = [logs["loss"] for logs in trainer.state.log_history if "loss" in logs]
    return losses, trainer.accelerator.unwrap_model(trainer.model)


def dpo(draw):
    import trl

    names = ("prompt", "chosen", "rejected")
    data = {name: texts(draw, 4 * ITERATIONS) for name in names}
    words = {"processing_class": tokenizer()}
    return train(trl.DPOTrainer, trl.DPOConfig, 4, data, model=llama(), ref_model=llama(), **words)


def grpo(draw):
    import trl

    options = {
        "model": llama(),
        "reward_funcs": lambda completions, **_: [float(len(each)) for each in completions],
        "processing_class": tokenizer(),
        "arguments": {"num_generations": 4, "max_completion_length": 24, "num_iterations": 2},
    }
    data = {"prompt": texts(draw, 4 * ITERATIONS)}
    return train(trl.GRPOTrainer, trl.GRPOConfig, 8, data, **options)


def cached_ranking(draw):
    import sentence_transformers as st
    import transformers
    from sentence_transformers import losses, models

    folder = tempfile.mkdtemp()
    sizes = {"hidden_size": 256, "num_hidden_layers": 6, "intermediate_size": 1024}
    config = transformers.BertConfig(vocab_size=512, num_attention_heads=4, **sizes)
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    model = st.SentenceTransformer(modules=[models.Transformer(folder), models.Pooling(256)])
    data = {name: texts(draw, 32 * ITERATIONS) for name in ("anchor", "positive")}
    loss = losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=8)
    classes = st.SentenceTransformerTrainer, st.SentenceTransformerTrainingArguments
    return train(*classes, 32, data, model=model, loss=loss)


def translation(draw):
    """T5, with an evaluation that generates after every fifth step."""
    import datasets
    import transformers as hf

    words = tokenizer()
    sizes = {"d_model": 256, "d_ff": 1024, "num_layers": 4, "num_heads": 4}
    tokens = {"vocab_size": 512, "pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 0}
    columns = ("input_ids", "labels")
    data = {name: words(texts(draw, 8 * ITERATIONS))["input_ids"] for name in columns}
    options = {
        "model": hf.T5ForConditionalGeneration(hf.T5Config(**sizes, **tokens)),
        "processing_class": words,
        "data_collator": hf.DataCollatorForSeq2Seq(words),
        "eval_dataset": datasets.Dataset.from_dict({name: data[name][:16] for name in columns}),
        "arguments": {"eval_strategy": "steps", "eval_steps": 5, "predict_with_generate": True},
    }
    return train(hf.Seq2SeqTrainer, hf.Seq2SeqTrainingArguments, 8, data, **options)


def gan(draw):
    """A generator, and a judge that Lightning trains a drawn number of times before it."""
    import lightning

    class Gan(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False
            self.generator, self.judge = (
                torch.nn.Sequential(*[parts.Block() for _ in range(parts.DEPTH)]) for _ in range(2)
            )
            self.losses = []

        def training_step(self, batch, index):
            generator, judge = self.optimizers()
            for optimizer in [judge] * draw.randint(1, 3) + [generator]:
                made = self.generator(parts.batch())
                loss = self.judge(made).mean() - (optimizer is judge) * self.judge(batch).mean()
                optimizer.zero_grad()
                self.manual_backward(loss)
                optimizer.step()
            self.losses.append(loss.item())

        def configure_optimizers(self):
            return [torch.optim.Adam(each.parameters()) for each in (self.generator, self.judge)]

    quiet = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
    batches = torch.utils.data.DataLoader(torch.randn(ITERATIONS, parts.BATCH, parts.WIDTH), None)
    lightning.Trainer(max_epochs=1, accelerator="cpu", **quiet).fit(made := Gan(), batches)
    return made.losses, made


TRAINERS = (scaled, dpo, grpo, cached_ranking, translation, gan)
PROGRAMS = {
    **{each.__name__: lambda _, p=each: parts.train(p, ITERATIONS) for each in parts.PROGRAMS},
    **{each.__name__: each for each in TRAINERS},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--losses", type=Path)
    args, _ = parser.parse_known_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)  # two of them may choose other kernels at their first call
    losses, model = PROGRAMS[args.program](random.Random(1))
    hashes = {
        "losses_sha256": record.losses_sha256(losses),
        "parameters_sha256": record.model_sha256(model),
    }
    write_json(args.losses, hashes)


if __name__ == "__main__":
    main()
