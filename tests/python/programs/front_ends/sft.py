"""Fine-tunes with TRL's SFTTrainer on texts, packed: sft.py WAY OUTCOME."""

import datasets
import tokenizers
import transformers
import trl
from outcome import states_of, write_outcome
from small_llama import LENGTH, make_llama

WORDS = [f"word{number}" for number in range(400)]


def make_tokenizer():
    vocabulary = {word: number for number, word in enumerate(["<pad>", "<s>", "</s>", *WORDS])}
    model = tokenizers.models.WordLevel(vocabulary, unk_token="<pad>")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )


texts = [" ".join(WORDS[(7 * start + step) % 400] for step in range(40)) for start in range(200)]
arguments = trl.SFTConfig(
    output_dir="checkpoints",
    max_steps=8,
    per_device_train_batch_size=2,
    max_length=LENGTH,
    packing=True,
    logging_steps=1,
    report_to=[],
    use_cpu=True,
    bf16=False,
    disable_tqdm=True,
    save_strategy="no",
)
trainer = trl.SFTTrainer(
    # TRL computes the loss in tiles of 32,768 words by the tokens of the batch, at most 17 MB here,
    # whatever the vocabulary. A quarter of this model's peak is more.
    model=make_llama(hidden_size=256, intermediate_size=704, num_hidden_layers=8),
    args=arguments,
    train_dataset=datasets.Dataset.from_dict({"text": texts}),
    processing_class=make_tokenizer(),
)
trainer.train()
losses = [logs["loss"] for logs in trainer.state.log_history if "loss" in logs]
model = trainer.accelerator.unwrap_model(trainer.model)
write_outcome(losses, dict(model.named_parameters()), states_of(trainer.optimizer.optimizer))
