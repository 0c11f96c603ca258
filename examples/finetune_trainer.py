"""Fine-tunes a language model, or adapters of it, with the Hugging Face Trainer.

    teraio run --device-budget 20GB --ssd /mnt/nvme0 examples/finetune_trainer.py \
      --model meta-llama/Llama-3.1-8B --data texts.jsonl --bf16 --lora_rank 16 --output_dir out

All options of transformers.TrainingArguments are options of this program.
"""

import itertools
from dataclasses import dataclass, field

import datasets
import peft
import transformers

QUANTIZATIONS = {
    "none": lambda: None,
    "nf4": lambda: transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True
    ),
    "int8": lambda: transformers.BitsAndBytesConfig(load_in_8bit=True),
    "torchao": lambda: transformers.TorchAoConfig(torchao.quantization.Int8WeightOnlyConfig()),
}


@dataclass
class Options:
    model: str = field(metadata={"help": "a folder, or a name on the Hugging Face Hub"})
    data: str = field(metadata={"help": 'a file of lines such as {"text": "..."}'})
    length: int = field(default=2048, metadata={"help": "tokens of a sequence"})
    lora_rank: int = field(default=0, metadata={"help": "train adapters of this rank"})
    quantization: str = field(default="none", metadata={"help": ", ".join(QUANTIZATIONS)})


def sequences(texts):
    tokens = list(itertools.chain(*tokenizer(texts["text"])["input_ids"]))
    starts = range(0, len(tokens) - options.length + 1, options.length)
    return {"input_ids": [tokens[start : start + options.length] for start in starts]}


parser = transformers.HfArgumentParser((Options, transformers.TrainingArguments))
options, arguments = parser.parse_args_into_dataclasses()
tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
if options.quantization == "torchao":
    import torchao.quantization
texts = datasets.load_dataset("json", data_files=options.data, split="train")
model = transformers.AutoModelForCausalLM.from_pretrained(
    options.model, dtype="float32", quantization_config=QUANTIZATIONS[options.quantization]()
)
if options.lora_rank:
    config = peft.LoraConfig(r=options.lora_rank, target_modules="all-linear")
    model = peft.get_peft_model(model, config)
trainer = transformers.Trainer(
    model=model,
    args=arguments,
    train_dataset=texts.map(sequences, batched=True, remove_columns=texts.column_names),
    data_collator=transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
trainer.train(resume_from_checkpoint=arguments.resume_from_checkpoint)
trainer.save_model()
